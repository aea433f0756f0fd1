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
