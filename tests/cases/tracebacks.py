"""Tracebacks that are looked at, of exceptions that outlive the graph, and of sources that change."""

import os
import sys
import tempfile
import traceback
import unittest
import weakref

import toy
from cases import changed, given, whole


def one():
    return (toy.arange(2),)


def fails(n=1):
    if n:
        return fails(n - 1)
    raise ValueError("failed")


def places(error):
    entry, found = error.__traceback__, []
    while entry is not None:
        found.append((entry.tb_frame.f_code.co_name, entry.tb_lineno))
        entry = entry.tb_next
    return found


@whole
@given(one)
def test_looked_at(x):
    try:
        fails()
    except ValueError as error:
        return x + 1, places(error), traceback.format_exc()


@given(one)
def test_looked_at_and_returned(x):
    try:
        fails()
    except ValueError as error:
        found = places(error)
        kept = error
    return x + 1, found, kept


@given(one)
def test_looked_at_and_raised_on(x):
    y = x + 1
    try:
        fails()
    except ValueError as error:
        print(y.shape, places(error))
        raise


@given(one)
def test_looked_at_around_a_break(x):
    try:
        fails()
    except ValueError as error:
        before, told = places(error), traceback.format_exc()
        toy.save(x + 1)
        return x + 2, before, told, before == places(error), told == traceback.format_exc()


@given(one)
def test_a_traceback_is_returned(x):
    try:
        fails()
    except ValueError as error:
        entry = error.__traceback__
    return x + 1, entry.tb_lineno, entry.tb_next is None, [entry.tb_next]


@given(one)
def test_a_traceback_is_given_to_another(x):
    try:
        fails()
    except ValueError as error:
        other = KeyError("other").with_traceback(error.__traceback__)
    found = places(other)
    try:
        raise other
    except KeyError as error:
        return x + 1, found, places(error), error


@given(one)
def test_a_traceback_is_changed(x):
    try:
        fails(2)
    except ValueError as error:
        error.__traceback__.tb_next = None
        return x + 1, places(error)


@given(one)
def test_variables_of_a_frame_in_a_traceback(x):
    try:
        fails(2)
    except ValueError as error:
        inner = error.__traceback__.tb_next.tb_frame
        return x + 1, inner.f_locals, inner.f_back.f_code.co_name


@given(one)
def test_frames_that_the_trace_does_not_follow(x):
    import textwrap

    try:
        textwrap.wrap("text", 0)
    except ValueError as error:
        return x + 1, len(places(error)), places(error)[0][0]


SOURCE = os.path.join(tempfile.gettempdir(), f"sourced{os.getpid()}.py")


def write(said):
    with open(SOURCE, "w") as file:
        file.write(f"def sourced():\n    raise ValueError  # {said}\n")


write("first")
exec(compile(open(SOURCE).read(), SOURCE, "exec"))


@changed("write('after that')", "write('last')", "write('first')")
def test_the_source_is_changed(x):
    try:
        sourced()  # noqa: F821
    except ValueError:
        return x + 1, traceback.format_exc()


@changed("sys.tracebacklimit = 1", "del sys.tracebacklimit")
def test_tracebacks_are_cut(x):
    try:
        fails(3)
    except ValueError:
        return x + 1, traceback.format_exc()


class Kept:
    pass


def holds(log, how):
    kept = Kept()
    log.append(weakref.ref(kept))
    if how == "generator":
        running = closes(log)
        next(running)
    raise ValueError("held")


def closes(log):
    try:
        yield 1
    finally:
        log.append("closed")


def goes_on(log):
    try:
        yield 1
    except ValueError:
        log.append("caught")
        yield 2
    log.append("end")


@given(one, one)
def test_frames_are_cleared_that_hold_a_generator(x):
    log = []
    try:
        holds(log, "generator")
    except ValueError as e:
        before = len(log)
        traceback.clear_frames(e.__traceback__)
        after = len(log)
        return x + 1, before, after, str(e)


@given(one, one)
def test_frames_are_cleared_of_a_generator_that_goes_on(x):
    log, running = [], None
    running = goes_on(log)
    next(running)
    error = ValueError("in")
    running.throw(error)
    try:
        traceback.clear_frames(error.__traceback__)
    except RuntimeError:
        log.append("refused")
    return x + 1, log, list(running), log


@given(one, one)
def test_a_summary_goes_out(x):
    try:
        fails_here(x)
    except ValueError as e:
        summary = traceback.extract_tb(e.__traceback__)
        return x + 1, [tuple(f) for f in summary], [f.line for f in summary]


@given(one, one)
def test_the_exception_of_assert_raises_goes_out(x):
    case = unittest.TestCase()
    with case.assertRaises(ValueError) as seen:
        fails_here(x)
    return x + 1, seen.exception


@given(one, one)
def test_assert_raises_fails(x):
    case = unittest.TestCase()
    y = x + 1
    try:
        with case.assertRaises(ValueError):
            y = y + 1
    except AssertionError as e:
        return y, str(e)


@given(one, one)
def test_assert_raises_lets_another_error_through(x):
    case = unittest.TestCase()
    with case.assertRaises(KeyError):
        fails_here(x + 1)
    return x


def fails_here(x):
    raise ValueError(f"of {x.shape}")


@given(one, one)
def test_a_text_of_an_exception_that_was_raised_by_a_break(x):
    try:
        x = x + 1
        toy.save(x)
        fails_here(x)
    except ValueError as e:
        text = traceback.TracebackException.from_exception(e)
        return x + 1, list(text.format_exception_only()), [f.name for f in text.stack]


@given(one, one)
def test_a_break_where_frames_are_cleared(x):
    try:
        x = x + 1
        fails_here(x)
    except ValueError as e:
        toy.save(x)
        traceback.clear_frames(e.__traceback__)
        return x + 1, str(e), e.__traceback__.tb_lineno > 0
