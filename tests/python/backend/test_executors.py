"""Paddle keeps the executors of all programs. They are freed when many programs are gone, and none is in use.

The tests have a process of their own: what other tests leave behind may forbid to free executors.
"""

import gc
import os
import subprocess
import sys
import threading

import numpy
import paddle
import pytest

import sot


pytestmark = pytest.mark.divided

IS_ALONE = "SOT_EXECUTORS_ALONE" in os.environ
alone = pytest.mark.skipif(not IS_ALONE, reason="runs in a process of its own, started by `test_in_a_process_of_its_own`")

# More than the number of programs that are gone before executors are freed.
MANY = 80


# Paddle's table of executors has no lock: calls of Paddle from several threads take turns.
turn = threading.Lock()


def threads():
    """Return the number of threads of the process. Each executor has one."""
    return len(os.listdir("/proc/self/task"))


def make_one(number, trains):
    """Run a new function, which is gone afterwards."""
    names = {}
    exec(f"def f(x):\n    for _ in range(3):\n        x = x * 2 + {number}\n    return x.sum()", names)
    fast = sot.symbolic_translate(names.pop("f"))
    x = paddle.ones([2])
    x.stop_gradient = not trains
    for _ in range(2):
        with turn:
            result = fast(x)
        if trains:
            with turn:
                result.backward()
    assert result.item() == 16 + 14 * number
    assert not trains or x.grad.tolist() == [16.0, 16.0]


def make_garbage(first, trains=True):
    """Make more than enough programs that are gone afterwards, and one more."""
    for number in range(first, first + MANY):
        make_one(number, trains)
    gc.collect()
    make_one(first + MANY, trains)


@pytest.fixture(autouse=True)
def programs():
    with sot.config.patch(min_graph_size=0):
        gc.collect()
        yield


@pytest.fixture
def layer():
    paddle.seed(1)
    return paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.Tanh(), paddle.nn.Linear(8, 4))


def gradients(layer, run):
    layer.clear_gradients()
    x = paddle.arange(8, dtype="float32").reshape([2, 4])
    with turn:
        loss = run(x).sum()
    # Another thread may run here, between a run and its backward pass.
    with turn:
        loss.backward()
    return [parameter.grad.numpy() for parameter in layer.parameters()]


def same(one, other):
    for left, right in zip(one, other):
        numpy.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


@alone
def test_executors_of_programs_that_are_gone_are_freed(layer):
    make_garbage(0)
    before = threads()
    for start in (1_000, 2_000, 3_000):
        make_garbage(start)
    assert threads() < before + 2 * MANY, (before, threads())


@alone
def test_living_programs_run_on(layer):
    fast = sot.symbolic_translate(lambda x: layer(x))
    expected = gradients(layer, layer)
    for start in (0, 1_000):
        same(gradients(layer, fast), expected)
        same(gradients(layer, fast), expected)
        make_garbage(start)
    same(gradients(layer, fast), expected)
    assert sot.stats().graphs >= 2 * MANY


@alone
@pytest.mark.parametrize("kept", [False, True], ids=["first pass", "second pass"])
def test_a_pass_that_is_still_to_come(layer, kept):
    fast = sot.symbolic_translate(lambda x: layer(x))
    expected = gradients(layer, layer)
    gradients(layer, fast)
    gradients(layer, fast)
    layer.clear_gradients()
    result = fast(paddle.arange(8, dtype="float32").reshape([2, 4])).sum()
    if kept:
        result.backward(retain_graph=True)
        layer.clear_gradients()
    before = threads()
    # A pass that keeps its graph means that no further graph with gradients becomes a program.
    make_garbage(0, trains=not kept)
    assert (threads() < before + MANY) == kept, (before, threads())
    result.backward()
    same([parameter.grad.numpy() for parameter in layer.parameters()], expected)


@alone
def test_a_program_of_paddle_itself(layer):
    static = paddle.jit.to_static(layer, full_graph=True)
    expected = gradients(layer, static)
    gradients(layer, static)
    layer.clear_gradients()
    result = static(paddle.arange(8, dtype="float32").reshape([2, 4])).sum()
    make_garbage(0)
    result.backward()
    same([parameter.grad.numpy() for parameter in layer.parameters()], expected)


@alone
def test_another_thread_that_runs_programs(layer):
    fast = sot.symbolic_translate(lambda x: layer(x))
    expected = gradients(layer, layer)
    failed, ends = [], threading.Event()

    def work():
        try:
            while not ends.is_set():
                same(gradients(layer, fast), expected)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    for start in (0, 1_000):
        make_garbage(start)
    ends.set()
    thread.join()
    assert not failed, failed
    same(gradients(layer, fast), expected)


@pytest.mark.skipif(IS_ALONE, reason="starts the process")
def test_in_a_process_of_its_own():
    command = [sys.executable, "-m", "pytest", "--config-file", os.path.join(os.path.dirname(__file__), os.pardir, "pytest.ini")]
    command += ["-n", "0", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, env={**os.environ, "SOT_EXECUTORS_ALONE": "1"}, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("......s"), done.stdout + done.stderr
