"""What later versions added."""

import functools
import itertools


def functools_cache(x):
    @functools.cache
    def f(n):
        return n * 2

    return x + f(2) + f(2)


def prefixes(x):
    return x + 1, "model.a".removeprefix("model."), "a.py".removesuffix(".py"), b"ab".removeprefix(b"a")


def dict_unions(x):
    d = {"a": 1}
    d |= {"b": 2}
    return x + len(d), d | {"c": 3}, {"z": 0} | d


def math_of_310(x):
    import math

    return x + math.lcm(4, 6), math.gcd(4, 6, 8), math.nextafter(1, 2) > 1, math.ulp(1.0)


def async_names(x):
    return x + 1, callable(aiter), callable(anext)


def dispatch_on_a_union(x):
    @functools.singledispatch
    def kind(value):
        return "any"

    return x + 1, kind(3)


def dataclass_forms(x):
    import dataclasses

    @dataclasses.dataclass(kw_only=True, order=True)
    class P:
        a: int
        b: int = 2

    return x + P(a=1).b, P(a=1) < P(a=2)


def match_all(x):
    class P:
        __match_args__ = ("a", "b")

        def __init__(self, a, b):
            self.a, self.b = a, b

    def kind(v):
        match v:
            case None | True:
                return "single"
            case int(n) if n > 5:
                return "big", n
            case -1 | 1.5 | "s" | b"b":
                return "literal"
            case [1, *rest]:
                return "list", rest
            case (a, b):
                return "pair", a, b
            case {"k": v, **others}:
                return "dict", v, others
            case P(1, b=2):
                return "p12"
            case P(a, b) as p:
                return "p", a, b, p.a
            case str() | bytes():
                return "text"
            case _:
                return "other"

    things = [None, 7, -1, 1.5, "s", [1, 2, 3], (4, 5), {"k": 1, "l": 2}, P(1, 2), P(3, 4), "t", 2j, [], {}]
    return x + 1, [kind(v) for v in things]


def dataclass_with_slots(x):
    import dataclasses

    @dataclasses.dataclass(slots=True)
    class P:
        a: int
        b: int = 2

    return x + P(a=1).b, P(1) == P(1), P.__slots__


def dataclass_with_slots_returned(x):
    import dataclasses

    @dataclasses.dataclass(slots=True, frozen=True)
    class P:
        a: int
        b: list = dataclasses.field(default_factory=list)

        def twice(self):
            return self.a * 2

    p = P(3)
    try:
        p.a = 4
    except dataclasses.FrozenInstanceError:
        return x + p.twice(), p, P, hasattr(p, "__dict__"), dataclasses.replace(p, a=5).a, [f.name for f in dataclasses.fields(P)]
