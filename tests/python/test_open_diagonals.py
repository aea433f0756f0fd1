"""`tril`, `triu` and `eye` of numbers that differ from call to call: one translation, with eager mode's results."""

import numpy
import paddle
import pytest

import sot

SIZES = [(2, 3), (2, 4), (2, 6), (2, 9), (2, 5), (2, 2), (2, 7), (2, 12)]
BOTH = [(2, 3), (3, 4), (5, 6), (6, 4), (4, 9), (7, 7), (9, 2), (2, 12)]


def same(got, wanted):
    assert (got.shape, got.dtype, got.stop_gradient) == (wanted.shape, wanted.dtype, wanted.stop_gradient)
    assert got.numpy().tobytes() == wanted.numpy().tobytes()


def check(function, arguments, translations=2):
    fast = sot.symbolic_translate(function)
    with sot.config.patch(min_graph_size=0):
        for given in arguments:
            same(fast(*given), function(*given))
    stats = sot.stats()
    assert (stats.translations, stats.hits) == (translations, len(arguments) - translations)
    assert (sum(stats.breaks.values()), sum(stats.fallbacks.values())) == (0, 0)


def causal(scores):
    rows, columns = scores.shape[-2:]
    return scores * paddle.tril(paddle.ones([rows, columns]), diagonal=columns - rows)


def hidden(scores):
    rows, columns = scores.shape[-2:]
    return scores + paddle.triu(paddle.full([rows, columns], -1e9), 1 + columns - rows)


def method(scores):
    return scores.tril(scores.shape[-1] - 3) + scores.triu(diagonal=scores.shape[-1] - 3)


def unit(scores):
    return scores @ paddle.eye(scores.shape[-1])


def wide(scores):
    return scores * paddle.eye(scores.shape[-2], num_columns=scores.shape[-1], dtype="float64").astype("float32")


@pytest.mark.parametrize("function", [causal, hidden, method, unit, wide])
@pytest.mark.parametrize("sizes", [SIZES, BOTH], ids=["one", "both"])
def test_the_number_stays_open(function, sizes):
    paddle.seed(3)
    check(function, [(paddle.rand([2, *size]),) for size in sizes])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
@pytest.mark.parametrize("name", ["tril", "triu"])
def test_all_types(name, dtype):
    function = eval(f"lambda x, y: paddle.{name}(x, y.shape[0] - 4)")  # Translations belong to code objects.
    x = paddle.arange(1, 31).reshape([2, 3, 5]).astype(dtype)
    check(function, [(x, paddle.ones([size])) for size in [2, 3, 4, 5, 6, 9, 11, 30, 7]])


def test_what_is_left_out_is_zero_whatever_it_was():
    def function(x):
        return paddle.tril(x, x.shape[1] - 5)

    numbers = numpy.array([numpy.nan, -0.0, numpy.inf, -numpy.inf, 1.0], "float32")
    check(function, [(paddle.to_tensor(numpy.resize(numbers, [4, columns])),) for columns in range(2, 12)])


def test_gradients_are_those_of_eager_mode():
    def function(x):
        return (paddle.triu(x, x.shape[1] - 4) ** 2 + paddle.tril(x * 2, 3 - x.shape[1])).sum()

    fast = sot.symbolic_translate(function)
    for columns in range(2, 12):
        gradients = []
        for run in (function, fast):
            x = paddle.arange(3 * columns, dtype="float32").reshape([3, columns])
            x.stop_gradient = False
            run(x).backward()
            gradients.append(x.grad.numpy())
        assert gradients[0].tobytes() == gradients[1].tobytes()
    assert (sot.stats().translations, sum(sot.stats().breaks.values())) == (2, 0)


def test_a_unit_matrix_of_a_negative_size_is_an_error():
    def function(x):
        return paddle.eye(x.shape[0] - 3) * 2

    fast = sot.symbolic_translate(function)
    for size in [5, 6, 7, 3, 8]:
        same(fast(paddle.ones([size])), function(paddle.ones([size])))
    for run in (function, fast):
        with pytest.raises(TypeError, match="non-negative"):
            run(paddle.ones([2]))


def test_a_type_that_a_unit_matrix_cannot_have_is_an_error():
    def function(x):
        return paddle.eye(x.shape[0], dtype="bool")

    fast = sot.symbolic_translate(function)
    for size in [4, 5, 6, 7]:
        for run in (function, fast):
            with pytest.raises((RuntimeError, ValueError, TypeError)):
                run(paddle.ones([size]))


def test_an_empty_tensor_has_no_triangle():
    def function(x):
        return paddle.tril(x[3:], x.shape[0] - 5).sum() + x.sum()

    fast = sot.symbolic_translate(function)
    for size in [5, 6, 7, 4, 3, 2, 8]:
        x = paddle.rand([size, 4])
        same(fast(x), function(x))
