"""Where exceptions were raised: tracebacks that the program looks at while it handles them."""

import io
import logging
import sys
import traceback
import unittest


class Plain(Exception):
    pass


def _fails(n=0):
    if n:
        return _fails(n - 1)
    raise Plain("deep")


def _places(tb):
    places = []
    while tb is not None:
        places.append((tb.tb_frame.f_code.co_name, tb.tb_lineno))
        tb = tb.tb_next
    return places


def lines_of_a_traceback(x):
    try:
        _fails(2)
    except Plain as e:
        return x + 1, e.__traceback__.tb_lineno, _places(e.__traceback__)


def of_the_function_itself(x):
    try:
        raise KeyError("k")
    except KeyError as e:
        tb = e.__traceback__
        return x + 1, tb.tb_frame.f_code.co_name, tb.tb_next is None, tb.tb_lineno


def of_exc_info(x):
    try:
        _fails(1)
    except Plain as e:
        kind, value, tb = sys.exc_info()
        return x + 1, kind is Plain, value is e, _places(tb)


def reraised_places(x):
    def again():
        try:
            _fails()
        except Plain:
            raise

    try:
        again()
    except Plain as e:
        return x + 1, _places(e.__traceback__)


def raised_twice(x):
    e = Plain("twice")
    places = []
    for _ in range(2):
        try:
            raise e
        except Plain as caught:
            places.append(len(_places(caught.__traceback__)))
    return x + 1, places

def whole_text(x):
    try:
        _fails(1)
    except Plain:
        return x + 1, traceback.format_exc()


def whole_text_of_an_operation(x):
    def divide(a, b):
        return (a + 1) // b

    try:
        divide(1, 0)
    except ZeroDivisionError as e:
        return x + 1, traceback.format_exception(type(e), e, e.__traceback__)


def text_with_a_cause(x):
    try:
        try:
            _fails()
        except Plain as e:
            raise KeyError("k") from e
    except KeyError as e:
        return x + 1, "".join(traceback.format_exception(type(e), e, e.__traceback__))


def text_with_a_context(x):
    try:
        try:
            _fails()
        except Plain:
            {}["k"]
    except KeyError:
        return x + 1, traceback.format_exc()


def text_without_context(x):
    try:
        try:
            _fails()
        except Plain:
            raise KeyError("k") from None
    except KeyError:
        return x + 1, traceback.format_exc()


def printed_to_a_file(x):
    out = io.StringIO()
    try:
        _fails()
    except Plain:
        traceback.print_exc(file=out)
    return x + 1, out.getvalue()
def given_its_own_traceback(x):
    try:
        try:
            _fails()
        except Plain as e:
            raise Plain("new").with_traceback(e.__traceback__)
    except Plain as e:
        return x + 1, _places(e.__traceback__)


def traceback_in_exit(x):
    class Looks:
        def __enter__(self):
            return self

        def __exit__(self, kind, value, tb):
            self.places = _places(tb)
            return True

    with Looks() as looks:
        _fails()
    return x + 1, looks.places


def through_a_generator(x):
    def g():
        yield 1
        _fails()

    try:
        list(g())
    except Plain as e:
        return x + 1, _places(e.__traceback__)


def thrown_into_a_generator(x):
    def g():
        yield 1
        yield 2

    it = g()
    next(it)
    try:
        it.throw(Plain("thrown"))
    except Plain as e:
        return x + 1, _places(e.__traceback__)


def through_finally(x):
    def g():
        try:
            _fails()
        finally:
            str(1)

    try:
        g()
    except Plain as e:
        return x + 1, _places(e.__traceback__)


def file_of_the_frame(x):
    try:
        _fails()
    except Plain as e:
        frame = e.__traceback__.tb_next.tb_frame
        return x + 1, frame.f_code is _fails.__code__, frame.f_globals is globals(), frame.f_code.co_filename == __file__


def context_chain(x):
    try:
        try:
            try:
                _fails()
            except Plain:
                raise KeyError(1)
        except KeyError:
            raise ValueError(2) from None
    except ValueError as e:
        chain = []
        while e is not None:
            chain.append((type(e).__name__, _places(e.__traceback__), e.__suppress_context__))
            e = e.__context__
        return x + 1, chain


def in_many_lines(x):
    try:
        _fails(
            int(
                "z",
            ),
        )
    except ValueError as e:
        return x + 1, _places(e.__traceback__), traceback.format_exc()


def in_a_comprehension(x):
    try:
        [1 // n for n in (1, 0)]
    except ZeroDivisionError as e:
        return x + 1, _places(e.__traceback__)


def of_a_recursion(x):
    try:
        _fails(6)
    except Plain:
        return x + 1, traceback.format_exc(), traceback.format_exc(limit=2)


def texts_with_limits(x):
    try:
        _fails(4)
    except Plain as e:
        return x + 1, traceback.format_exc(1), traceback.format_exc(-1), traceback.format_tb(e.__traceback__, 2), traceback.format_exc(chain=False)


class _Own(Exception):
    def __init__(self, code):
        self.code = code

    def __str__(self):
        return f"code {self.code}"


def whole_text_of_ones_own(x):
    try:
        try:
            raise _Own(3)
        except _Own as e:
            raise _Own(4) from e
    except _Own as e:
        return x + 1, traceback.format_exception(type(e), e, e.__traceback__), traceback.format_exc()


def printed_as_given(x):
    out = io.StringIO()
    try:
        _fails()
    except Plain as e:
        traceback.print_exception(type(e), e, e.__traceback__, file=out)
        traceback.print_exc(1, file=out)
    return x + 1, out.getvalue()


def text_while_nothing_is_handled(x):
    return x + 1, traceback.format_exc()


def text_of_one_raised_in_a_handler(x):
    try:
        try:
            _fails()
        except Plain as e:
            first = traceback.format_exc()
            try:
                raise e
            except Plain:
                second = traceback.format_exc()
            third = traceback.format_exc()
            raise
    except Plain:
        return x + 1, first, second, third, traceback.format_exc()


def text_of_one_raised_by_name_again(x):
    def again():
        try:
            _fails()
        except Plain as e:
            raise e

    try:
        again()
    except Plain:
        return x + 1, traceback.format_exc()


def through_with(x):
    class Passes:
        def __enter__(self):
            return self

        def __exit__(self, *details):
            return False

    def inside():
        with Passes(), Passes():
            _fails()

    try:
        inside()
    except Plain:
        return x + 1, traceback.format_exc()


def through_a_context_manager_of_a_generator(x):
    import contextlib

    @contextlib.contextmanager
    def managed():
        try:
            yield
        finally:
            str(1)

    try:
        with managed():
            _fails()
    except Plain as e:
        return x + 1, _places(e.__traceback__)


def through_a_delegating_generator(x):
    def inner():
        yield 1
        _fails()

    def outer():
        yield from inner()

    try:
        for _ in outer():
            pass
    except Plain:
        return x + 1, traceback.format_exc()


def thrown_through_a_delegating_generator(x):
    def inner():
        yield 1

    def outer():
        yield from inner()

    it = outer()
    next(it)
    try:
        it.throw(Plain("thrown"))
    except Plain:
        return x + 1, traceback.format_exc()


def stop_in_a_generator(x):
    def g():
        yield 1
        raise StopIteration

    try:
        list(g())
    except RuntimeError as e:
        return x + 1, _places(e.__traceback__), _places(e.__cause__.__traceback__)


def in_callbacks(x):
    def key(n):
        raise Plain(n)

    texts = []
    for work in (lambda: sorted([1, 2], key=key), lambda: list(map(key, [1])), lambda: max([1, 2], key=key)):
        try:
            work()
        except Plain:
            texts.append(traceback.format_exc())
    return x + 1, texts


def in_special_methods(x):
    class Odd:
        def __add__(self, other):
            raise Plain("add")

        def __getattr__(self, name):
            raise Plain(name)

        def __len__(self):
            return -1

        def __iter__(self):
            _fails()

    odd, texts = Odd(), []
    for work in (lambda: odd + 1, lambda: odd.name, lambda: len(odd), lambda: [*odd], lambda: odd < 1):
        try:
            work()
        except Exception:
            texts.append(traceback.format_exc())
    return x + 1, texts


def in_a_class_body(x):
    try:
        class Body:
            a = 1
            _fails()
    except Plain as e:
        return x + 1, _places(e.__traceback__)


def in_an_initializer(x):
    class Made:
        def __init__(self):
            _fails()

    try:
        Made()
    except Plain:
        return x + 1, traceback.format_exc()


def of_wrong_arguments(x):
    def two(a, b):
        return a

    try:
        two(1)
    except TypeError:
        return x + 1, traceback.format_exc()


def of_an_unpacking(x):
    try:
        a, b = [1, 2, 3]
    except ValueError:
        return x + 1, traceback.format_exc()


def of_an_assertion(x):
    try:
        assert x is None, "said"
    except AssertionError:
        return x + 1, traceback.format_exc()


def of_a_loop(x):
    texts = []
    for n in (1, 0):
        for m in range(2):
            try:
                1 // n
            except ZeroDivisionError:
                texts.append(traceback.format_exc())
            else:
                continue
            break
    return x + 1, texts


def taken_away_and_back(x):
    try:
        _fails()
    except Plain as e:
        tb = e.__traceback__
        e.__traceback__ = None
        none = e.__traceback__, traceback.format_exception(type(e), e, e.__traceback__)
        e.__traceback__ = tb.tb_next
        return x + 1, none, _places(e.__traceback__), e.__traceback__ is tb.tb_next, tb.tb_frame is tb.tb_frame


def reraised_in_finally(x):
    def inner():
        try:
            try:
                _fails()
            finally:
                x + 1
        except KeyError:
            pass
        finally:
            x + 2

    try:
        inner()
    except Plain:
        return x + 1, traceback.format_exc()


def summary_of_a_traceback(x):
    try:
        _fails(1)
    except Plain as e:
        summary = traceback.extract_tb(e.__traceback__)
        return x + 1, [(f.name, f.lineno, f.line) for f in summary], summary[-1].filename == __file__


def lines_of_a_summary(x):
    try:
        _fails(1)
    except Plain as e:
        return x + 1, traceback.format_list(traceback.extract_tb(e.__traceback__)), traceback.format_tb(e.__traceback__)


def exception_as_a_text(x):
    try:
        _fails(1)
    except Plain as e:
        text = traceback.TracebackException.from_exception(e)
        return x + 1, "".join(text.format()), list(text.format_exception_only()), len(text.stack)


def exception_as_a_text_with_its_cause(x):
    try:
        try:
            {}["key"]
        except KeyError as e:
            raise ValueError(1 + len(str(e))) from e
    except ValueError as e:
        return x + 1, "".join(traceback.TracebackException.from_exception(e).format())


def part_of_a_line_as_a_text(x):
    try:
        return x, [1, 2, 3][0] + {"a": 1}["b"] / 0
    except KeyError as e:
        return x + 1, "".join(traceback.TracebackException.from_exception(e).format())


def cleared_frames(x):
    try:
        _fails(1)
    except Plain as e:
        traceback.clear_frames(e.__traceback__)
        return x + 1, str(e)


def cleared_frames_of_nothing(x):
    return x + 1, traceback.clear_frames(None)


def expected_errors(x):
    case = unittest.TestCase()
    with case.assertRaises(Plain) as seen:
        _fails(1)
    with case.assertRaisesRegex(ZeroDivisionError, "by zero"):
        1 // 0
    case.assertRaises(KeyError, {}.__getitem__, "k")
    return x + 1, str(seen.exception)


def texts_of_missing_attributes(x):
    texts = []
    for read in (lambda: (3).foo, lambda: [].appendd, lambda: "".uper, lambda: None.x, lambda: {"a": x}.keyz, lambda: (x,).indx):
        try:
            read()
        except AttributeError as e:
            texts.append(traceback.format_exception_only(type(e), e))
            texts.append(traceback.format_exc())
    return x + 1, texts
