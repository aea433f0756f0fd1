"""Type parameters."""

import toy
from cases import given


def first[T](items: list[T]) -> T:
    return items[0]


class Box[T]:
    def __init__(self, value: T):
        self.value = value


@given(lambda: (toy.arange(2),))
def test_whole__generic_function(x):
    return first([x + 1, 2])


@given(lambda: (toy.arange(2),))
def test_whole__generic_class(x):
    return Box(x + 1).value


@given(lambda: (toy.arange(2),))
def test_whole__nested_quotes(x):
    names = ["a", "b"]
    return x + 1, f"{", ".join(names)}"


@given(lambda: (toy.arange(2),))
def test_generic_function_made(x):
    def local[T](v: T) -> T:
        return v * 2

    return local(x)
