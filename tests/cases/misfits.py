"""What the interpreter says of operands that an operation cannot take: its own words, of this version."""

import collections
import functools
import math
import operator

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


class Plain:
    pass


class OfNone:
    __len__ = __iter__ = __hash__ = __call__ = __contains__ = __add__ = __eq__ = __getitem__ = __neg__ = None


class Listed(list):
    pass


def named():
    pass


def values():
    objects = [Plain(), OfNone(), Listed([1]), Plain, int, len, named, iter([]), slice(1), collections.deque([1])]
    return objects + [[], (), "s", 1, 1.5, 1j, {}, {1}, frozenset(), range(3), None, b"b", Ellipsis, NotImplemented]


def told(work, value):
    try:
        result = work(value)
    except Exception as error:
        text = str(error)
        # Of objects made on both sides the addresses differ.
        return type(error).__name__, "" if " at 0x" in text else text
    return type(result).__name__


def all_told(works):
    return [told(work, value) for value in values() for work in works]


def delete_item(value):
    del value[0]


def write_item(value):
    value[0] = 1


def write_attribute(value):
    value.other = 1
    del value.other


def delete_attribute(value):
    del value.other


def add_in_place(value):
    value += 1
    return value


def unpack(value):
    first, second = value


def unpack_rest(value):
    first, *rest = value
    return rest


@given(one)
def test_items_and_attributes_that_are_not_there(x):
    works = [delete_item, write_item, write_attribute, delete_attribute, lambda value: value[0], lambda value: value["a"]]
    works += [lambda value: value[1:], lambda value: value.other, lambda value: [1, 2][value], lambda value: {1: 2}[value]]
    return x + 1, all_told(works)


@given(one)
def test_operators_that_refuse(x):
    works = [add_in_place, lambda value: value + 1, lambda value: 1 + value, lambda value: value * 2, lambda value: value % 2]
    works += [lambda value: value < 1, lambda value: value > value, lambda value: -value, lambda value: ~value]
    works += [lambda value: "a" + value, lambda value: value + "a", lambda value: [] + value, lambda value: value + []]
    works += [lambda value: value @ value, lambda value: value | value, lambda value: value**2, lambda value: "a" * value]
    works += [lambda value: value << 1, lambda value: value - value, lambda value: 1 in value, lambda value: () + value]
    return x + 1, all_told(works)


@given(one)
def test_iterables_that_are_none(x):
    works = [unpack, unpack_rest, lambda value: [*value], lambda value: {*value}, lambda value: {**value}, lambda value: list(value)]
    works += [lambda value: "".join(value), lambda value: dict(value), lambda value: sorted(value), lambda value: max(value)]
    works += [lambda value: sum(value), lambda value: iter(value), lambda value: next(value), lambda value: reversed(value)]
    works += [lambda value: iter(value, 1), lambda value: named(*value), lambda value: named(**value)]
    works += [lambda value: functools.reduce(max, value), lambda value: sum(value, "a"), lambda value: dict([value])]
    return x + 1, all_told(works)


@given(one)
def test_functions_that_refuse(x):
    works = [lambda value: value(), lambda value: len(value), lambda value: hash(value) and 1, lambda value: int(value)]
    works += [lambda value: float(value), lambda value: abs(value), lambda value: round(value), lambda value: divmod(value, 2)]
    works += [lambda value: pow(value, 2), lambda value: range(value), lambda value: chr(value), lambda value: ord(value)]
    works += [lambda value: operator.index(value), lambda value: math.floor(value), lambda value: isinstance(1, value)]
    works += [lambda value: format(value, ">3"), lambda value: issubclass(value, int), lambda value: bytes(value)]
    return x + 1, all_told(works)


class Word(str):
    """A text of a class of its own."""


def _said(function, *args):
    try:
        return function(*args)
    except Exception as e:
        return type(e).__name__, e.args


@given(lambda: (toy.arange(2), Word("x"), bytearray(b"12"), bytearray(b"a")))
def test_operands_of_derived_texts_and_bytes(x, word, digits, letters):
    found = [_said(operator.mul, word, "y"), _said(operator.mul, "y", word), _said(operator.or_, word, "y"), _said(operator.or_, "y", word)]
    found += [_said(operator.mul, word, 2), _said(operator.imul, word, None), _said(operator.mul, letters, b"b"), _said(operator.mul, Word("z"), [1])]
    found += [_said(operator.mul, bytearray(b"c"), "y"), _said(operator.mul, 2, bytearray(b"c")), _said(operator.sub, None, word)]
    return x + 1, found


@given(lambda: (toy.arange(2), bytearray(b"12"), bytearray(b"a"), memoryview(b"7")))
def test_numbers_in_bytes(x, digits, letters, view):
    found = [int(digits), float(digits), _said(int, letters), _said(float, letters), _said(int, view), int(bytearray(b"5")), _said(int, x.__class__)]
    return x + 1, found


@whole
@given(lambda: (toy.arange(2), collections.OrderedDict(a=1)))
def test_iterators_over_ordered_dicts(x, d):
    made = collections.OrderedDict(b=2)
    iterators = [iter(d), iter(made.items()), reversed(made), iter(d.values()), iter({}), reversed({"a": 1})]
    return x + 1, [type(iterator).__name__ for iterator in iterators]


@given(lambda: (toy.arange(2),))
def test_list_that_takes_in_a_tensor(x):
    taken, rows = [], x + 1
    try:
        taken += rows
    except TypeError as e:
        taken = e.args
    return x + 1, taken


class Two:
    def __index__(self):
        return 2


class RepeatsNothing(Two):
    def __mul__(self, other):
        return NotImplemented


def _multiplied_in_place(number, sequence):
    try:
        number *= sequence
    except TypeError as e:
        return str(e)
    return number


@given(lambda: (toy.arange(2), Two(), [1]), lambda: (toy.arange(2), 3, [1, 2]), lambda: (toy.arange(2), Two(), [3]))
def test_index_objects_do_not_repeat_sequences_in_place(x, number, items):
    made = [2]
    found = [_multiplied_in_place(number, made), _multiplied_in_place(number, items), _multiplied_in_place(number, "s")]
    found += [_multiplied_in_place(RepeatsNothing(), (1,)), _said(operator.imul, number, made), _said(operator.imul, Two(), b"b")]
    found += [_multiplied_in_place([1], number), made * number, number * "s", _said(operator.mul, RepeatsNothing(), made)]
    toy.save(x)
    return x + 1, found
