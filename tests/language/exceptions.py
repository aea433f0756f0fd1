"""Exceptions made, raised and caught in the function."""

import logging
import sys

class Plain(Exception):
    pass


class Coded(ValueError):
    def __init__(self, code, detail=None):
        super().__init__(f"code {code}")
        self.code = code
        self.detail = detail


class Described(Exception):
    def __str__(self):
        return "described " + repr(self.args)


class Unsaid(Exception):
    def __init__(self, a, b):
        self.total = a + b


class Slotted(Exception):
    @property
    def first(self):
        return self.args[0]


def _fail(what):
    raise Plain(what)


def _coded(code):
    raise Coded(code, detail=[code])


def args_of_a_caught_exception(x):
    try:
        raise ValueError("a", 2)
    except ValueError as e:
        return x + e.args[1]


def text_of_a_caught_exception(x):
    try:
        raise ValueError("text")
    except ValueError as e:
        return x + len(str(e)), str(e), repr(e)


def text_of_an_exception_of_an_operation(x):
    try:
        {}["key"]
    except KeyError as e:
        return x + 1, str(e), e.args


def zero_division(x):
    try:
        1 // 0
    except ZeroDivisionError as e:
        return x + 1, e.args, type(e).__name__


def index_error(x):
    try:
        [1][3]
    except IndexError as e:
        return x + 1, str(e)


def attribute_error(x):
    try:
        (1).nothing
    except AttributeError as e:
        return x + 1, str(e)


def caught_by_a_base(x):
    try:
        raise KeyError("k")
    except LookupError as e:
        return x + 1, isinstance(e, KeyError)


def caught_by_a_tuple(x):
    try:
        raise TypeError("t")
    except (KeyError, TypeError) as e:
        return x + len(e.args)


def plain_user_exception(x):
    try:
        _fail("what")
    except Plain as e:
        return x + 1, e.args, str(e)


def user_exception_with_init(x):
    try:
        raise Coded(3)
    except Coded as e:
        return x + e.code, str(e), e.detail


def user_exception_with_keyword(x):
    try:
        _coded(4)
    except ValueError as e:
        return x + e.code, e.detail, e.args


def user_exception_with_str(x):
    try:
        raise Described(1, "b")
    except Described as e:
        return x + 1, str(e)


def user_exception_without_super_init(x):
    try:
        raise Unsaid(1, 2)
    except Unsaid as e:
        return x + e.total, e.args


def user_exception_with_a_property(x):
    try:
        raise Slotted(5)
    except Slotted as e:
        return x + e.first


def attribute_added_to_an_exception(x):
    try:
        e = Plain("p")
        e.extra = 7
        raise e
    except Plain as caught:
        return x + caught.extra


def tensor_in_an_exception(x):
    try:
        raise Plain(x + 1)
    except Plain as e:
        return e.args[0] * 2


def tensor_as_an_attribute_of_an_exception(x):
    try:
        raise Unsaid(x, x)
    except Unsaid as e:
        return e.total + 1


def reraised(x):
    try:
        try:
            raise Plain("p")
        except Plain:
            raise
    except Plain as e:
        return x + 1, e.args


def cause(x):
    try:
        try:
            raise KeyError("k")
        except KeyError as e:
            raise Plain("p") from e
    except Plain as e:
        return x + 1, type(e.__cause__).__name__, e.__cause__.args, e.__suppress_context__


def context(x):
    try:
        try:
            raise KeyError("k")
        except KeyError:
            raise Plain("p")
    except Plain as e:
        return x + 1, e.__context__.args, e.__cause__ is None, e.__suppress_context__


def suppressed_context(x):
    try:
        try:
            raise KeyError("k")
        except KeyError:
            raise Plain("p") from None
    except Plain as e:
        return x + 1, e.__cause__ is None, e.__suppress_context__


def finally_runs(x):
    log = []
    try:
        try:
            raise Plain()
        finally:
            log.append("finally")
    except Plain:
        log.append("except")
    else:
        log.append("else")
    return x + len(log), log


def else_runs(x):
    try:
        y = x + 1
    except Plain:
        y = x
    else:
        y = y * 2
    return y


def return_in_finally_order(x):
    log = []

    def inner():
        try:
            return 1
        finally:
            log.append(2)

    return x + inner(), log


def exception_in_a_loop(x):
    total = 0
    for k in ["a", "b", "c"]:
        try:
            total += {"a": 1, "c": 3}[k]
        except KeyError:
            continue
    return x + total


def break_out_of_try(x):
    for i in range(3):
        try:
            if i == 1:
                break
        finally:
            x = x + 1
    return x


def nested_handlers(x):
    seen = []
    try:
        try:
            raise Plain(1)
        except KeyError:
            seen.append("no")
    except Plain as e:
        seen.append(e.args[0])
    return x + 1, seen


def raised_class_without_call(x):
    try:
        raise Plain
    except Plain as e:
        return x + 1, e.args


def assertion(x):
    try:
        assert 1 == 2, "message"
    except AssertionError as e:
        return x + 1, str(e)


def stop_iteration_value(x):
    def g():
        yield 1
        return 5

    it = g()
    next(it)
    try:
        next(it)
    except StopIteration as e:
        return x + e.value


def is_same_exception(x):
    e = Plain()
    try:
        raise e
    except Plain as caught:
        return x + 1, caught is e


def with_traceback(x):
    try:
        raise Plain("t").with_traceback(None)
    except Plain as e:
        return x + 1, e.args


def exception_equality(x):
    a, b = Plain(1), Plain(1)
    return x + 1, a == b, a == a, a != b


def set_args(x):
    e = ValueError(1)
    e.args = (4, 5)
    return x + e.args[0], str(e)


def os_error(x):
    try:
        raise OSError(2, "missing")
    except OSError as e:
        return x + e.errno, e.strerror, str(e)


def key_error_text(x):
    e = KeyError("a")
    return x + 1, str(e), f"{e}", "%s" % e


def new_exception_returned(x):
    return x + 1, [Plain("kept"), ValueError(1)]


def isinstance_of_exceptions(x):
    e = Coded(1)
    return x + 1, isinstance(e, ValueError), isinstance(e, (KeyError, Coded)), issubclass(Coded, Exception)


def class_of_an_exception(x):
    try:
        raise Coded(1)
    except ValueError as e:
        return x + 1, e.__class__.__name__, e.__class__ is Coded


def exception_printed(x):
    try:
        try:
            raise KeyError("k")
        except KeyError as k:
            raise Coded(5) from k
    except Coded as e:
        print("failed:", e, e.__cause__, [e.code], sep="|")
        print(repr(e.__context__), Described(1))
    return x + 1


def exception_logged(x):
    log = logging.getLogger("exceptions that are logged")
    try:
        raise Coded(5)
    except Coded as e:
        log.debug("failed: %s", e)
        log.info("%s %r %d", e, Described(2), 3)
    return x + 1


def exit_of_the_program(x):
    codes = []
    for status in (3, None, "text"):
        try:
            sys.exit(status)
        except SystemExit as e:
            codes.append((e.code, e.args))
    try:
        sys.exit()
    except SystemExit as e:
        codes.append((e.code, str(e)))
    return x + 1, codes


def text_of_an_exception_that_holds_another(x):
    e = Plain("outer", ValueError("inner"), 3)
    return x + 1, str(e), repr(e), str(Plain(KeyError("k"))), f"{Plain(Plain(1))!r}"
