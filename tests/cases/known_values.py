"""Objects of the library that are computed in the trace, and what changes them."""

import operator
import random
import types
import typing

import toy
from cases import changed, given, whole


def one():
    return (toy.arange(2),)


V = typing.TypeVar("V")


@whole
@given(one)
def test_generators_of_random_numbers(x):
    first, second = random.Random(3), random.Random(3)
    values = [first.random() for _ in range(3)] + [second.gauss(0, 1)]
    first.seed(7)
    third = random.Random(7)
    return x + first.random(), values, first, second, third.random(), first is first


@given(one)
def test_a_generator_of_random_numbers_goes_on_behind_a_break(x):
    numbers = random.Random(5)
    y = x + numbers.random()
    toy.save(y)
    return y, numbers.random(), numbers


class Own(random.Random):
    def random(self):
        return 0.25


GENERATOR = random.Random(11)


@given(one, hit=False)
def test_other_generators_of_random_numbers(x):
    return x + 1, Own(3).random(), Own(3).choice([1, 2, 3]), GENERATOR.random()


@given(lambda: (toy.arange(2), 3), lambda: (toy.arange(2), 4), lambda: (toy.arange(2), "a"))
def test_other_seeds(x, seed):
    return x + 1, random.Random(seed).random()


@given(one, hit=False)
def test_seeds_that_are_refused(x):
    try:
        random.Random([1]).random()
    except TypeError as error:
        return x + 1, type(error)


TABLE = {"a": 1, "b": 2}
PROXY = types.MappingProxyType(TABLE)


class Attributes:
    value = 1


OF_CLASS = vars(Attributes)


@changed("TABLE['a'] = 5", "del TABLE['b']", "TABLE['c'] = 7", "PROXY = types.MappingProxyType({'a': 9})", "TABLE = {}")
def test_a_proxy_from_outside(x):
    return x + PROXY["a"], list(PROXY), "b" in PROXY, len(PROXY), PROXY.get("c")


@given(one)
def test_the_dict_behind_a_proxy_is_written(x):
    before = PROXY["a"]
    TABLE["a"] = before + 1
    TABLE["new"] = x + 1
    seen = PROXY["a"], PROXY["new"], PROXY | {"z": 1} if hasattr(PROXY, "__or__") else None
    del TABLE["new"]
    TABLE["a"] = before
    return x + 2, seen, PROXY


@changed("Attributes.value = 2")
def test_the_attributes_of_a_class(x):
    Attributes.other = 3
    seen = OF_CLASS["value"], OF_CLASS["other"]
    del Attributes.other
    return x + 1, seen, "other" in OF_CLASS


@given(one)
def test_breaks_in_loops_over_proxies(x):
    seen = []
    for attributes in (Attributes.__dict__, PROXY):
        for names in (attributes, attributes.keys()):
            for name in names:
                seen.append((name, float(x.sum())))
        for name, value in attributes.items():
            seen.append((name, type(value), float(x.sum())))
        values = iter(attributes.values())
        first = next(values)
        seen.append((type(first), float(x.sum()), len(list(values)), type(values)))
    return x + 1, seen


class Number(int):
    def __divmod__(self, other):
        return "number", other


class Late:
    def __rdivmod__(self, other):
        return "late", other


class Early(Late):
    def __divmod__(self, other):
        return NotImplemented

    def __length_hint__(self):
        raise TypeError("none")


class Wrong:
    def __len__(self):
        raise TypeError("no length")

    def __length_hint__(self):
        return -1


@given(one, hit=False)
def test_answers_of_divmod(x):
    seen = []
    for left, right in [(3, Late()), (Early(), Late()), (Late(), Early()), (Number(3), 2), (7, Number(3)), (3, object()), ("a", Late())]:
        try:
            seen.append(divmod(left, right)[0])
        except TypeError as error:
            seen.append(str(error))
    return x + 1, seen


class Breaking:
    def __divmod__(self, other):
        toy.save(toy.arange(2))
        return NotImplemented

    def __length_hint__(self):
        toy.save(toy.arange(2))
        raise TypeError("none")


@given(one)
def test_a_break_in_an_operand_without_an_answer(x):
    y = x + 1
    return y * 2, divmod(Breaking(), Late()), operator.length_hint(Breaking(), 3)


@given(one, hit=False)
def test_length_hints(x):
    seen = []
    for of in (Early(), Wrong(), object(), [1], "abc", iter([1, 2])):
        try:
            seen.append(operator.length_hint(of, 5))
        except (TypeError, ValueError) as error:
            seen.append(str(error))
    return x + 1, seen


@given(one)
def test_an_alias_of_a_class_made_here_leaves(x):
    class Box(typing.Generic[V]):
        def __init__(self, value):
            self.value = value

    alias = Box[int]
    box = alias(x + 1)
    return box.value, box.__orig_class__ is alias, alias.__origin__ is Box, alias == Box[int], alias.__args__


@given(one)
def test_what_is_no_generic(x):
    class Plain:
        pass

    try:
        Plain[int]
    except TypeError as error:
        return x + 1, str(error)
