"""Python numbers that are others at every call: a few translations, then one that serves them all."""

import numpy
import paddle
import pytest

import sot


def calls_agree(fn, arguments):
    fast = sot.symbolic_translate(fn)
    for given in arguments:
        got, expected = fast(*given), fn(*given)
        assert got.dtype == expected.dtype and got.numpy().tobytes() == expected.numpy().tobytes()


def test_a_float_argument():
    x = paddle.randn([3])

    def step(x, lr):
        y = x * 2
        return (y * lr + 1) * lr

    calls_agree(step, [(x, 0.1 / (n + 1)) for n in range(20)])
    counted = sot.stats()
    assert counted.translations <= 16 and not counted.fallbacks
    assert any("changing-number" in reason for reason in counted.breaks)


def test_an_attribute_and_a_closure_variable():
    class Schedule:
        rate = 1.0

    schedule, x, scale = Schedule(), paddle.randn([3]), 1.0

    def step(x):
        return x * schedule.rate + x * scale

    fast = sot.symbolic_translate(step)
    for n in range(20):
        schedule.rate, scale = 0.5 / (n + 1), 1.0 + n / 7
        assert fast(x).numpy().tobytes() == step(x).numpy().tobytes()
    assert sot.stats().translations <= 30


def test_a_counter_that_decides_a_branch():
    x = paddle.randn([3])

    def step(x, n):
        return x + 1 if n % 10 == 0 else x - 1

    calls_agree(step, [(x, n) for n in range(60)])
    assert sot.stats().translations <= 40


def test_a_number_read_from_a_tensor():
    def step(x):
        loss = float((x * x).sum())
        return x * loss

    calls_agree(step, [(paddle.full([2], float(n)),) for n in range(1, 30)])
    assert sot.stats().translations <= 12 and not sot.stats().fallbacks


def test_what_was_a_number_may_be_anything_later():
    def step(x, y):
        return x * y

    x = paddle.randn([3])
    calls_agree(step, [(x, 2.0), (x, paddle.randn([3])), (x, 3.0), (x, 4.0), (x, paddle.randn([3])), (x, 5), (x, True)])
    assert not sot.stats().fallbacks


@pytest.mark.parametrize(
    "make",
    [
        lambda n: paddle.to_tensor(n),
        lambda n: paddle.to_tensor([n, 0.1]),
        lambda n: paddle.to_tensor([[1, 2], [3, n]]),
        lambda n: paddle.to_tensor([0.1, n], dtype="float64"),
        lambda n: paddle.to_tensor((True, n > 1)),
        lambda n: paddle.to_tensor(0.1 * n, dtype=paddle.float32),
        lambda n: paddle.to_tensor(list(range(n))) if n else paddle.to_tensor([]),
    ],
)
def test_tensors_of_known_data_are_constants(same, make):
    def f(x, n):
        made = make(n)
        return x.sum() * made, made

    fast = sot.symbolic_translate(f)
    x = paddle.ones([2, 2])
    for n in (1, 2, 2):
        same(fast(x, n), f(x, n))
        fast(x, n)[1].zero_()
        same(fast(x, n), f(x, n))
    assert sot.stats().graphs == 2 and not sot.stats().breaks, f"\n{sot.stats()}"


@pytest.mark.parametrize(
    "data, make",
    [
        (numpy.ones(2), lambda d: paddle.to_tensor(d)),
        (0.5, lambda d: paddle.to_tensor(d, stop_gradient=False)),
        (0.5, lambda d: paddle.to_tensor(d, dtype="float16")),
        (paddle.ones([2]), lambda d: paddle.to_tensor(d)),
    ],
)
def test_tensors_of_other_data_break_the_graph(same, data, make):
    def f(x, data):
        return x * 2, make(data)

    fast = sot.symbolic_translate(f)
    same(fast(paddle.ones([2]), data), f(paddle.ones([2]), data))
    if isinstance(data, numpy.ndarray):
        data += 1
        same(fast(paddle.ones([2]), data), f(paddle.ones([2]), data))
    assert sot.stats().graphs and sot.stats().breaks
