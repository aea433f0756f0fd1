"""What CPython's own tests found and older interpreters do not do: 3.8 never ends where contexts go round."""

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


@whole
@given(one)
def test_cycle_of_contexts(x):
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


class Table(dict):
    def __init__(self, *given):
        super().__init__()
        self.given = given


class Refusing(dict):
    def __setattr__(self, name, value):
        raise KeyError(name)


class Closed(list):
    __slots__ = ()


@whole
@given(one)
def test_calls_of_aliases(x):
    alias = Table[int]
    made = alias(1, 2)
    made["key"] = 3
    try:
        Refusing[int]()
    except KeyError as error:
        refused = error.args
    plain = list[int]("ab"), dict[str, int](a=1), Closed[int]((1, 2))
    return x + 1, made, made.given, made.__orig_class__ == alias, type(made) is Table, refused, plain
