"""Values that hold themselves, are nested deeply or have no end: what CPython does not walk, a translation does not either."""

import collections
import functools
import itertools
import sys
import types

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


def deep_module():
    """A module that holds what the test itself cannot walk either."""
    module = types.ModuleType("sot_cases_deep")
    module.value = ()
    for _ in range(30_000):
        module.value = (module.value,)
    return module


sys.modules["sot_cases_deep"] = deep_module()


# What holds itself reaches the real class that stands for the one of the trace.


@whole
@given(one)
def test_a_list_in_itself_in_a_class_body(x):
    items = []
    items.append(items)

    class Holder:
        held = items

    return x + 1, Holder.held is items, Holder.held[0] is Holder().held


@whole
@given(one)
def test_a_dict_in_itself_in_a_class_body(x):
    table = {}
    table["own"] = table

    class Holder:
        held = table

    return x + 1, Holder.held["own"] is table


@whole
@given(one)
def test_a_tuple_that_a_list_in_it_holds(x):
    items = []
    pair = (items, 1)
    items.append(pair)

    class Holder:
        held = pair

    return x + 1, Holder.held[0][0] is pair


class Node:
    pass


@whole
@given(one)
def test_an_object_that_holds_itself_in_a_class_body(x):
    node = Node()
    node.own = node

    class Holder:
        held = node

    return x + 1, Holder.held.own is node


@whole
@given(one)
def test_a_function_that_holds_itself_in_a_class_body(x):
    values = []

    def function(given=values):
        return given

    values.append(function)
    function.own = function

    class Holder:
        method = staticmethod(function)

    return x + 1, Holder.method()[0] is function, Holder.method.own is function


@whole
@given(one)
def test_type_of_a_dict_with_a_list_in_itself(x):
    items = []
    items.append(items)
    return x + 1, type("Holder", (), {"held": items}).held is items


class Told:
    def __init_subclass__(cls, held=None):
        cls.held = held


@given(one)
def test_class_keywords_with_a_list_in_itself(x):
    items = []
    items.append(items)

    class Holder(Told, held=items):
        pass

    return x + 1, Holder.held is items


@given(one)
def test_defaults_of_a_named_tuple_that_hold_themselves(x):
    items = []
    items.append(items)
    return x + 1, collections.namedtuple("Pair", "a b", defaults=[items, items])().b is items


# What the class is made of is what it was when it was made.


@given(one)
def test_a_class_made_again_of_what_has_changed(x):
    items = [1]

    class First:
        held = items

    items.append(2)

    class Second:
        held = items

    return x + 1, First.held, Second.held, First.held is Second.held


# Depth.


@given(one)
def test_a_deep_tuple_in_a_class_body(x):
    value = ()
    for _ in range(5_000):
        value = (value,)

    class Holder:
        held = value

    return x + 1, Holder.held is value


@given(one)
def test_a_deep_tuple_as_a_key(x):
    from sot_cases_deep import value

    return x + 1, value in {1: 2}, len({value, 1}), {value: 3}[value]


# Lazy iterators of very many.


@whole
@given(one)
def test_the_first_selections_of_very_many(x):
    several = [
        next(itertools.permutations(range(100), 4)),
        next(itertools.combinations(range(1000), 5)),
        next(itertools.combinations_with_replacement(range(1000), 5)),
    ]
    left = itertools.product(range(1000), repeat=4)
    return x + 1, several, next(left), next(left)


@whole
@given(one)
def test_selections_that_are_left(x):
    left, also = itertools.combinations(range(60), 6), itertools.product("ab", [1, 2])
    next(left), next(also)
    return x + 1, map(sum, itertools.islice(left, 3)), also


@whole
@given(one)
def test_selections_in_a_loop_that_ends_early(x):
    for first, second, _ in itertools.permutations(range(50), 3):
        if second > 10:
            break
    return x + first, second


@given(one)
def test_product_of_less_than_none(x):
    try:
        return itertools.product([1], repeat=-1)
    except ValueError as error:
        return x + 1, str(error)


@given(one)
def test_selections_of_what_changes_later(x):
    items = [1, 2, 3]
    left = itertools.permutations(items, 2)
    items.append(4)
    return x + 1, list(left)


@whole
@given(one)
def test_without_end(x):
    count = itertools.count
    lazy = [
        next(itertools.islice(count(), 3, None)),
        next(zip(count(), itertools.repeat(2), itertools.cycle("ab"))),
        next(itertools.chain.from_iterable(itertools.repeat(n) for n in count())),
        next(itertools.dropwhile(lambda n: n < 5, count())),
        next(itertools.groupby(count(), lambda n: n // 10))[0],
        10**11 in range(10**12),
        next(reversed(range(10**12))),
        functools.reduce(max, itertools.islice(itertools.accumulate(count()), 5)),
    ]
    return x + 1, lazy


# Memory.


@given(one)
def test_texts_that_take_much_memory(x):
    text, length = "a" * 1_000_000, 0
    for number in range(100):
        length += len(text + str(number))
    return x + 1, length


@given(one)
def test_a_list_of_the_letters_of_a_long_text(x):
    return x + 1, len(list("ab" * 200_000))


@given(one)
def test_bytes_that_are_copied_often(x):
    buffer = bytearray(2_000_000)
    for _ in range(60):
        buffer.append(1)
    return x + 1, len(buffer)
