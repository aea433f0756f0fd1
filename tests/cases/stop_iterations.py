"""A `StopIteration` that code of the program raises: at each place that C code reads items from, in each way of raising it."""

import collections
import functools
import itertools
import operator

import toy
from cases import compiled, given


class Stop(StopIteration):
    """A class of its own that ends iterations, too."""


class Raises:
    """An iterator that ends by an exception with a value."""

    def __init__(self, kind):
        self.kind, self.left = kind, 2

    def __iter__(self):
        return self

    def __next__(self):
        self.left -= 1
        if not self.left:
            raise self.kind("value") from KeyError("cause")
        return self.left


class NotIterated:
    """Is iterable, but raises when it is asked for the iterator."""

    def __iter__(self):
        raise StopIteration("of iter")


class ByItem:
    """Is read by position."""

    def __getitem__(self, at):
        if at:
            raise StopIteration("of item")
        return at


def stops(*given):
    """A function that ends iterations."""
    raise StopIteration("of function")


def second(*given, seen=()):
    """Returns a function that ends iterations at its second call."""
    left = iter([1])
    return lambda *given: next(left)


SOURCES = {
    "iterator": "Raises(StopIteration)",
    "iterator_of_a_class": "Raises(Stop)",
    "not_iterated": "NotIterated()",
    "by_item": "ByItem()",
    "map": "map(second(), [1, 2, 3])",
    "map_at_once": "map(stops, [1, 2, 3])",
    "filter": "filter(second(), [1, 2, 3])",
    "sentinel": "iter(second(), 5)",
    "takewhile": "itertools.takewhile(second(), [1, 2, 3])",
    "starmap": "itertools.starmap(second(), [(1,), (2,)])",
    "accumulate": "itertools.accumulate([1, 2, 3], second())",
    "generator": "(stops() for i in range(2))",
}

# What reads items, as an expression of `o`.
READERS = [
    "next(iter(o))",
    "next(iter(o), 7)",
    "[next(o), next(o)]",
    "[next(o, 7), next(o, 8)]",
    "[o.__next__(), o.__next__()]",
    "list(o)",
    "tuple(o)",
    "[*o]",
    "(lambda *given: list(given))(*o)",
    "sum(o)",
    "max(o)",
    "3 in o",
    "dict.fromkeys(o)",
    "sorted(o)",
    "any(o)",
    "list(zip(o, [1, 2]))",
    "list(zip([1, 2], o))",
    "list(enumerate(o))",
    "list(map(str, o))",
    "list(filter(None, o))",
    "list(itertools.chain(o, [1]))",
    "list(itertools.chain.from_iterable([o, [1]]))",
    "list(itertools.islice(o, 3))",
    "list(itertools.zip_longest(o, [1, 2, 3]))",
    "collections.deque(o)",
    "functools.reduce(operator.add, o)",
    "[i for i in o]",
    "[i for i in range(1) for j in o]",
    "unpack(o)",
    "loop(o)",
    "list(delegate(o))",
    "extended(o)",
]


def unpack(o):
    first, *rest = o
    return first, rest


def loop(o):
    seen = []
    for item in o:
        seen.append(item)
    else:
        seen.append("else")
    return seen


def delegate(o):
    result = yield from o
    yield result


def extended(o):
    items = [0]
    items.extend(o)
    items += [1]
    return items


TEMPLATE = """
@given(one)
def test_{name}(x):
    log = []
"""

PART = """
    o = {make}
    try:
        log.append({reader})
    except BaseException as error:
        log.append((type(error).__name__, error.args, getattr(error, "value", None), type(error.__cause__).__name__))
"""


def one():
    return (toy.arange(2),)


for NAME, MAKE in SOURCES.items():
    PARTS = [PART.format(make=MAKE, reader=READER) for READER in READERS]
    exec(compiled(TEMPLATE.format(name=NAME) + "".join(PARTS) + "    return log, x * 2\n"))
