"""Match statements."""

import builtins
import itertools

import toy
from cases import changed, given, whole


class Point:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a = a
        self.b = b


def kind(value):
    match value:
        case 0 | 1:
            return "small"
        case int() as n if n < 0:
            return f"negative {n}"
        case [a, b]:
            return ("pair", a, b)
        case [first, *rest]:
            return ("list", first, rest)
        case {"k": v, **others}:
            return ("mapping", v, others)
        case Point(a=1, b=b):
            return ("point", b)
        case Point(a, b):
            return ("any point", a, b)
        case str() | None:
            return "text or nothing"
        case _:
            return "other"


def one():
    return (toy.arange(2),)


@whole
@given(one)
def test_numbers(x):
    return x + 1, kind(0), kind(1), kind(-5), kind(7.5), kind(True)


@whole
@given(one)
def test_sequences(x):
    return kind([x + 1, 2]), kind((1, 2, 3)), kind([]), kind("ab"), kind([4])


@whole
@given(one)
def test_mappings(x):
    return kind({"k": x + 1, "z": 2}), kind({}), kind({"q": 1})


@whole
@given(lambda: (toy.arange(2), Point(1, 2), Point(3, 4)))
def test_classes(x, p, q):
    return x + 1, kind(p), kind(q), kind(None)


@whole
@given(one)
def test_made_instances(x):
    return kind(Point(1, x + 1))


@whole
@given(one)
def test_tensor_as_subject(x):
    match x:
        case toy.Tensor():
            return x + 1
        case _:
            return x - 1


@whole
@given(lambda: (toy.arange(2), {"k": 1, "z": 2}), lambda: (toy.arange(2), {"k": 3}), lambda: (toy.arange(2), [1, 2]))
def test_argument(x, value):
    return x + 1, kind(value)


class Twice:
    __match_args__ = ("a", "a")
    a = 1


@whole
@given(one)
def test_pattern_with_one_attribute_twice(x):
    try:
        match Twice():
            case Twice(first, second):
                return x, first, second
    except TypeError as error:
        return x + 1, str(error)


@given(lambda: (toy.full((1,), 2.0),))
def test_pairs_that_have_begun(x):
    pairs = itertools.pairwise(iter("abcde"))
    first, empty = next(pairs), itertools.pairwise("a")
    toy.save(x)
    x = x + 1
    second = next(pairs)
    toy.save(x)
    return x * 2, first, second, list(pairs), list(empty)


class Lacking:
    __slots__ = ("there", "missing")

    def __init__(self):
        self.there = 1

    @property
    def refuses(self):
        raise AttributeError("refuses")


@whole
@given(lambda: (toy.arange(2), Lacking()))
def test_an_attribute_that_is_not_there_is_no_match(x, value):
    match value:
        case Lacking(missing=found):
            return found, x
        case Lacking(refuses=found):
            return found, x
        case Lacking(there=found):
            return found, x + 1


@whole
@given(lambda: (toy.arange(2), 5), lambda: (toy.arange(2), int))
def test_a_class_pattern_of_what_is_no_class(x, wrong):
    try:
        match x:
            case wrong():
                return x * 2
    except TypeError as error:
        return x + 1, str(error)
    return x * 3


ISINSTANCE = builtins.isinstance


@changed("builtins.isinstance = lambda value, of: of is not Point and ISINSTANCE(value, of)", "builtins.isinstance = ISINSTANCE")
def test_isinstance_is_replaced(x):
    match Point(1, 2):
        case Point(a, b):
            return x + a + b
    return x
