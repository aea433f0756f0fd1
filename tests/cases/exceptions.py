"""Exceptions raised, caught, chained and let through."""

import sys

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


class Custom(Exception):
    def __init__(self, a, b=2):
        super().__init__(a)
        self.b = b


def fails(kind, text="text"):
    raise kind(text)


@whole
@given(one)
def test_caught(x):
    try:
        raise ValueError("bad")
    except ValueError:
        x = x + 1
    return x


@whole
@given(one)
def test_caught_by_name(x):
    try:
        fails(KeyError, "k")
    except (TypeError, KeyError) as error:
        return x + 1, error.args
    return x


@whole
@given(one)
def test_caught_from_an_operation(x):
    out = []
    for work in (lambda: 1 // 0, lambda: [][1], lambda: {}["k"], lambda: None.a, lambda: 1 + "a", lambda: int("z"), lambda: missing):  # noqa: F821
        try:
            work()
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return x + 1, out


@whole
@given(one)
def test_finally(x):
    out = []
    try:
        x = x + 1
    finally:
        out.append("finally")
    return x, out


@whole
@given(one)
def test_finally_after_return(x):
    out = []

    def inner():
        try:
            return x + 1
        finally:
            out.append("finally")

    return inner(), out


@whole
@given(one)
def test_else_and_finally(x):
    out = []
    for fail in (True, False):
        try:
            if fail:
                raise Custom("c")
        except Custom as error:
            out.append(("except", error.b))
        else:
            out.append("else")
        finally:
            out.append("finally")
    return x + 1, out


@whole
@given(one)
def test_nested(x):
    try:
        try:
            raise ValueError(1)
        except TypeError:
            x = x * 100
        finally:
            x = x + 1
    except ValueError:
        x = x * 2
    return x


@whole
@given(one)
def test_reraised(x):
    try:
        try:
            raise ValueError(1)
        except ValueError:
            x = x + 1
            raise
    except ValueError as error:
        return x, error.args


@given(one)
def test_raised_out(x):
    y = x + 1
    raise ValueError("out", y.shape)


@given(one)
def test_raised_out_of_a_call(x):
    y = x + 1
    fails(Custom)
    return y


@given(one)
def test_raised_out_with_cause(x):
    y = x + 1
    try:
        fails(KeyError)
    except KeyError as error:
        raise ValueError(y.ndim) from error


@given(one)
def test_raised_out_with_context(x):
    y = x + 1
    try:
        fails(KeyError)
    except KeyError:
        raise ValueError(y.ndim)


@given(one)
def test_raised_from_none(x):
    y = x + 1
    try:
        fails(KeyError)
    except KeyError:
        raise ValueError(y.ndim) from None


@given(one)
def test_raised_after_a_side_effect(x):
    y = x + 1
    EFFECTS.append(y)
    raise ValueError("after")


EFFECTS = []


@given(lambda: (toy.arange(2), []))
def test_raised_after_a_change_of_an_argument(x, items):
    items.append(x + 1)
    fails(ValueError)


@given(lambda: (toy.arange(2), []))
def test_raised_in_finally_after_effects(x, items):
    try:
        items.append(x + 1)
    finally:
        items.append(2)
        fails(ValueError)


@given(one)
def test_raise_of_no_exception(x):
    y = x + 1
    raise y.ndim


@given(one)
def test_raise_without_active(x):
    y = x + 1
    if y.ndim:
        raise
    return y


@whole
@given(one)
def test_assert_that_holds(x):
    assert x.ndim == 1, "one dimension"
    return x + 1


@given(one)
def test_assert_that_fails(x):
    y = x + 1
    assert y.ndim == 2, "two dimensions"
    return y


@given(one)
def test_assert_on_a_tensor(x):
    y = x + 1
    assert y.sum() > 0
    return y * 2


@whole
@given(one)
def test_loop_left_from_try(x):
    for i in range(3):
        try:
            if i == 1:
                break
            x = x + 10
        finally:
            x = x + i
    return x


@whole
@given(one)
def test_continue_in_try(x):
    for i in range(3):
        try:
            if i == 1:
                continue
            x = x + 10
        finally:
            x = x + i
    return x


@whole
@given(one)
def test_return_from_finally(x):
    def inner():
        try:
            raise ValueError
        finally:
            return x + 1

    return inner()


@whole
@given(one)
def test_name_deleted_after_except(x):
    error = "before"
    try:
        fails(ValueError)
    except ValueError as error:  # noqa: F841
        pass
    return x + 1, "error" in ["error"]


@given(one)
def test_name_unbound_after_except(x):
    y = x + 1
    try:
        fails(ValueError)
    except ValueError as error:  # noqa: F841
        pass
    return y, error


class Manager:
    def __init__(self, swallow):
        self.swallow = swallow
        self.log = []

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(("exit", None if kind is None else kind.__name__))
        return self.swallow


@whole
@given(lambda: (toy.arange(2), Manager(True)))
def test_with_that_swallows(x, m):
    with m:
        fails(ValueError)
    return x + 1


@given(lambda: (toy.arange(2), Manager(False)))
def test_with_that_lets_through(x, m):
    y = x + 1
    with m:
        fails(ValueError)
    return y


@whole
@given(lambda: (toy.arange(2), Manager(False), Manager(False)))
def test_two_managers(x, a, b):
    with a, b as c:
        y = x + len(c.log)
    return y


@whole
@given(lambda: (toy.arange(2), Manager(False)))
def test_return_from_with(x, m):
    with m:
        return x + 1


@given(lambda: (toy.arange(2), Manager(False)))
def test_break_in_with(x, m):
    with m:
        y = x + 1
        toy.save(y)
        y = y * 2
    return y


@given(lambda: (toy.arange(2),))
def test_break_in_try(x):
    try:
        y = x + 1
        toy.save(y)
        y = y * 2
        fails(ValueError)
    except ValueError:
        y = y + 3
    return y


@given(lambda: (toy.arange(2),))
def test_with_of_no_manager(x):
    y = x + 1
    with 5:
        pass
    return y


@given(lambda: (toy.arange(2),))
def test_custom_exception_out(x):
    y = x + 1
    raise Custom("a", b=y.shape)


@given(lambda: (toy.arange(2),))
def test_tensor_in_an_exception(x):
    raise Custom(x + 1)


@whole
@given(lambda: (toy.arange(2),))
def test_tensor_in_a_caught_exception(x):
    try:
        raise Custom(x + 1, b=x * 2)
    except Custom as error:
        return error.args[0] + error.b


@whole
@given(lambda: (toy.arange(2),))
def test_stop_iteration_of_next(x):
    it = iter([1])
    out = []
    while True:
        try:
            out.append(next(it))
        except StopIteration:
            break
    return x + 1, out


@given(one)
def test_graph_error_in_a_handlers_reach(x):
    log = []
    y = x * 2
    try:
        z = toy.sqrt(y - 1) + 1
        log.append("not reached")
    except ValueError as error:
        log.append(error.args)
        z = y - 1
    finally:
        log.append("finally")
    return z * 2, log


@whole
@given(one)
def test_graph_error_that_leaves(x, *rest, **named):
    y = x * 2
    named["y"] = y
    z = toy.sqrt(y - 1) + len(rest)
    return z * 2 + y, rest, named


def fails_in_graph(x, items, *, k=2):
    items.append(k)
    y = x * k
    return toy.sqrt(y - 1)


@given(lambda: (toy.arange(3), []))
def test_graph_error_in_a_callee(x, items):
    def get():
        return items, x

    try:
        return fails_in_graph(x, items, k=3)
    except ValueError as error:
        names = []
        trace = error.__traceback__
        while trace is not None:
            names.append((trace.tb_frame.f_code.co_name, trace.tb_lineno))
            trace = trace.tb_next
        return get(), names[:2], error.__context__


@given(lambda: (toy.arange(3), []))
def test_graph_error_behind_a_break(x, items):
    for k in range(3):
        float(x.sum())
        try:
            items.append(k)
            x = toy.sqrt(x * k - 1) + x
        except ValueError:
            items.append(sys.exc_info()[1].args)
    return x, items


@given(lambda: (toy.arange(3), []))
def test_interrupt_of_a_graph_behind_a_break(x, items):
    try:
        try:
            toy.save(x)
            x = toy.interruptible(x * 2 - 1) + 1
            items.append("not reached")
        finally:
            items.append("finally")
            toy.save(x)
    except KeyboardInterrupt as error:
        items.append(error.args)
    return x + 1, items


def interrupted(x, items):
    try:
        y = x + 1
        toy.save(y)
        return toy.interruptible(2 - y) * 3
    finally:
        items.append(sys.exc_info()[0])


@given(lambda: (toy.arange(3), []))
def test_interrupt_of_a_graph_in_a_callee_behind_a_break(x, items):
    try:
        try:
            items.append(interrupted(x, items))
        finally:
            items.append("caller")
    except KeyboardInterrupt:
        x = x * 2
    return x, items


@given(lambda: (toy.arange(3), []))
def test_graph_error_in_a_handler(x, items):
    try:
        raise KeyError(float(x.sum()))
    except KeyError as error:
        y = x * 2 + 1
        items.append(error.args)
        return toy.sqrt(y - 3), items


class Scaled:
    def __init__(self, k):
        self.k = k
        self.calls = []

    def __call__(self, x):
        def inner(y):
            self.calls.append(k)
            return toy.sqrt(y * k)

        k = self.k
        return inner(x - 1) + inner(x)


@given(lambda: (toy.arange(3), Scaled(2)), lambda: (toy.arange(3) + 1, Scaled(2)))
def test_graph_error_with_cells(x, scaled):
    try:
        y = scaled(x)
    except ValueError:
        y = x
    return y * 2, scaled.calls


def refusal(work):
    try:
        return work()
    except (TypeError, ValueError, AttributeError) as error:
        return type(error).__name__, str(error)


@given(one)
def test_attributes_that_errors_may_lack(x):
    y = x + 1
    few, more = BlockingIOError("a", "b"), BlockingIOError("a", "b", 3)
    read = refusal(lambda: few.characters_written)
    more.characters_written = 5
    return y, read, more.characters_written, refusal(lambda: KeyError(1).missing)


@whole
@given(one)
def test_the_arguments_of_an_exception_are_one_tuple(x):
    found = []
    for work in (lambda: [][x.ndim], lambda: refuse(x.ndim)):
        try:
            work()
        except (IndexError, ValueError) as error:
            args = error.args
            found.append((args is error.args, args))
            error.args = (1, 2)
            found.append(args is error.args)
    return x + 1, found


def refuse(n):
    raise ValueError(n, "refused")


class Failed(Exception):
    """A class of the program's own."""


class Renamed(Exception):
    def __init__(self, *args):
        super().__init__("renamed", *args)


@whole
@given(one)
def test_the_tuple_that_an_exception_is_given_is_its_own(x):
    args = (x.ndim, "why")
    found = [kind(*args).args is args for kind in (ValueError, Failed, Renamed)]
    found += [ValueError(*[1, 2]).args, ValueError(0, *args).args, Renamed(*args).args, ValueError(*args, *args).args]
    error = KeyError(1)
    error.args = args
    return x + 1, found, error.args is args


@whole
@given(lambda: (toy.arange(2), (1, "why")))
def test_exceptions_that_leave_with_their_tuples(x, args):
    read, written = Failed(3), ValueError()
    written.args = args
    return x + 1, args, ValueError(*args), written, read, read.args


def too_deep(n):
    return too_deep(n + 1)


@given(one)
def test_calls_that_are_too_deep_are_caught(x):
    y = x * 2
    try:
        too_deep(0)
    except RecursionError:
        y = y + 1
    return y * 3


@given(one)
def test_calls_that_are_too_deep_are_caught_behind_a_break(x):
    caught = 0
    for _ in range(3):
        y = x * 2
        try:
            toy.save(y)
            too_deep(0)
        except RecursionError:
            caught += 1
            x = y + 1
    return x, caught


def caught_below(x, n):
    if n:
        return caught_below(x, n - 1) + 1
    try:
        return too_deep(0)
    except RecursionError:
        return x * 2


@given(one)
def test_calls_that_are_too_deep_are_caught_in_a_callee(x):
    return caught_below(x + 1, 60) * 2


@given(one)
def test_arguments_of_exceptions_that_outlive_the_graph(x):
    kinds = [MemoryError, RecursionError, OSError, StopIteration, SystemExit, KeyboardInterrupt, UnicodeError, SyntaxError]
    made = [kind("kept") for kind in kinds] + [MemoryError(), MemoryError("a", 1)]
    return x + 1, made, [error.args for error in made]
