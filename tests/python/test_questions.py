"""Queries of Paddle's state (mixed precision, devices, distributed training) are known during tracing."""

import contextlib

import paddle
import pytest
from paddle.amp.auto_cast import amp_state
from paddle.distributed import fleet

import sot


def assert_whole(fn, *args):
    expected = fn(*args)
    sot.reset()
    translated = sot.symbolic_translate(fn)
    results = [translated(*args) for _ in range(2)]
    stats = sot.stats()
    assert (stats.graphs, stats.hits, stats.breaks, stats.fallbacks) == (1, 1, {}, {})
    for result in results:
        assert paddle.equal_all(result, expected)


def of_precision(x):
    return x * 2 if amp_state() else x * 3


def of_devices(x):
    return x * (1 + len(paddle.device.get_all_custom_device_type() or [])) + 1


def of_ranks(x):
    return x / paddle.distributed.get_world_size() + paddle.distributed.get_rank()


def of_the_environment(x):
    return x * 2 if paddle.distributed.is_initialized() else x * 3


def of_random_states(x):
    tracker = fleet.meta_parallel.get_rng_state_tracker()
    manager = tracker.rng_state("local") if "local" in tracker.states_ else contextlib.nullcontext()
    with manager:
        return x * 2 + 1


def of_parallel_groups(x):
    try:
        degree = fleet.get_hybrid_communicate_group().get_model_parallel_world_size()
    except Exception:
        degree = 1
    return x * degree + 1


@pytest.mark.parametrize(
    "fn", [of_precision, of_devices, of_ranks, of_the_environment, of_random_states, of_parallel_groups]
)
def test_no_break(fn):
    assert_whole(fn, paddle.arange(4).astype("float32"))


def test_of_precision_inside_and_outside():
    def f(x):
        before = of_precision(x)
        with paddle.amp.auto_cast(level="O1"):
            inside = of_precision(x)
        return before + inside * 10

    translated = sot.symbolic_translate(f)
    x = paddle.ones([2])
    for _ in range(2):
        assert paddle.equal_all(translated(x), f(x))
        with paddle.amp.auto_cast():
            assert paddle.equal_all(translated(x), f(x))
    assert sot.stats().hits >= 1
