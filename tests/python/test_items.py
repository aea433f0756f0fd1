"""Items at a position that only a run knows, an open number or a tensor: inside a tensor, at its end and behind it."""

import paddle
import pytest

import sot

POSITIONS = (0, 1, 2, 3, 4, 5, -1, -2, -3, -4, -5)


def tail(x):
    return x.exp().tanh().sin()


def outcome(fn, *args):
    try:
        result = fn(*args)
    except (IndexError, ValueError) as error:
        return type(error), str(error).splitlines()[-1]
    return result.shape, result.numpy().tolist()


def assert_same_as_eager(fn, calls, graph_errors):
    """Compare `fn` in eager mode and translated, which is one graph without breaks for each translation."""
    translated = sot.symbolic_translate(fn)
    sot.reset()
    for args in calls:
        assert outcome(fn, *args) == outcome(translated, *args), args[1:]
    stats = sot.stats()
    assert (stats.breaks, stats.fallbacks, stats.graphs) == ({}, {}, stats.translations)
    assert stats.graph_errors == graph_errors
    return stats


def of_numbers(*sizes):
    x = paddle.arange(4.0 * 4).reshape([4, 4]) / 7
    return [(x, n) for n in sizes or POSITIONS]


def of_tensors():
    return [(x, paddle.to_tensor(n)) for x, n in of_numbers()]


def row(x, n):
    return tail(x)[n]


def column(x, n):
    return tail(x)[:, n]


def number(x, n):
    return tail(x)[n, n]


def last_axis(x, n):
    return tail(x)[..., n]


def reshaped(x, n):
    return tail(x)[n].reshape([2, 2]) * 2


def only_its_shape(x, n):
    return paddle.zeros_like(tail(x)[n])


def unused(x, n):
    y = tail(x)
    y[n]
    return y


def caught(x, n):
    y = tail(x)
    try:
        return y[n]
    except IndexError:
        return y - 1


WITHOUT_ELLIPSIS = pytest.mark.skipif(
    paddle.__version__.startswith("3.0"),
    reason="Paddle 3.0 has no program for an ellipsis beside a position, so the graph breaks",
)
LAST_AXIS = pytest.param(last_axis, marks=WITHOUT_ELLIPSIS)


@pytest.mark.parametrize("fn", [row, column, number, LAST_AXIS, reshaped, only_its_shape, unused, caught])
def test_a_position_is_a_tensor(fn):
    stats = assert_same_as_eager(fn, of_tensors(), graph_errors=3)
    assert stats.translations == 1


@pytest.mark.parametrize("fn", [row, column, number, LAST_AXIS, reshaped, only_its_shape, unused])
def test_a_position_is_a_number(fn):
    stats = assert_same_as_eager(fn, of_numbers(1, 2, 3, 2, 4, 5, 3, 4, 2), graph_errors=3)
    assert stats.hits >= 5


def test_an_error_that_the_function_catches():
    stats = assert_same_as_eager(caught, of_numbers(1, 2, 3, 2, 4, 3, 2), graph_errors=1)
    assert stats.hits >= 3


def with_step(x, n):
    return tail(x)[n, ::2]


def behind_a_step(x, n):
    return tail(x)[::2, None, n] + 1


def step_on_another_axis(x, n):
    return tail(x)[None].tile([2, 1, 1])[..., n, ::-1]


@pytest.mark.parametrize(
    "fn", [with_step, behind_a_step, pytest.param(step_on_another_axis, marks=WITHOUT_ELLIPSIS)]
)
def test_an_index_with_a_step(fn):
    """Static mode takes position -1 of such an index for none."""
    assert_same_as_eager(fn, of_tensors(), graph_errors=3)


def test_a_position_computed_from_an_open_size():
    def f(x):
        return tail(x)[x.shape[0] - 6]

    calls = [(paddle.arange(2.0 * n).reshape([n, 2]),) for n in (8, 9, 10, 6, 5, 3, 2, 12)]
    assert_same_as_eager(f, calls, graph_errors=1)


def test_an_item_of_an_open_size_and_many_numbers():
    """The check reads one number, and does not copy."""

    def f(x, n):
        return tail(x)[n]

    calls = [(paddle.rand([4, size, 100]), paddle.to_tensor(n)) for size, n in ((50, 1), (60, 2), (70, 4), (80, -1))]
    assert_same_as_eager(f, calls, graph_errors=1)


def test_with_gradients():
    def f(x, n):
        y = tail(x)
        y[n - 1]
        return y[n].sum()

    def gradient(fn, x, n):
        x = x.detach()
        x.stop_gradient = False
        fn(x, n).backward()
        return x.grad

    translated = sot.symbolic_translate(f)
    sot.reset()
    for x, n in of_tensors():
        assert outcome(gradient, f, x, n) == outcome(gradient, translated, x, n)
    stats = sot.stats()
    assert (stats.breaks, stats.fallbacks, stats.graphs) == ({}, {}, 1)


def written(x, n, *values):
    y = tail(x)
    y[n] = values[0] if values else 0.5
    return y * 2


def written_column(x, n):
    y = tail(x)
    y[:, n] = x[0] * 3
    return y


def written_number(x, n):
    y = tail(x)
    y[n, n] = x.sum()
    return y + 1


def written_last_axis(x, n):
    y = tail(x)[None].tile([2, 1, 1])
    y[..., n] = x[1]
    return y


def written_beside_a_number(x, n):
    y = tail(x)
    y[1, n] = x[0, 0]
    return y


def written_beside_a_step(x, n):
    y = tail(x)
    y[::-2, n] = x[2:, 0]
    return y


def written_with_a_new_axis(x, n):
    y = tail(x)
    y[n, None, 1:] = x[0, 1:]
    return y


def written_and_caught(x, n):
    y = tail(x)
    try:
        y[n] = 1.0
    except IndexError:
        return y - 1
    return y


WRITING = [
    written, written_column, written_number, written_last_axis, written_beside_a_number, written_beside_a_step,
    written_with_a_new_axis, written_and_caught,
]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("fn", WRITING)
def test_a_tensor_says_where_is_written(fn, dtype):
    """A program takes position -1 for none, and does not notice one behind the end."""
    calls = [(x, n.astype(dtype)) for x, n in of_tensors()]
    assert assert_same_as_eager(fn, calls, graph_errors=3).translations == 1


@pytest.mark.parametrize("kind", ["float64", "int64", "bool", "complex64", "float16"])
def test_numbers_of_other_types_are_written_where_a_tensor_says(kind):
    def f(x, n):
        y = x.clone()
        y[n] = 1
        y[n + 1, 0] = y[0, n]
        return y

    sot.reset()
    fast = sot.symbolic_translate(f)
    for n in (0, 1, -1, -2, -3):
        x, n = (paddle.arange(9.0).reshape([3, 3]) % 4).astype(kind), paddle.to_tensor(n)
        actual, expected = fast(x, n), f(x, n)
        assert actual.dtype == expected.dtype and actual.numpy().tobytes() == expected.numpy().tobytes()
    assert not sot.stats().breaks and sot.stats().graphs == 1


def test_the_only_dimension_and_more_of_them():
    def f(x, n):
        y = x * 2
        y[n] = x.sum()
        return y

    for shape in ([4], [1], [4, 2], [4, 2, 3]):
        sizes = [(paddle.rand(shape), paddle.to_tensor(n)) for n in range(-shape[0], shape[0])]
        assert_same_as_eager(f, sizes, graph_errors=0)


@pytest.mark.parametrize("axis", [0, 1])
def test_writes_in_dimensions_of_open_sizes(axis):
    def f(x, n):
        y = tail(x)
        y[(n, slice(None)) if axis == 0 else (slice(None), n)] = 0.5
        return y

    sizes = [(paddle.rand([size, 4]), paddle.to_tensor(n)) for size, n in ((4, 1), (5, 2), (6, -1), (7, 3), (8, -4))]
    translated = sot.symbolic_translate(f)
    sot.reset()
    for x, n in sizes + sizes[:2]:
        assert outcome(f, x, n) == outcome(translated, x, n)
    stats = sot.stats()
    assert (stats.breaks, stats.fallbacks, stats.graph_errors) == ({}, {}, 0)


def written_gradients(fn, x, n, value):
    x, value = x.detach(), value.detach()
    x.stop_gradient = value.stop_gradient = False
    result = fn(x, n, value)
    (result * paddle.arange(1.0, 17.0).reshape([4, 4])).sum().backward()
    return [result, x.grad, value.grad]


@pytest.mark.parametrize("shape", [[4], [1], []])
def test_gradients_of_what_is_written_where_a_tensor_says(shape):
    fast = sot.symbolic_translate(written)
    sot.reset()
    for x, n in of_tensors():
        if -4 <= int(n) < 4:
            value = paddle.full(shape, 2.5)
            expected, actual = (written_gradients(fn, x, n, value) for fn in (written, fast))
            for one, other in zip(actual, expected):
                assert (one.shape, one.dtype, one.stop_gradient) == (other.shape, other.dtype, other.stop_gradient)
                assert one.numpy().tobytes() == other.numpy().tobytes()
    stats = sot.stats()
    assert (stats.breaks, stats.fallbacks, stats.graphs) == ({}, {}, 1)


@pytest.mark.parametrize("index", [lambda n: (n, [0, 1]), lambda n: (n, n, n), lambda n: n.astype("int16")])
def test_positions_to_write_to_that_are_for_eager_mode(index):
    def f(x, n):
        y = tail(x)
        y[index(n)] = 0.5
        return y

    x, n = paddle.rand([4, 4]), paddle.to_tensor(1)
    assert outcome(sot.symbolic_translate(f), x, n) == outcome(f, x, n)
    assert "backend-refused" in str(sot.stats())
