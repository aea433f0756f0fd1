"""Dataclasses with slots made in the function: another class takes the first one's place."""

import dataclasses

import toy
from cases import given, whole

told = []


def one():
    return (toy.arange(2),)


class Base:
    def __init_subclass__(cls, **kwargs):
        told.append((cls.__name__, "__slots__" in vars(cls)))


class Named:
    def __set_name__(self, owner, name):
        told.append((name, "__slots__" in vars(owner)))


@given(one)
def test_the_base_is_told_of_both(x):
    @dataclasses.dataclass(slots=True)
    class P(Base):
        a: int

    return x + P(3).a, list(told)


@given(one)
def test_a_value_is_told_its_name_in_both(x):
    @dataclasses.dataclass(slots=True)
    class P:
        a: int
        held = Named()

    return x + P(3).a, list(told)


@whole
@given(one)
def test_the_first_class_goes_on(x):
    class P:
        a: int

        def twice(self):
            return self.a * 2

    Q = dataclasses.dataclass(slots=True)(P)
    P.extra = 1
    Q.other = 2
    return x + Q(3).twice(), P, Q, hasattr(Q, "extra"), hasattr(P, "other"), P.twice is Q.twice, Q.__slots__
