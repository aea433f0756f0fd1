"""What CPython's own tests found and older interpreters do not do: 3.8 never ends where contexts go round."""

import toy
from cases import given


def one():
    return (toy.arange(2),)


@given(one)
def test_whole__cycle_of_contexts(x):
    try:
        try:
            raise TypeError(1)
        except TypeError as first:
            try:
                raise ValueError(2)
            except ValueError as second:
                first.__context__ = second
                second.__context__ = first
                raise KeyError(3)  # noqa: B904
    except KeyError as last:
        return x + 1, last.__context__.args, last.__context__.__context__.args
