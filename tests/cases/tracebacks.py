"""Tracebacks that are looked at, of exceptions that outlive the graph, and of sources that change."""

import os
import sys
import tempfile
import traceback

import toy
from cases import changed, given


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


@given(one)
def test_whole__looked_at(x):
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
