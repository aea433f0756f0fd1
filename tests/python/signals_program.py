"""Alarms at random moments of a translation; `test_signals.py` runs this program as a process of its own.

`signals_program.py NAME ALARMS SEED [thread]`

The handler of each alarm raises; with `thread` another thread raises in this one. Each exception must reach the
caller once, or the function's own `except`, and a later call must give the result of eager mode. The last line of the
output is a JSON object of counts. An exception in the middle of Paddle's own `no_grad` leaves gradients off, in eager
mode as well: those are counted, and gradients are turned on again.
"""

import ctypes
import faulthandler
import functools
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
import types

os.environ.setdefault("MIN_GRAPH_SIZE", "0")

import numpy as np
import paddle
from paddle import nn

import sot

SINK = os.open(os.devnull, os.O_WRONLY)


class Alarm(Exception):
    """The exception that the handler raises."""


class Handler:
    """A signal handler that counts its runs."""

    def __init__(self):
        self.calls = 0

    def __call__(self, number, frame):
        self.calls += 1
        raise Alarm(self.calls)


class OtherThread:
    """A thread that raises exceptions in the main thread, instead of a handler. Counts them."""

    def __init__(self):
        self.calls, self.here, self.asked = 0, threading.get_ident(), threading.Semaphore(0)
        threading.Thread(target=self.raise_all, daemon=True).start()

    def set_alarm(self, delay):
        self.delay = delay
        self.asked.release()

    def raise_all(self):
        while self.asked.acquire():
            time.sleep(self.delay)
            self.calls += 1
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.here), ctypes.py_object(Alarm))


class Block(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm(x))))


class Model(nn.Layer):
    def __init__(self, width=8, depth=12):
        super().__init__()
        self.blocks = nn.LayerList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def data():
    return paddle.to_tensor(np.linspace(-1, 1, 32, dtype="float32").reshape([4, 8]))


class Large:
    """A model of many layers: one graph."""

    def __init__(self):
        self.model, self.x = Model(), data()
        self.model.eval()

    def function(self):
        model = self.model

        def large(x):
            return nn.functional.softmax(model(x))

        return large

    def run(self, function):
        return function(self.x).numpy()


class Loop:
    """A loop that breaks the graph in each iteration, with tensor work around the break."""

    def __init__(self):
        self.x = data()

    def function(self):
        def loop(x):
            for i in range(6):
                x = nn.functional.relu(x * 2 - 0.5)
                os.write(SINK, b"x")
                x = (x + x.mean() * i).tanh()
            return x

        return loop

    def run(self, function):
        return function(self.x).numpy()


class Training:
    """A training step: forward and backward pass and the optimizer's step."""

    def __init__(self):
        self.model, self.x = Model(depth=4), data()
        self.state = {name: value.numpy() for name, value in self.model.state_dict().items()}

    def function(self):
        model = self.model

        def step(x, optimizer):
            loss = nn.functional.cross_entropy(model(x), paddle.zeros([4], dtype="int64"))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            return loss

        return step

    def run(self, function):
        self.model.set_state_dict(self.state)
        self.model.clear_gradients()
        optimizer = paddle.optimizer.SGD(0.1, parameters=self.model.parameters())
        losses = [float(function(self.x, optimizer)) for _ in range(3)]
        return np.asarray(losses + [float(value.abs().sum()) for value in self.model.parameters()])


def in_try(x, delay):
    y, rounds = x * 2, 0
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        while True:
            os.write(SINK, b"x")
            rounds += 1
    except Alarm:
        y = y.tanh() + 1
    finally:
        os.write(SINK, b"y")
        y = y * 3
    return y.sum() - x


def in_graphs(x, delay):
    y, steps = x * 2, []
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            while True:
                if y.sum() > -100:  # a break at each branch
                    y = y.tanh() + 0.001
        finally:
            steps.append("inner")
            os.write(SINK, b"x")
    except Alarm:
        steps.append("outer")
    return x * len(steps)


def waits(x, delay):
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        while True:
            x = x + 1
            os.write(SINK, b"x")
    except Alarm:
        return x * 0 + 1
    finally:
        os.write(SINK, b"y")


def in_callee(x, delay):
    return waits(x * 2, delay) + x


class Manager:
    def __enter__(self):
        os.write(SINK, b"x")
        return self

    def __exit__(self, kind, value, traceback):
        os.write(SINK, b"x")
        self.seen = kind
        return kind is Alarm


def in_with(x, delay):
    manager, y = Manager(), x * 2
    with manager:
        signal.setitimer(signal.ITIMER_REAL, delay)
        for _ in range(10**9):
            y = (y + 1).tanh()
            os.write(SINK, b"x")
    return x * (2 + (manager.seen is Alarm))


class Caught:
    """The alarm is set in a `try` of the function. The function continues behind its `except`."""

    def __init__(self, base):
        self.x, self.delay, self.base = data(), 1e-4, base

    def function(self):
        return self.base

    def run(self, function):
        return function(self.x, self.delay).numpy()


PADDLE = os.path.dirname(paddle.__file__)
LAST = []  # Where the last exception came.
GRADIENTS_LEFT_OFF = []  # The exceptions after which Paddle's own code has left gradients off.
CAUGHT = {function.__name__: function for function in (in_try, in_graphs, in_callee, in_with)}
PROGRAMS = {"large": Large, "loop": Loop, "training": Training}


def fresh(program):
    """Return a translated copy of the function, with a new code object, which has no translations."""
    function = program.function()
    code = function.__code__.replace(co_name=function.__name__)
    copy = types.FunctionType(code, globals(), function.__name__, function.__defaults__, function.__closure__)
    return sot.symbolic_translate(copy)


def close(actual, expected):
    return np.allclose(actual, expected, rtol=1e-4, atol=1e-5)


def in_context_of_paddle(error):
    """Whether the exception came while Paddle entered or left a context such as `no_grad`."""
    places = [place for place in traceback.extract_tb(error.__traceback__) if place.filename != __file__]
    return bool(places) and places[-1].filename.startswith(PADDLE) and places[-1].name in ("__enter__", "__exit__")


def alarm_within(run, set_alarm, delay):
    """Set an alarm and run. Return how many alarms have reached this function, during the run or up to 10 s later."""
    arrived = 0
    for wait in (False, True):
        try:
            if wait:
                deadline = time.monotonic() + 10
                while not arrived and time.monotonic() < deadline:
                    time.sleep(0.001)
            else:
                set_alarm(delay)
                run()
        except Alarm as error:
            LAST[:] = [traceback.format_exc()]
            arrived += 1
            if in_context_of_paddle(error) and not paddle.is_grad_enabled():
                GRADIENTS_LEFT_OFF.append(error)
                paddle.set_grad_enabled(True)
    return arrived


def tell(program, expected):
    """Print where the last exception came, and whether it has left eager mode with other results, too."""
    print(*LAST, sep="\n", file=sys.stderr)
    eager = close(program.run(program.function()), expected)
    print(f"eager mode gives its results: {eager}; gradients on: {paddle.is_grad_enabled()}", file=sys.stderr)


def main(name, alarms, seed, by_thread):
    program = Caught(CAUGHT[name]) if name in CAUGHT else PROGRAMS[name]()
    moments, handler = random.Random(seed), OtherThread() if by_thread else Handler()
    if by_thread:
        sys.setswitchinterval(1e-5)
        set_alarm = handler.set_alarm
    else:
        signal.signal(signal.SIGALRM, handler)
        set_alarm = functools.partial(signal.setitimer, signal.ITIMER_REAL)
    paddle.seed(1)
    expected = program.run(program.function())
    program.run(fresh(program))  # What is imported and compiled once is no part of the span.
    start = time.monotonic()
    program.run(fresh(program))
    span = time.monotonic() - start
    sot.reset()
    arrived, in_call, wrong, handler.calls = 0, 0, 0, 0
    for _ in range(alarms):
        function, before = fresh(program), handler.calls
        delay = moments.uniform(1e-6, 1.2 * span)
        if name in CAUGHT:
            program.delay = delay
            wrong += not close(program.run(function), expected)
            arrived += handler.calls - before
            program.delay = 1e-4
        else:
            results = []
            arrived += alarm_within(lambda: results.append(program.run(function)), set_alarm, delay)
            in_call += not results
            wrong += handler.calls != before + 1 or not all(close(result, expected) for result in results)
        wrong += not close(program.run(function), expected)
        if wrong:
            tell(program, expected)
            break
    stats = sot.stats()
    counts = {"arrived": arrived, "in_call": in_call, "wrong": wrong, "span": span}
    counts.update(graphs=stats.graphs, reasons=stats.reasons, graph_errors=stats.graph_errors)
    print(json.dumps({**counts, "gradients_left_off": len(GRADIENTS_LEFT_OFF)}))


if __name__ == "__main__":
    faulthandler.enable()
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] == ["thread"])
