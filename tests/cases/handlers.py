"""Graph breaks while an exception is handled: in `except`, `finally` and on the way out of `with`."""

import contextlib
import re
import sys

import toy
from cases import given, whole


def one():
    return (toy.arange(3),)


def fails(kind=ValueError, text="text"):
    raise kind(text)


class Custom(Exception):
    def __init__(self, a, b=2):
        super().__init__(a)
        self.b = b


class Manager:
    def __init__(self, swallow=False):
        self.swallow = swallow
        self.log = []

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(("exit", None if kind is None else kind.__name__, trace is None))
        return self.swallow


@given(one)
def test_break_in_except(x):
    y = x + 1
    try:
        fails()
    except ValueError:
        y = y * 2
        toy.save(y)
        y = y * 3
    return y + 1, sys.exc_info()


@given(one)
def test_break_in_except_as(x):
    y = x + 1
    try:
        fails()
    except ValueError as error:
        y = y * 2
        toy.save(y)
        y = y * 3
        text = str(error)
        kind = sys.exc_info()[0].__name__
        same = sys.exc_info()[1] is error
    return y + 1, text, kind, same, "error" in locals()


@given(one)
def test_break_in_except_of_a_native_error(x):
    y = x + 1
    try:
        int("no number")
    except ValueError as error:
        y = y * 2
        toy.save(y)
        return y * 3, error.args, sys.exc_info()[1] is error


@given(one)
def test_bare_raise_behind_a_break(x):
    y = x + 1
    try:
        fails()
    except ValueError:
        toy.save(y)
        y = y * 3
        raise


@given(one)
def test_bare_raise_of_the_callers(x):
    def inner(y):
        y = y * 2
        toy.save(y)
        raise

    try:
        fails()
    except ValueError:
        inner(x + 1)


@given(one)
def test_raise_behind_a_break_has_a_context(x):
    y = x + 1
    try:
        fails()
    except ValueError:
        toy.save(y)
        y = y * 3
        raise KeyError(y.ndim)


@given(one)
def test_raise_from_behind_a_break(x):
    y = x + 1
    try:
        fails()
    except ValueError as error:
        toy.save(y)
        y = y * 3
        raise KeyError(y.ndim) from error


@given(one)
def test_raise_from_none_behind_a_break(x):
    y = x + 1
    try:
        fails()
    except ValueError:
        toy.save(y)
        raise KeyError(y.ndim) from None


@given(one)
def test_context_of_a_native_error(x):
    y = x + 1
    try:
        fails()
    except ValueError:
        y = y * 2
        int(str(y.tolist()))


@given(one)
def test_nested_handlers(x):
    y = x + 1
    seen = []
    try:
        fails()
    except ValueError as outer:
        try:
            fails(KeyError)
        except KeyError as inner:
            y = y * 2
            toy.save(y)
            seen.append((sys.exc_info()[0].__name__, inner.__context__ is outer))
            y = y + 1
        toy.save(y)
        seen.append(sys.exc_info()[0].__name__)
        y = y * 3
    seen.append(sys.exc_info()[0])
    return y, seen


@given(one)
def test_nested_handlers_caught_further_out(x):
    y = x + 1
    try:
        try:
            fails()
        except ValueError:
            y = y * 2
            toy.save(y)
            fails(KeyError)
    except KeyError as error:
        y = y + 5
        toy.save(y)
        return y * 2, error.__context__.args
    return y


@given(one)
def test_break_in_finally(x):
    y = x + 1
    try:
        y = y * 2
    finally:
        toy.save(y)
        y = y + 3
    return y * 2


@given(one)
def test_break_in_finally_after_return(x):
    y = x + 1
    try:
        return y * 2
    finally:
        toy.save(y)
        y = y + 3


@given(one)
def test_break_in_finally_on_the_way_out(x):
    y = x + 1
    try:
        fails()
    finally:
        y = y * 2
        toy.save(y)
        print(sys.exc_info()[0])
        y = y + 3
    return y


@given(one)
def test_break_in_finally_inside_try(x):
    y = x + 1
    try:
        try:
            y = y * 2
            fails()
        finally:
            y = y * 2
            toy.save(y)
            y = y + 3
    except ValueError as error:
        y = y + len(str(error))
        toy.save(y)
        y = y + 1
    return y


@given(one)
def test_return_in_finally_behind_a_break(x):
    y = x + 1
    try:
        fails()
    finally:
        toy.save(y)
        y = y + 3
        return y


@given(one)
def test_continue_and_break_in_finally(x):
    y = x + 1
    for i in range(4):
        try:
            y = y + 1
            if i % 2:
                fails()
        finally:
            toy.save(y)
            y = y * 2
            if i == 1:
                continue
            if i == 3:
                break
    return y


@given(one)
def test_break_statement_through_finally(x):
    y = x + 1
    for i in range(4):
        try:
            y = y + 1
            if i == 1:
                continue
            if i == 2:
                break
        finally:
            y = y * 2
            toy.save(y)
            y = y + 1
    return y


@given(one)
def test_nested_finally_bodies(x):
    y = x + 1
    try:
        try:
            return y * 2
        finally:
            y = y + 1
            toy.save(y)
            y = y * 2
            print(y.tolist())
    finally:
        y = y + 2
        toy.save(y)
        y = y * 2
        print(y.tolist())


@given(one)
def test_loop_of_caught_errors(x):
    y = x + 1
    out = []
    for i in range(4):
        try:
            y = y + 1
            if y.sum() > 20:
                raise ValueError(i)
            y = y * 2
        except ValueError as error:
            out.append((error.args, sys.exc_info()[0].__name__))
            if y.sum() > 40:
                y = y - 10
        else:
            toy.save(y)
    return y, out, sys.exc_info()


@given(lambda: (toy.arange(3), Manager()), lambda: (toy.arange(3), Manager(True)))
def test_break_in_with_then_fail(x, m):
    with m:
        y = x + 1
        toy.save(y)
        y = y * 2
        fails()
    return m.log


class Printing(Manager):
    def __enter__(self):
        print("in")
        return super().__enter__()

    def __exit__(self, kind, value, trace):
        print("out", kind)
        return super().__exit__(kind, value, trace)


@given(lambda: (toy.arange(3), Printing()), lambda: (toy.arange(3), Printing(True)))
def test_breaks_at_the_exit_with_an_error(x, m):
    y = x + 1
    with m as entered:
        y = y * 2
        fails()
    return y + 1, entered is m


@given(lambda: (toy.arange(3), Printing()))
def test_breaks_at_entry_and_exit(x, m):
    y = x + 1
    with m as entered:
        y = y * 2
    return y + 1, entered is m


@given(lambda: (toy.arange(3), Printing(), Printing(True)))
def test_breaks_at_two_managers(x, a, b):
    y = x + 1
    with a, b:
        y = y * 2
        toy.save(y)
        y = y + 1
        fails()
    return y + 1


@contextlib.contextmanager
def managed(log):
    log.append("in")
    try:
        yield len(log)
    except ValueError as error:
        log.append(error.args)
    finally:
        log.append("out")


@given(lambda: (toy.arange(3), []))
def test_generator_manager(x, log):
    y = x + 1
    with managed(log) as n:
        y = y * n
        toy.save(y)
        y = y + 1
    return y * 2


@given(lambda: (toy.arange(3), []))
def test_generator_manager_that_swallows(x, log):
    y = x + 1
    with managed(log) as n:
        y = y * n
        fails()
    return y * 2


@given(lambda: (toy.arange(3), []))
def test_generator_manager_that_lets_through(x, log):
    y = x + 1
    with managed(log) as n:
        y = y * n
        fails(KeyError)
    return y * 2


@given(one)
def test_suppress(x):
    y = x + 1
    with contextlib.suppress(ValueError):
        y = y * 2
        toy.save(y)
        y = y + 1
        fails()
    return y


@given(one)
def test_lock(x):
    import threading

    lock = threading.Lock()
    y = x + 1
    with lock:
        y = y * 2
    with lock:
        y = y + 1
        toy.save(y)
        y = y + 1
    return y, lock.locked()


@given(one)
def test_custom_exception_raised_last(x):
    y = x + 1
    toy.save(y)
    raise Custom("a", b=y.shape)


@given(one)
def test_custom_exception_caught(x):
    y = x + 1
    try:
        raise Custom("a", b=y.shape)
    except Custom as error:
        y = y * 2
        return y, str(error), error.args, error.b, repr(error)


@given(one)
def test_raise_again_by_name(x):
    y = x + 1
    try:
        fails()
    except ValueError as error:
        y = y * 2
        toy.save(y)
        raise error


@given(one)
def test_the_except_clause_breaks(x):
    y = x + 1

    def classes():
        toy.save(y)
        return (KeyError, ValueError)

    try:
        fails()
    except classes() as error:
        y = y * 2
        return y, error.args


@given(one)
def test_except_of_no_class(x):
    y = x + 1
    try:
        fails()
    except y.ndim:
        return y * 2


@given(one)
def test_assert_on_a_tensor_with_a_message(x):
    y = x + 1
    assert y.sum() < 0, f"sum is {y.sum().item()}"
    return y


@given(one)
def test_unbound_local_behind_a_break(x):
    y = x + 1
    toy.save(y)
    y = y * 2
    del x
    return y, x


@given(one)
def test_unbound_argument(x):
    y = x + 1
    del x
    return y, x


@given(one)
def test_deleted_captured_argument_over_a_break(x):
    def late():
        return x

    y = x + 1
    del x
    toy.save(y)
    y = y * 2
    return late(), y


@given(one)
def test_missing_global(x):
    y = x + 1
    return missing(y)  # noqa: F821


@given(one)
def test_error_in_a_callee_behind_a_break(x):
    def inner(y):
        toy.save(y)
        y = y + 1
        fails()

    y = x + 1
    toy.save(y)
    inner(y * 2)


@given(one)
def test_error_of_a_callee_caught(x):
    def inner(y):
        toy.save(y)
        y = y + 1
        fails()

    y = x + 1
    try:
        inner(y * 2)
    except ValueError as error:
        toy.save(y)
        y = y * 3
        return y, error


@given(one)
def test_error_kept(x):
    y = x + 1
    kept = None
    try:
        fails()
    except ValueError as error:
        kept = error
    y = y * 2
    toy.save(y)
    return y + 1, kept


def caught():
    try:
        fails()
    except ValueError as error:
        return error


@given(one)
def test_the_traceback_of_an_exception_that_was_raised(x):
    error = caught()
    trace = error.__traceback__
    return x + 1, trace is None, trace.tb_frame.f_code.co_name, ValueError().__traceback__


@given(one)
def test_a_traceback_is_taken_away(x):
    error = caught().with_traceback(None)
    other = caught()
    other.__traceback__ = None
    return x + 1, error.__traceback__, other.__traceback__, error, other


def catching():
    try:
        yield 1
    except ValueError as error:
        yield error.args


@given(lambda: (toy.arange(3), ValueError("given")))
def test_an_exception_of_the_caller_is_thrown_into_a_generator(x, error):
    generator = catching()
    first = next(generator)
    return x + first, generator.throw(error), error.__traceback__ is None


@given(one)
def test_what_is_no_exception_is_thrown_into_a_generator(x):
    generator = catching()
    first = next(generator)
    try:
        generator.throw(5)
    except TypeError as error:
        return x + first, str(error), next(generator, None)


def exception():
    """`sys.exception()`, which there is from 3.11 on."""
    return sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1]


def called_natively(work):
    """`work` is called by C code: a frame of its own."""
    re.sub("a", lambda _: work() or "", "a")


@given(lambda: (toy.arange(2),))
def test_raised_while_a_caller_handles_an_exception(x):
    seen = []

    def work():
        y = x + 1
        try:
            raise ValueError(2)
        except ValueError as error:
            seen.append((error.__context__, sys.exc_info()[0], y))
        try:
            {}["k"]
        except KeyError as error:
            kept = error
        seen.append((kept, kept.__context__))
        seen.append(sys.exc_info()[0])

    called_natively(work)
    try:
        raise TypeError("outer")
    except TypeError:
        called_natively(work)
    return x + 1, seen


@given(lambda: (toy.arange(2),))
def test_raised_again_while_a_caller_handles_an_exception(x):
    def work():
        y = x + 1
        raise

    def outcome():
        try:
            called_natively(work)
        except Exception as error:
            return error

    first = outcome()
    try:
        raise TypeError("outer")
    except TypeError as error:
        second = outcome()
        return x + 1, first, second, second is error


@whole
@given(lambda: (toy.arange(2),))
def test_nothing_is_handled(x):
    before = sys.exc_info()
    try:
        raise
    except RuntimeError as error:
        text = str(error)
    try:
        raise ValueError
    except ValueError:
        inside = sys.exc_info()[0]
    return x + 1, before, text, inside, sys.exc_info(), exception()


class Point:
    kind = "point"


@given(*[lambda n=n: (n,) for n in (1, 2, 3, 4, 5)])
def test_changing_text_under_a_handler_in_a_loop(n):
    w = "a" * n
    for _ in range(n % 3):
        Point.kind = w[:4]
        try:
            {w: 1}[""] = 1
        finally:
            pass
    return w
