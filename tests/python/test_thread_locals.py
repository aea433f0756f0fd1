"""Attributes of `threading.local` objects, which each thread has for itself."""

import threading

import paddle
import pytest

import sot

STATE = threading.local()


class Defaults(threading.local):
    scale = 2.0

    def __init__(self):
        self.depth = 0


DEFAULTS = Defaults()


@pytest.fixture(autouse=True)
def clean():
    STATE.__dict__.clear()
    DEFAULTS.__dict__.clear()
    DEFAULTS.__init__()


def in_a_thread(work):
    """The result of `work()` in another thread."""
    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


def reads(x):
    return x * getattr(STATE, "scale", 1.0) + 1


def writes(x):
    STATE.calls = getattr(STATE, "calls", 0) + 1
    return x * STATE.calls


def nests(x):
    DEFAULTS.depth += 1
    try:
        return x * DEFAULTS.scale + DEFAULTS.depth
    finally:
        DEFAULTS.depth -= 1


def deletes(x):
    STATE.once = 3.0
    y = x * STATE.once
    del STATE.once
    assert not hasattr(STATE, "once")
    return y


def equal_calls(function, *, calls=4):
    """The results of `function` translated, which are eager mode's on each call."""
    fast, x = sot.symbolic_translate(function), paddle.ones([2])
    for number in range(calls):
        state = dict(STATE.__dict__), dict(DEFAULTS.__dict__)
        expected = function(x * number).tolist()
        written = dict(STATE.__dict__), dict(DEFAULTS.__dict__)
        for own, before in zip((STATE, DEFAULTS), state):
            own.__dict__.clear()
            own.__dict__.update(before)
        assert fast(x * number).tolist() == expected
        assert (dict(STATE.__dict__), dict(DEFAULTS.__dict__)) == written


def is_whole():
    """True if there were graphs, and neither breaks nor fallbacks."""
    stats = sot.stats()
    return stats.graphs > 0 and not stats.breaks and not stats.fallbacks


def test_an_attribute_is_that_of_the_thread_that_calls():
    fast, x = sot.symbolic_translate(reads), paddle.ones([2])
    for _ in range(3):
        assert fast(x).tolist() == [2.0, 2.0]
    STATE.scale = 5.0
    for _ in range(3):
        assert fast(x).tolist() == [6.0, 6.0]
        assert in_a_thread(lambda: fast(x).tolist()) == [2.0, 2.0]
    assert is_whole()
    assert sot.stats().translations == 2


@pytest.mark.parametrize("function", [writes, nests, deletes], ids=lambda function: function.__name__)
def test_writes_are_made(function):
    equal_calls(function)
    assert is_whole()


def test_writes_are_those_of_the_thread_that_calls():
    fast, x = sot.symbolic_translate(writes), paddle.ones([2])
    for number in range(1, 4):
        assert fast(x).tolist() == [number, number]
        assert in_a_thread(lambda: fast(x).tolist()) == [1.0, 1.0]
    assert STATE.calls == 3
    assert is_whole()


def test_what_init_gives_a_new_thread():
    fast, x = sot.symbolic_translate(nests), paddle.ones([2])
    DEFAULTS.depth = 4
    for _ in range(3):
        assert fast(x).tolist() == [7.0, 7.0]
        assert in_a_thread(lambda: fast(x).tolist()) == [3.0, 3.0]
    DEFAULTS.scale = 3.0
    assert fast(x).tolist() == [8.0, 8.0]
    assert is_whole()


def test_a_missing_attribute_raises():
    def fails(x):
        try:
            return x * STATE.nothing
        except AttributeError as error:
            return x + len(str(error))

    equal_calls(fails)
    assert is_whole()
