"""Long translations show their progress on a terminal, and to callbacks."""

import os
import pty
import subprocess
import sys
import textwrap
import threading

import paddle
import pytest

import sot

pytestmark = pytest.mark.divided

PROGRAM = textwrap.dedent("""
    import paddle, sot, time
    def long_one(x):
        for i in range({rounds}):
            x = x + i
        return x
    fast = sot.symbolic_translate(long_one)
    start = time.perf_counter()
    fast(paddle.ones([1]))
    print(time.perf_counter() - start, sot.stats().graphs)
""")


def shown(rounds, terminal=True, **variables):
    """Return what a program with a long translation writes to standard error and to standard output."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "GLOG_minloglevel": "3", "MIN_GRAPH_SIZE": "1000000", **variables}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(rounds=rounds)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=theirs if terminal else subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    chunks = []

    def read():
        try:
            while True:
                chunk = os.read(ours, 4096)
                if not chunk:
                    break
                chunks.append(chunk)
        except OSError:  # The terminal is gone with the process.
            pass

    reader = threading.Thread(target=read)
    reader.start()
    out, error = process.communicate(timeout=100)
    reader.join()
    os.close(ours)
    assert process.returncode == 0
    return (b"".join(chunks).decode() if terminal else error), out


def test_a_line_moves_on_a_terminal():
    error, out = shown(3000, SOT_PROGRESS="0.05")
    lines = [line for line in error.split("\r") if "sot translates" in line]
    assert lines and all(line.startswith("sot translates long_one: ") and " s" in line for line in lines)
    assert error.endswith("\r\x1b[K"), "the line is gone in the end"
    assert len(lines) >= min(3, int(float(out.split()[0]) / 0.3))


@pytest.mark.parametrize("terminal, seconds", [(True, "0"), (False, "0.05"), (True, "60")])
def test_nothing_is_shown(terminal, seconds):
    error, out = shown(300, terminal, SOT_PROGRESS=seconds)
    assert "sot translates" not in error and out.split()[1] == "1"


def loops(x, rounds):
    for i in range(rounds):
        x = x + i
    return x


def translated_for_long(rounds=3000):
    """Doubles the work until a translation takes more than a second."""
    while True:
        sot.reset()
        fast = sot.symbolic_translate(lambda x: loops(x, rounds))
        # float32 cannot represent all sums of this size.
        result = fast(paddle.ones([1], "float64"))
        assert result.item() == 1 + rounds * (rounds - 1) / 2
        if sum(sot.stats().seconds.values()) > 1.2:
            return
        rounds *= 2


@pytest.fixture
def replayed(monkeypatch):
    monkeypatch.setenv("MIN_GRAPH_SIZE", "1000000")


def test_callbacks_are_told(replayed):
    told = []
    with sot.on_progress(told.append):
        translated_for_long()
    # A shorter translation before the last one may have been long enough to be told of.
    ends = [at for at, progress in enumerate(told) if progress.phase == "done"]
    told = told[ends[-2] + 1 :] if len(ends) > 1 else told
    assert told and told[-1].phase == "done" and told[0].phase == "simulate"
    assert told[0].statements < told[-1].statements and told[0].seconds >= 0.5
    assert all(b.seconds - a.seconds > 0.499 for a, b in zip(told, told[1:-1]))  # 0.5, but for rounding
    assert "sot translates" in str(told[0]) and "<lambda>" in told[0].function


def test_an_error_of_a_callback_is_reported_once(replayed, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    calls = []

    def broken(progress):
        calls.append(sot.symbolic_translate(lambda x: x * 2)(paddle.ones([1])).item())
        raise KeyError("the callback's own")

    handle = sot.on_progress(broken)
    translated_for_long()
    handle.undo()
    handle.undo()
    assert calls == [2] and [type(hook.exc_value) for hook in unraisable] == [KeyError]
    assert sot.stats().graphs == 1 and not sot.stats().fallbacks


def test_what_is_not_callable_is_refused():
    with pytest.raises(TypeError, match="takes a callable, not int"):
        sot.on_progress(3)
