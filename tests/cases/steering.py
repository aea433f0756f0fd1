"""Steering: what a program asks of the tracer must not change what the program does."""

import toy
from cases import given, whole
from toy import steering


def one():
    return (toy.arange(2),)


@given(one, hit=False)
def test_breakgraph(x):
    y = x + 1
    steering.breakgraph()
    return y * 2


def _cut(x):
    steering.breakgraph()
    return x * 2


@given(one, hit=False)
def test_breakgraph_in_a_called_function(x):
    return _cut(x + 1) - 1


@given(one, hit=False)
def test_breakgraph_in_a_loop(x):
    for k in range(3):
        x = x + k
        steering.breakgraph()
    return x


@given(one, hit=False)
def test_fallback(x):
    y = x + 1
    steering.fallback()
    return y * 2


def _left(x):
    steering.fallback(recursive=True)
    return x * 2


@given(one, hit=False)
def test_fallback_in_a_called_function(x):
    return _left(x + 1) - 1


@whole
@given(one)
def test_assert_true(x):
    steering.assert_true(x.ndim == 1)
    return x + 1


@given(lambda: (toy.arange(2), 3), lambda: (toy.arange(2), -3))
def test_assert_true_fails(x, n):
    y = x + n
    steering.assert_true(n > 0)
    return y


@given(one, hit=False)
def test_assert_true_of_a_tensor(x):
    y = x + 1
    steering.assert_true(y.sum() > 0)
    return y * 2


@given(one, hit=False)
def test_wrong_arguments(x):
    y = x + 1
    try:
        steering.fallback(1, 2)
    except TypeError:
        y = y * 2
    return y
