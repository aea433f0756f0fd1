"""Classes as 3.10 and later write them."""

import dataclasses


@dataclasses.dataclass(slots=True)
class Slotted:
    a: int
    b: int = 2


@dataclasses.dataclass(kw_only=True)
class Keywords:
    a: int
    b: int = 3


def dataclass_with_slots(x):
    s = Slotted(1)
    s.b = 5
    return x + s.a + s.b, hasattr(s, "__dict__"), s == Slotted(1, 5)


def dataclass_keywords_only(x):
    return x + Keywords(a=1).b, Keywords(a=1) == Keywords(b=3, a=1)


def union_of_types(x):
    u = int | None
    return x + 1, isinstance(3, int | str), isinstance(None, u), u == (int | None), (int | str).__args__ == (int, str)


def union_in_annotations(x):
    def f(a: int | None = None, b: "list[int] | str" = "") -> int | str:
        return 3

    return x + f()


def generic_aliases(x):
    return x + 1, list[int].__origin__ is list, dict[str, int].__args__ == (str, int), list[int]([1, 2])


def pairwise(x):
    import itertools

    return x + 1, list(itertools.pairwise("abc"))


def parenthesized_managers(x):
    import contextlib

    with (contextlib.nullcontext(1) as a, contextlib.nullcontext(2) as b):
        return x + a + b
