"""Exception groups."""

import toy
from cases import given


def one():
    return (toy.arange(2),)


@given(one)
def test_except_star(x):
    out = []
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), KeyError(3)])
    except* ValueError as group:
        out.append(group.exceptions[0].args)
    except* (TypeError, KeyError) as group:
        out.append(len(group.exceptions))
    return x + 1, out


@given(one)
def test_except_star_lets_through(x):
    y = x + 1
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError:
        y = y * 2
    return y


@given(one)
def test_note(x):
    y = x + 1
    try:
        raise ValueError("v")
    except ValueError as error:
        error.add_note("note")
        raise
    return y
