"""Shapes made of what `paddle.shape` gives are known while tracing, as the sizes of the tensor are."""

import paddle
import pytest

import sot


def of_a_reshape(x):
    sizes = paddle.shape(x)
    y = x.reshape([sizes[0], sizes[1] * sizes[2]])
    return y * y.shape[1]


def of_unpacked_sizes(x):
    n, c, h = paddle.shape(x)
    y = paddle.reshape(x, [n, 2, c // 2, h]).transpose([0, 2, 1, 3])
    return y.reshape(shape=[n, c, h]) + y.shape[1]


def of_made_tensors(x):
    n, c = paddle.shape(x)[:2]
    made = paddle.arange(c, dtype="float32")
    y = paddle.ones([n, c]) + paddle.full(shape=[c], fill_value=2.0) + paddle.zeros([n, 1]) + made
    return y * made.shape[0] + len(y)


def of_a_mask(x):
    n, c = paddle.shape(x)[0], paddle.shape(x)[1]
    ids = paddle.arange(c)
    mask = paddle.tile(ids.unsqueeze([0, 1]), [n, c, 1]) <= ids.unsqueeze([0, 2])
    return mask.astype("float32") * mask.shape[1]


def of_another_tensor(x):
    y = paddle.sum(x, axis=-1, keepdim=True).expand(paddle.shape(x))
    return y * y.shape[-1]


def of_sums(x):
    sizes = paddle.shape(x)
    y = paddle.ones([sizes[0] + 1, 2 * sizes[1] - 1, sizes[2] % 2 + 1])
    return y * sum(y.shape)


@pytest.mark.parametrize(
    "fn", [of_a_reshape, of_unpacked_sizes, of_made_tensors, of_a_mask, of_another_tensor, of_sums]
)
def test_no_break(fn):
    translated = sot.symbolic_translate(fn)
    for shape in ([2, 4, 3], [3, 6, 5], [2, 4, 3]):
        x = paddle.rand(shape)
        expected, actual = fn(x), translated(x)
        assert actual.dtype == expected.dtype
        assert paddle.equal_all(actual, expected)
    stats = sot.stats()
    assert (stats.breaks, stats.fallbacks) == ({}, {})
    assert (stats.graphs, stats.hits) == (2, 1)


def test_what_is_no_shape_stays_a_tensor():
    def f(x):
        sizes = paddle.shape(x)
        return paddle.stack([sizes[0], sizes[1]]), sizes[0] * x, paddle.full([2], sizes[1])

    translated = sot.symbolic_translate(f)
    x = paddle.ones([2, 3])
    for expected, actual in zip(f(x), translated(x)):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        assert paddle.equal_all(actual, expected)
    assert sot.stats().graphs == 1
