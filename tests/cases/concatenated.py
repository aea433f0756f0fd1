"""Sequences beside objects whose class has a reflected operator: the object is asked before the sequence concatenates."""

import array
import collections
import enum

import toy
from cases import compiled, given


class Reflected:
    """Mixed into a class: answers as the right operand."""

    def __radd__(self, other):
        return "radd", type(other).__name__


class Silent:
    """Mixed into a class: knows no operand."""

    def __radd__(self, other):
        return NotImplemented


class Items:
    """Is iterable, and answers as the right operand."""

    def __iter__(self):
        return iter([7])

    def __radd__(self, other):
        return "radd", type(other).__name__


class Number(enum.IntEnum):
    ONE = 1


def derived(base, mixed, value):
    return type(f"{mixed.__name__}{base.__name__}", (mixed, base), {})(value)


OWN = {base: type(f"Own{base.__name__}", (base,), {}) for base in (str, list, tuple, collections.deque)}

LEFT = {
    "str": "'ab'",
    "bytes": "b'ab'",
    "bytearray": "bytearray(b'ab')",
    "list": "[1]",
    "tuple": "(1,)",
    "deque": "collections.deque([1])",
    "array": "array.array('i', [1])",
    "own_str": "OWN[str]('ab')",
    "own_list": "OWN[list]([1])",
    "own_tuple": "OWN[tuple]((1,))",
    "own_deque": "OWN[collections.deque]([1])",
}
VALUES = {int: 1, float: 1.5, str: "s", bytes: b"b", list: [1], tuple: (1,)}
RIGHT = [derived(base, mixed, value) for base, value in VALUES.items() for mixed in (Reflected, Silent)]
RIGHT += [Items(), Number.ONE, 1, 2.5, None, "s", b"b", [1], (1,), collections.deque([1])]
WAYS = ["l + r", "l.__add__(r)", "added(l, r)", "l.__iadd__(r)"]

TEMPLATE = """
@given(one)
def test_{name}(x):
    log = []
    for r in RIGHT:
"""
PART = """
        l = {make}
        try:
            result = {way}
            log.append((type(result).__name__, shown(result), shown(l), result is l))
        except Exception as error:
            log.append((type(error).__name__, str(error)))
"""


def shown(value):
    return repr(value) if isinstance(value, (str, bytes, bytearray, list, tuple, collections.deque)) else type(value).__name__


def added(l, r):
    l += r
    return l


def one():
    return (toy.arange(2),)


for NAME, MAKE in LEFT.items():
    PARTS = [PART.format(make=MAKE, way=WAY) for WAY in WAYS]
    exec(compiled(TEMPLATE.format(name=NAME) + "".join(PARTS) + "    return log, x * 2\n"))
