"""Type parameters."""

import typing

import toy
from cases import given, whole


def first[T](items: list[T]) -> T:
    return items[0]


class Box[T]:
    def __init__(self, value: T):
        self.value = value


@whole
@given(lambda: (toy.arange(2),))
def test_generic_function(x):
    return first([x + 1, 2])


@whole
@given(lambda: (toy.arange(2),))
def test_generic_class(x):
    return Box(x + 1).value


@whole
@given(lambda: (toy.arange(2),))
def test_nested_quotes(x):
    names = ["a", "b"]
    return x + 1, f"{", ".join(names)}"


@given(lambda: (toy.arange(2),))
def test_generic_function_made(x):
    def local[T](v: T) -> T:
        return v * 2

    return local(x)


@given(lambda: (toy.arange(2),))
def test_type_parameters_are_one_object(x):
    def local[T: int, *Ts](v: list[T]) -> T:
        return v * 2

    class Held[K]:
        first: K
        rest: list[K]

    type Names[N] = dict[N, str]
    y = x + 1
    toy.save(y)
    T, Ts = local.__type_params__
    (K,) = Held.__type_params__
    found = [
        local.__annotations__["v"].__args__[0] is T, local.__annotations__["return"] is T, T.__bound__, T.__infer_variance__,
        T.__module__, Ts.__name__, Held.__annotations__["first"] is K, Held.__annotations__["rest"].__args__[0] is K,
        Held[int].__args__, Held.__orig_bases__[0].__args__[0] is K, Names.__value__.__args__[0] is Names.__type_params__[0],
    ]
    return y * 2, found, repr(Names[int]), Names.__module__


@given(lambda: (toy.arange(2),))
def test_a_bound_is_read(x):
    limit = int

    def local[T: limit](v: T) -> T:
        return v

    return x + 1, local.__type_params__[0].__bound__, local(3)


@given(lambda: (toy.arange(2),))
def test_a_value_is_read(x):
    limit = int
    type Names = list[limit]
    return x + 1, Names.__value__


@given(lambda: (toy.arange(2),))
def test_generic_twice(x):
    try:

        class Twice[T](typing.Generic[T]):
            pass

    except TypeError as error:
        return x + 1, str(error)


@given(lambda: (toy.arange(2),))
def test_a_generic_metaclass(x):
    class Meta[A, B](type):
        pass

    try:

        class Made[A, B](metaclass=Meta[A, B]):
            pass

    except TypeError as error:
        return x + 1, type(error).__name__
    return x + 1, Made
