"""Iteration over the rows of a tensor: each step reads its row, in the gradient mode and from the memory of that moment."""

import paddle
import pytest

import sot


def a_row_without_gradient(x):
    rows = iter(x)
    with paddle.no_grad():
        first = next(rows)
    return first, next(rows)


def in_turns(x):
    found = []
    for index, row in enumerate(x):
        with paddle.set_grad_enabled(index % 2 == 0):
            found.append(row * 2)
    return found


def rows_of_two(x):
    pairs = zip(x, iter(x * 3))
    with paddle.no_grad():
        one, other = next(pairs)
    return [one, other, *next(pairs)]


def a_generator(x):
    rows = (row * 2 for row in x)
    with paddle.no_grad():
        first = next(rows)
    return [first, *rows]


def the_flag_is_set(x):
    y = x * 1
    rows = iter(y)
    first = next(rows)
    y.stop_gradient = True
    return first, next(rows), list(rows)


def written_meanwhile(x):
    y = x * 1
    found = []
    for row in y:
        found.append(row * 1)
        y[1] = y[1] + 10
    return found, y


def a_break_meanwhile(x):
    total = 0
    for row in x:
        total = total + row.sum()
        if total > 2:
            total = total / 2
    return total


def a_mode_at_a_break(x):
    rows = iter(x)
    first = next(rows)
    sot.psdb.breakgraph()
    return first, next(rows)


def used_up(x):
    rows = iter(x)
    for _ in rows:
        pass
    return x * 2, next(rows, None), list(rows)


def the_rest(x):
    rows = iter(x)
    next(rows)
    return [row + 1 for row in rows]


def returned(x):
    rows = iter(x)
    first = next(rows)
    return first, type(rows).__name__, [row.sum() for row in handed_on(rows)]


def handed_on(rows):
    yield from rows


PROGRAMS = [
    a_row_without_gradient,
    in_turns,
    rows_of_two,
    a_generator,
    the_flag_is_set,
    written_meanwhile,
    a_break_meanwhile,
    a_mode_at_a_break,
    used_up,
    the_rest,
    returned,
]


def tensors(result):
    """The tensors of a nested result."""
    if isinstance(result, (list, tuple)):
        return [tensor for part in result for tensor in tensors(part)]
    return [result] if isinstance(result, paddle.Tensor) else []


@pytest.mark.parametrize("min_size", ["0", "1000"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_rows(fn, min_size, same, monkeypatch):
    monkeypatch.setenv("MIN_GRAPH_SIZE", min_size)

    def step(call):
        x = paddle.to_tensor([[1.0, 2.0], [0.5, -1.0], [3.0, 4.0]], stop_gradient=False)
        result = call(x)
        with_gradient = [tensor.sum() for tensor in tensors(result) if not tensor.stop_gradient]
        sum(with_gradient).backward()
        return result, x.grad.numpy()

    fast = sot.symbolic_translate(fn)
    for _ in range(3):
        same(step(fast), step(fn))
    assert sot.stats().graphs


def test_an_iterator_that_is_returned(same):
    def f(x):
        rows = iter(x)
        return next(rows) * 2, rows

    x = paddle.to_tensor([[1.0, 2.0], [0.5, -1.0]], stop_gradient=False)
    first, rows = sot.symbolic_translate(f)(x)
    _, expected = f(x)
    assert type(rows) is type(expected)
    with paddle.no_grad():
        same(next(rows), next(expected))
    assert list(rows) == list(expected) == [] and sot.stats().graphs
