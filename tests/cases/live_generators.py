"""Generators that have started and live where the graph breaks, or leave the function: they are made anew, in the middle."""

import contextlib
import gc
import sys

import toy
from cases import given


def one():
    return (toy.arange(2),)


def logged():
    return (toy.arange(2), [])


def count(n):
    for i in range(n):
        yield i


def scaled(x, n):
    while n:
        yield x * n
        n -= 1
    return "done"


def guarded(log, n=3):
    log.append("start")
    try:
        for i in range(n):
            log.append((yield i))
    except ValueError as error:
        log.append(("caught", str(error)))
        yield "caught"
    finally:
        log.append("end")


@contextlib.contextmanager
def managed(log, name="a"):
    log.append(("enter", name))
    try:
        yield name
    finally:
        log.append(("exit", name))


@contextlib.contextmanager
def suppressing(log):
    try:
        yield log
    except ZeroDivisionError as error:
        log.append(str(error))


@given(logged)
def test_contextmanager_around_a_break(x, log):
    y = x * 2
    with managed(log) as name:
        toy.save(y)
        y = y * 2
        log.append(name)
    return y + 1


@given(logged)
def test_contextmanager_whose_block_raises_behind_a_break(x, log):
    y = x * 2
    with managed(log):
        toy.save(y)
        y = y * 2
        raise KeyError("behind")
    return y + 1


@given(logged)
def test_contextmanager_that_suppresses_behind_a_break(x, log):
    y = x * 2
    with suppressing(log):
        toy.save(y)
        y = y * 2
        y = 1 / 0
    return y + 1


@given(logged)
def test_contextmanager_whose_break_raises(x, log):
    y = x * 2
    with suppressing(log):
        y = y + int(toy.save(y) or 0) / 0
    return y + 1


@given(logged)
def test_contextmanagers_nested(x, log):
    y = x * 2
    with managed(log, "a"), managed(log, "b"):
        with managed(log, "c"):
            toy.save(y)
            y = y * 2
        toy.save(y)
        y = y + 1
    toy.save(y)
    return y + 1


@given(logged)
def test_contextmanager_in_a_loop(x, log):
    for i in range(3):
        with managed(log, i):
            x = x + i
            toy.save(x)
            if i == 1:
                continue
            x = x * 2
    return x


@given(logged)
def test_contextmanager_returned_from(x, log):
    for i in range(3):
        with managed(log, i):
            x = x + i
            toy.save(x)
            if i == 1:
                return x * 2
    return x


def helper(x, log):
    with managed(log, "helper"):
        y = x * 2
        toy.save(y)
        return y + 1


@given(logged)
def test_contextmanager_in_a_callee(x, log):
    with managed(log, "caller"):
        return helper(x - 1, log) * 3


@given(logged)
def test_exit_stack_of_contextmanagers(x, log):
    with contextlib.ExitStack() as stack:
        stack.enter_context(managed(log, "a"))
        y = x * 2
        stack.enter_context(managed(log, "b"))
        toy.save(y)
        y = y * 3
    return y + 1


@given(one)
def test_next_around_a_break(x):
    g = scaled(x + 1, 3)
    a = next(g)
    toy.save(a)
    return a + next(g), list(g)


@given(one)
def test_loop_over_a_generator_with_a_break(x):
    y = x
    for v in scaled(x + 1, 3):
        y = y + v
        toy.save(y)
        y = y * 2
    return y


@given(one)
def test_loop_over_a_generator_expression_with_a_break(x):
    y = x
    for v in (x * i for i in range(3) if i != 1):
        y = y + v
        toy.save(y)
        y = y * 2
    return y


@given(one)
def test_generator_expression_half_used(x):
    k = 2
    g = ((a, b * k) for a in range(2) for b in [x, x + a])
    first = next(g)
    toy.save(first[1])
    k = 3
    return first, list(g), k


@given(logged)
def test_send_around_a_break(x, log):
    g = guarded(log)
    a = next(g)
    b = g.send("before")
    toy.save(x + a)
    return x + b, g.send("behind"), list(g), log


@given(logged)
def test_throw_behind_a_break(x, log):
    g = guarded(log)
    a = next(g)
    toy.save(x + a)
    return x + 1, g.throw(ValueError("thrown")), list(g)


@given(logged)
def test_close_behind_a_break(x, log):
    g = guarded(log)
    a = next(g)
    toy.save(x + a)
    g.close()
    log.append("closed")
    return x + 1, list(g)


@given(logged)
def test_finished_before_a_break(x, log):
    g = guarded(log, 1)
    y = x + next(g)
    next(g, None)
    toy.save(y)
    g.close()
    return y + 1, next(g, "none"), type(g).__name__, g.__name__


@given(logged)
def test_break_in_a_handler_of_a_generator(x, log):
    def handling():
        try:
            raise KeyError("k")
        except KeyError as error:
            log.append(repr(sys.exc_info()[1]))
            yield x + 1
            log.append(repr(sys.exc_info()[1]))
            log.append(str(error))
            yield x + 2
        log.append(repr(sys.exc_info()[1]))

    g = handling()
    y = next(g)
    toy.save(y)
    z = next(g)
    return y * z, list(g)


def delegating(x, log):
    log.append("outer")
    try:
        result = yield from scaled(x, 3)
        log.append(result)
        yield from [10, 20]
        got = yield from guarded(log)
        log.append(got)
    finally:
        log.append("outer end")


@given(logged)
def test_yield_from_around_a_break(x, log):
    g = delegating(x, log)
    y = next(g)
    toy.save(y)
    y = y + next(g) + next(g)
    toy.save(y)
    rest = next(g)
    toy.save(y)
    return y, rest, list(g)


@given(logged)
def test_yield_from_a_list_around_a_break(x, log):
    g = delegating(x, log)
    y = next(g) + next(g) + next(g) + next(g)
    toy.save(y)
    return y, list(g)


@given(logged)
def test_throw_through_yield_from_behind_a_break(x, log):
    g = delegating(x, log)
    for _ in range(6):
        y = next(g)
    toy.save(x + y)
    return x + 1, g.throw(ValueError("through")), list(g)


@given(logged)
def test_close_through_yield_from_behind_a_break(x, log):
    g = delegating(x, log)
    for _ in range(6):
        y = next(g)
    toy.save(x + y)
    g.close()
    return x + 1, log


@given(logged)
def test_generator_escapes(x, log):
    g = guarded(log)
    y = x + next(g)
    return y, [g]


@given(logged)
def test_generator_that_is_dropped_in_the_graph(x, log):
    for v in guarded(log):
        y = x + v
        break
    log.append("behind")
    return y * 2


@given(logged)
def test_generator_with_captured_variables(x, log):
    def make(a, *rest, key=3, **more):
        b = a + 1

        def add(n):
            nonlocal b
            b = b + n
            return b

        yield add
        log.append((len(rest), key, sorted(more)))
        yield b

    g = make(x, 1, 2, other=4)
    add = next(g)
    add(2)
    toy.save(add(1))
    add(3)
    return x + 1, next(g), list(g)


@given(logged)
def test_generator_not_started_with_stars(x, log):
    def make(a, *rest, key=3, **more):
        yield a, rest, key, more

    g = make(x + 1, 1, key=2, other=4)
    toy.save(x)
    return list(g)


@given(logged)
def test_what_a_resumed_generator_shows(x, log):
    g = guarded(log)
    h = delegating(x, log)
    next(g), next(h)
    y = x + 1
    toy.save(y)
    log.append((g.__name__, g.__qualname__, g.gi_running, g.gi_frame.f_lineno, g.gi_code.co_name, g.gi_yieldfrom))
    log.append((sorted(g.gi_frame.f_locals), h.gi_yieldfrom.__name__, h.gi_frame.f_lineno))
    g.close()
    log.append(g.gi_frame)
    h.close()
    return y * 2


@given(logged)
def test_traceback_through_a_resumed_generator(x, log):
    def failing():
        yield x
        yield x + 1
        raise KeyError("inside")

    y = x
    for v in failing():
        y = y + v
        toy.save(y)
    return y


@given(one)
def test_generators_in_zip_and_enumerate(x):
    y = x
    for i, (a, b) in enumerate(zip(scaled(x, 3), count(5))):
        y = y + a * b + i
        toy.save(y)
        y = y - 1
    return y


@given(one)
def test_two_generators_sharing_an_iterator(x):
    it = iter(range(6))

    def every():
        for v in it:
            yield v

    a, b = every(), every()
    y = x + next(a) + next(b)
    toy.save(y)
    return y + next(a) * 10, next(b), next(it), list(a)


@given(logged)
def test_dropped_behind_a_break(x, log):
    g = guarded(log)
    y = x + next(g)
    toy.save(y)
    y = y * 2
    g = None
    gc.collect()
    log.append("dropped")
    return y


@given(logged)
def test_loop_left_behind_a_break(x, log):
    for v in guarded(log):
        y = x + v
        toy.save(y)
        if v == 1:
            break
    log.append("left")
    return y * 2


@given(logged)
def test_exception_leaves_contextmanagers(x, log):
    with managed(log, "a") as a, managed(log, "b"):
        y = x + 1
        toy.save(y)
        y = y * 2
        raise KeyError(a)


@given(logged)
def test_exception_behind_no_break_leaves_contextmanagers(x, log):
    with managed(log, "a") as a, managed(log, "b"):
        y = x + 1
        missing = undefined
    return y


def closing(x, log):
    try:
        while True:
            x = x + 1
            yield x
    finally:
        log.append("closed")


def leaving(x, n, log):
    for t in closing(x, log):
        x = x + t
        if n == 0:
            raise ValueError(n)
        if n == 1:
            toy.save(x)
            raise ValueError(n)
        if n == 2:
            saved_and_raised(x)
        if n == 3:
            [][n]
        return x


def saved_and_raised(x):
    toy.save(x)
    raise ValueError("behind a break")


@given(logged)
def test_generator_on_the_stack_is_left_by_an_exception(x, log):
    for n in range(5):
        try:
            x = leaving(x, n, log)
        except (ValueError, IndexError) as error:
            log.append(repr(error))
    return x * 2, log
