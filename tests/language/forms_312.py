"""What 3.11 and later added."""

import enum
import functools
import itertools


def batches_in_forms(x):
    return x + 1, list(itertools.batched("abcd", 2)), next(itertools.batched(range(3), 5))


class Color(enum.StrEnum):
    RED = enum.auto()
    BLUE = "b"


def string_enums(x):
    return x + 1, Color.RED, f"{Color.BLUE}", Color("red") is Color.RED, Color.RED.upper()


def comprehensions_inlined(x):
    n = 3
    return x + 1, [n * i for i in range(n)], [[j for j in range(i)] for i in range(n)], {k: (lambda: k)() for k in "ab"}, [c for c in [lambda: n]][0]()


def exception_notes(x):
    try:
        try:
            raise ValueError("v")
        except ValueError as e:
            e.add_note("first")
            e.add_note("second")
            raise
    except ValueError as e:
        return x + 1, e.__notes__


def star_in_an_index(x):
    class Grid:
        def __getitem__(self, key):
            return key

    rest = (2, 3)
    return x + 1, Grid()[1, *rest]


def math_of_312(x):
    import math

    return x + math.sumprod([1, 2], [3, 4]), math.cbrt(27), math.exp2(3)


def generic_class_made_here(x):
    class Box[T]:
        name: int = 3

        def get[U](self, value: U, *more: T) -> tuple[T, U, name]:
            return value

    return x + Box().get(3), Box.__type_params__[0].__name__, Box.get.__type_params__[0].__name__, Box.name
