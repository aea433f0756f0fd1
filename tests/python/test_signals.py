"""Signal handlers and other threads that raise during a translation or a run: the exception arrives once.

`SIGNALS=300` sets the number of alarms for each program; `SIGNALS_SEED` chooses other moments.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import paddle
import pytest

import sot


pytestmark = pytest.mark.divided

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "signals_program.py")
SEED = os.environ.get("SIGNALS_SEED", "1")
SINK = os.open(os.devnull, os.O_WRONLY)


def run(name, alarms, *how):
    """Run a program in its own process, so that a crash is noticed. Return its counts."""
    alarms = int(os.environ.get("SIGNALS", alarms))
    command = [sys.executable, PROGRAM, name, str(alarms), SEED, *how]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60 + 10 * alarms)
    text = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, text
    counts = json.loads(done.stdout.decode().splitlines()[-1])
    print(name, counts)
    assert counts["arrived"] == alarms and counts["wrong"] == 0, text
    assert counts["graphs"] >= alarms and counts["graph_errors"] == 0 and "internal-error" not in counts["reasons"], text
    assert b"Exception ignored" not in done.stderr, text
    return counts


@pytest.mark.alone("an alarm comes once, to one of the runs", runs=False)
@pytest.mark.parametrize("name, alarms", [("large", 12), ("loop", 25), ("training", 15)])
def test_an_alarm_reaches_the_caller(name, alarms):
    assert run(name, alarms)["in_call"] > 0


@pytest.mark.alone("an alarm comes once, to one of the runs", runs=False)
@pytest.mark.parametrize("name, alarms", [("large", 10), ("loop", 15), ("training", 8)])
def test_what_another_thread_raises_reaches_the_caller(name, alarms):
    assert run(name, alarms, "thread")["in_call"] > 0


@pytest.mark.alone("an alarm comes once, to one of the runs", runs=False)
@pytest.mark.parametrize("name", ["in_try", "in_graphs", "in_callee", "in_with"])
def test_an_alarm_reaches_the_except_of_the_function(name):
    run(name, 15)


class Stop(Exception):
    pass


@pytest.fixture
def alarms():
    """Yield a function that installs a handler of the alarm, and sets the time until it."""
    before = signal.getsignal(signal.SIGALRM)

    def set_alarm(handler, seconds):
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    yield set_alarm
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def stop(number, frame):
    raise Stop


def endless(x):
    y, n = x * 2, 0
    while True:
        n += 1
        if n < 0:
            return y


@pytest.mark.alone("an alarm comes once, to one of the runs", runs=False)
def test_a_loop_without_end_is_left_for_a_handler(alarms):
    fast, x = sot.symbolic_translate(endless), paddle.ones([2])
    # On a busy machine an alarm may come before the translation begins, and then counts for nothing.
    for _ in range(20):
        with pytest.raises(Stop):
            alarms(stop, 0.02)
            fast(x)
        if sot.stats().reasons.get("signal-waits") == 2:
            break
    assert sot.stats().reasons.get("signal-waits") == 2 and "internal-error" not in sot.stats().reasons


def long(x):
    x, n = x + 0, 0  # Without a tensor, a trace is given up early.
    for i in range(20_000):
        n += i & 1
    return x * n


def test_a_long_trace_is_given_up_a_few_times_only_where_signals_come_all_the_time(alarms):
    calls, fast = [], sot.symbolic_translate(long)

    def note(number, frame):
        calls.append(frame.f_code.co_name)
        signal.setitimer(signal.ITIMER_REAL, 0.01)

    alarms(note, 0.01)
    for _ in range(4):
        assert float(fast(paddle.ones([]))) == 10_000
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert sot.stats().graphs == 1 and len(calls) >= 4


def test_a_signal_is_written_to_the_wakeup_descriptor_once(alarms):
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing)
    try:
        calls = []
        alarms(lambda number, frame: calls.append(number), 1e-4)
        fast = sot.symbolic_translate(lambda x: (x * 2).tanh().sum() + 1)
        fast(paddle.ones([2]))
        while not calls:
            time.sleep(0.001)
        assert os.read(reading, 100) == bytes([signal.SIGALRM]) and calls == [signal.SIGALRM]
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)
    assert sot.stats().graphs == 1


def test_what_the_program_asks_of_signals_is_what_it_has_set(alarms):
    alarms(stop, 0)

    def asks(x):
        y = x * 2
        same = signal.getsignal(signal.SIGALRM) is stop
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        return y + 1, same, signal.getsignal(signal.SIGALRM) is signal.SIG_IGN

    fast = sot.symbolic_translate(asks)
    for _ in range(2):
        signal.signal(signal.SIGALRM, stop)
        assert fast(paddle.ones([1]))[1:] == (True, True)
    assert sot.stats().graphs >= 2


def test_a_thread_translates_while_a_signal_comes_to_the_main_one(alarms):
    results, calls = [], []
    fast = sot.symbolic_translate(long)
    thread = threading.Thread(target=lambda: results.append(float(fast(paddle.ones([])))))
    alarms(lambda number, frame: calls.append(number), 0.01)
    thread.start()
    thread.join()
    while not calls:
        time.sleep(0.001)
    assert results == [10_000] and len(calls) == 1 and sot.stats().graphs == 1
