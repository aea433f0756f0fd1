"""Attributes that a program, or Paddle, has put on a tensor object."""

import paddle
import pytest

import sot


def assert_same(fn, *args):
    assert paddle.equal_all(sot.symbolic_translate(fn)(*args), fn(*args))


@pytest.fixture
def x():
    return paddle.arange(4).astype("float32")


def scaled(x):
    y = x * 2
    return y * getattr(x, "factor", 10) + 1


def test_read_and_guarded(x):
    assert_same(scaled, x)
    x.factor = 3
    assert_same(scaled, x)
    x.factor = 4
    assert_same(scaled, x)
    assert_same(scaled, x)
    del x.factor
    assert_same(scaled, x)
    stats = sot.stats()
    assert (stats.graphs, stats.translations, stats.breaks, stats.fallbacks) == (3, 3, {}, {})
    assert stats.hits == 2


def test_that_is_a_tensor(x):
    def f(x):
        return x * 2 + x.other

    x.other = paddle.ones([4])
    assert_same(f, x)
    x.other = paddle.ones([4]) * 5
    assert_same(f, x)
    stats = sot.stats()
    assert (stats.graphs, stats.hits, stats.breaks) == (1, 1, {})


def test_of_parameters():
    layer = paddle.nn.Linear(4, 4)
    layer.weight.is_distributed = False
    layer.weight.quantized = True

    def f(x):
        weight = layer.weight
        y = x @ weight
        if weight.is_distributed:
            y = y * 0
        if hasattr(weight, "quantized") and not hasattr(layer.bias, "quantized"):
            y = y + 1
        return y + len(weight.optimize_attr) if weight.trainable else y

    x = paddle.ones([2, 4])
    assert_same(f, x)
    assert_same(f, x)
    layer.weight.is_distributed = True
    assert_same(f, x)
    stats = sot.stats()
    assert (stats.graphs, stats.hits, stats.breaks, stats.fallbacks) == (2, 1, {}, {})


def test_missing(x):
    def f(x):
        y = x * 2
        return y + x.factor

    with pytest.raises(AttributeError, match="factor"):
        sot.symbolic_translate(f)(x)
    x.factor = 2
    assert_same(f, x)


def test_written_in_the_function(x):
    def f(x):
        y = x * 2
        y.factor = 3
        return scaled(y) + y.factor

    assert_same(f, x)
    assert len(sot.stats().breaks) == 1


def test_of_a_tensor_changed_in_place(x):
    def f(x):
        x.add_(paddle.ones([4]))
        return x * x.factor

    x.factor = 2
    expected = (x + 1) * 2
    assert paddle.equal_all(sot.symbolic_translate(f)(x), expected)
    stats = sot.stats()
    assert (stats.graphs, stats.fallbacks) == (2, {})
    assert any("changed in place" in reason for reason in stats.breaks)


def test_in_the_place_of_a_method(x):
    def f(x):
        return x * 2 + x.scale

    x.scale = 3
    assert_same(f, x)
    assert not sot.stats().breaks
