"""Debuggers, coverage tools and functions that look at their callers' variables find the program's own frames."""

import inspect
import io
import pdb
import sys

import paddle
import pytest

import sot

X = paddle.ones([2])


def ids(counts):
    return {reason.split(":")[0] for reason in counts}


def value_of(text, depth=1):
    """Return the value of an expression in the frame of a caller."""
    frame = sys._getframe(depth)
    return eval(text, frame.f_globals, frame.f_locals)


def reads_its_caller(x):
    scale, offset = 3, 4
    y = x * 2
    return y * value_of("scale + offset")


def reads_it_behind_a_break(x):
    scale, offset = 3, 4
    y = x * 2
    total = float(y.sum())
    return y * value_of("scale + offset"), total


def reads_its_callers_caller(x):
    scale = 5

    def helper():
        return value_of("scale", 2)

    return x * helper()


def asks_who_calls(x):
    def helper():
        caller = inspect.currentframe().f_back
        return caller.f_code.co_name, caller.f_lineno, sorted(caller.f_locals), inspect.stack()[1].function

    y = x + 1
    return y, helper()


@pytest.mark.parametrize("fn", [reads_its_caller, reads_it_behind_a_break, reads_its_callers_caller, asks_who_calls])
def test_variables_of_callers(fn):
    def called(x):
        before = x + 1
        return fn(before), before

    translated = sot.symbolic_translate(called)
    for _ in range(2):
        assert str(translated(X)) == str(called(X))
    stats = sot.stats()
    assert ids(stats.fallbacks) == {"unsupported-frame"}
    assert any("sys._getframe() shows the frames of its callers" in reason for reason in stats.fallbacks)


def stops(x):
    inner = x * 3
    breakpoint()
    inner = inner + 1
    return inner * 2


def test_breakpoint_shows_the_programs_frames(monkeypatch):
    def called(x):
        outer = x * 2
        result = stops(outer)
        return result - 1

    out = io.StringIO()
    commands = "p inner.tolist()\nnext\nnext\np inner.tolist()\nup\np outer.tolist()\ncontinue\n"
    debugger = pdb.Pdb(stdin=io.StringIO(commands), stdout=out, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    monkeypatch.setattr(sys, "breakpointhook", lambda: debugger.set_trace(sys._getframe(1)))
    before = sys.gettrace()
    try:
        assert sot.symbolic_translate(called)(X).tolist() == [13.0, 13.0]
    finally:
        sys.settrace(before)
    shown = out.getvalue()
    assert "[6.0, 6.0]" in shown and "[7.0, 7.0]" in shown and "[2.0, 2.0]" in shown
    assert "-> return inner * 2" in shown and "-> result = stops(outer)" in shown
    assert any("breakpoint() shows the frames" in reason for reason in sot.stats().fallbacks)


def test_trace_functions_see_the_lines():
    def called(x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        return y

    def lines_of(fn):
        lines = []

        def trace(frame, event, argument):
            if frame.f_code.co_name == "called":
                lines.append((event, frame.f_lineno))
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            result = fn(X)
        finally:
            sys.settrace(before)
        return result.tolist(), lines

    translated = sot.symbolic_translate(called)
    expected = lines_of(called)
    assert lines_of(translated) == expected and len(expected[1]) >= 5
    stats = sot.stats()
    assert (ids(stats.fallbacks), stats.graphs, stats.translations) == ({"traced"}, 0, 0)
    assert translated(X).tolist() == expected[0]
    assert sot.stats().graphs == 2
    assert lines_of(translated) == expected
    assert translated(X).tolist() == expected[0]
    assert sot.stats().graphs == 2


def test_a_function_that_sets_a_trace_function():
    def called(x, lines):
        def trace(frame, event, argument):
            lines.append((event, frame.f_code.co_name))
            return trace

        def traced(x):
            y = x * 2
            return y + 1

        before = sys.gettrace()
        y = x + 1
        sys.settrace(trace)
        result = traced(y)
        sys.settrace(before)
        return result * 2

    expected, lines = [], []
    result = sot.symbolic_translate(called)(X, lines)
    assert called(X, expected).tolist() == result.tolist()
    assert lines == expected and ("line", "traced") in lines
    assert ids(sot.stats().fallbacks) == {"unsupported-frame", "traced"}


def evaluate(text):
    return value_of(text, 2)


def test_libraries_that_look_for_variables_of_their_callers(monkeypatch):
    monkeypatch.setattr(evaluate, "__module__", "numexpr.necompiler")

    def called(x):
        scale = 3
        y = x * 2
        return y * evaluate("scale")

    assert sot.symbolic_translate(called)(X).tolist() == [6.0, 6.0]
    assert any("numexpr.necompiler.evaluate() looks for variables" in reason for reason in sot.stats().fallbacks)


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="sys.monitoring came with CPython 3.12")
def test_a_debugger_of_sys_monitoring():
    def called(x):
        y = x * 2
        return y + 1

    translated = sot.symbolic_translate(called)
    sys.monitoring.use_tool_id(sys.monitoring.DEBUGGER_ID, "a debugger")
    try:
        assert translated(X).tolist() == [3.0, 3.0]
        assert (ids(sot.stats().fallbacks), sot.stats().graphs) == ({"traced"}, 0)
    finally:
        sys.monitoring.free_tool_id(sys.monitoring.DEBUGGER_ID)
    assert translated(X).tolist() == [3.0, 3.0]
    assert sot.stats().graphs == 1
