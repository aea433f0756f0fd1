"""Iterators of every type, handed over a break: made before it, advanced by no item, by one, or to the end, and read behind it."""

import array
import collections
import io
import itertools
import operator
import re
import types

import toy
from cases import compiled, given


class Text(str):
    """A string of a class of its own."""


class Bytes(bytes):
    """Bytes of a class of their own."""


class List(list):
    """A list of a class of its own."""


class Tuple(tuple):
    """A tuple of a class of its own."""


class Dict(dict):
    """A dict of a class of its own."""


class Items:
    """Is iterated by position."""

    def __len__(self):
        return 3

    def __getitem__(self, at):
        return (10, 20, 30)[at]


Point = collections.namedtuple("Point", "x y z")
OUTSIDE = (bytearray(b"out"), array.array("i", [7, 8, 9]), memoryview(b"out"), Items(), Text("out"))


def counted(limit=3):
    """Gives numbers."""
    yield from range(limit)


def caller():
    """Returns a function that gives another number at each call."""
    return itertools.count().__next__


def iterators():
    """Returns what makes each iterator."""
    return {
        "list": "iter([1, 2, 3])",
        "list_of_a_class": "iter(List([1, 2, 3]))",
        "tuple": "iter((1, 2, 3))",
        "tuple_of_a_class": "iter(Tuple((1, 2, 3)))",
        "namedtuple": "iter(Point(1, 2, 3))",
        "string": "iter('abc')",
        "string_beyond_ascii": "iter('äbc')",
        "string_of_a_class": "iter(Text('abc'))",
        "bytes": "iter(b'abc')",
        "bytes_of_a_class": "iter(Bytes(b'abc'))",
        "bytearray": "iter(bytearray(b'abc'))",
        "memoryview": "iter(memoryview(b'abc'))",
        "array": "iter(array.array('i', [1, 2, 3]))",
        "range": "iter(range(3))",
        "no_range": "iter(range(0))",
        "set": "iter({1})",
        "frozenset": "iter(frozenset({1}))",
        "dict": "iter({'a': 1, 'b': 2})",
        "dict_of_a_class": "iter(Dict(a=1, b=2))",
        "keys": "iter({'a': 1, 'b': 2}.keys())",
        "values": "iter({'a': 1, 'b': 2}.values())",
        "items": "iter({'a': 1, 'b': 2}.items())",
        "ordered_dict": "iter(collections.OrderedDict(a=1, b=2))",
        "counter": "iter(collections.Counter('abca'))",
        "default_dict": "iter(collections.defaultdict(int, a=1))",
        "mapping_proxy": "iter(types.MappingProxyType({'a': 1, 'b': 2}))",
        "deque": "iter(collections.deque([1, 2, 3]))",
        "reversed_deque": "reversed(collections.deque([1, 2, 3]))",
        "reversed_list": "reversed([1, 2, 3])",
        "reversed_tuple": "reversed((1, 2, 3))",
        "reversed_string": "reversed('abc')",
        "reversed_bytes": "reversed(b'abc')",
        "reversed_bytearray": "reversed(bytearray(b'abc'))",
        "reversed_array": "reversed(array.array('i', [1, 2, 3]))",
        "reversed_range": "reversed(range(3))",
        "reversed_dict": "reversed({'a': 1, 'b': 2})" if hasattr(dict, "__reversed__") else "reversed(['b', 'a'])",
        "reversed_items": "reversed(Items())",
        "by_position": "iter(Items())",
        "bytearray_from_outside": "iter(OUTSIDE[0])",
        "array_from_outside": "iter(OUTSIDE[1])",
        "memoryview_from_outside": "iter(OUTSIDE[2])",
        "by_position_from_outside": "iter(OUTSIDE[3])",
        "string_of_a_class_from_outside": "iter(OUTSIDE[4])",
        "enumerate": "enumerate([1, 2, 3], 4)",
        "zip": "zip([1, 2, 3], 'abc')",
        "map": "map(str, [1, 2, 3])",
        "filter": "filter(None, [1, 0, 3])",
        "sentinel": "iter(caller(), 3)",
        "generator": "counted()",
        "generator_expression": "(i + 1 for i in range(3))",
        "text_lines": "iter(io.StringIO('a\\nb\\n'))",
        "matches": "re.finditer('.', 'abc')",
        "chain": "itertools.chain([1], [2, 3])",
        "islice": "itertools.islice(range(9), 1, 6, 2)",
        "starmap": "itertools.starmap(pow, [(2, 3), (3, 2)])",
        "takewhile": "itertools.takewhile(bool, [1, 2, 0, 3])",
        "dropwhile": "itertools.dropwhile(bool, [1, 0, 2, 3])",
        "filterfalse": "itertools.filterfalse(bool, [0, 1, 0])",
        "compress": "itertools.compress('abc', [1, 0, 1])",
        "zip_longest": "itertools.zip_longest([1, 2, 3], 'a')",
        "repeat": "itertools.repeat(1, 3)",
        "product": "itertools.product('ab', repeat=2)",
        "permutations": "itertools.permutations('abc', 2)",
        "combinations": "itertools.combinations('abc', 2)",
        "accumulate": "itertools.accumulate([1, 2, 3])",
        "groupby": "itertools.groupby('aab')",
        "tee": "itertools.tee([1, 2, 3])[1]",
    }


TEMPLATE = """
@given(one)
def test_{name}_{taken}(x):
    it = {make}
    log = [type(it).__name__, operator.length_hint(it, -1)]
    for _ in range({taken}):
        log.append(told(next(it, None)))
    toy.save(x)
    log += [type(it).__name__, operator.length_hint(it, -1), iter(it) is it]
    log.append([told(item) for item in it])
    log += [next(it, None), type(it).__name__]
    return log, x * 2
"""


def told(item):
    """Returns what shows of an item."""
    return item[0] if isinstance(item, re.Match) else item if not isinstance(item, tuple) else item[:1]


def one():
    return (toy.arange(2),)


for NAME, MAKE in iterators().items():
    for TAKEN in (0, 1, 5):
        exec(compiled(TEMPLATE.format(name=NAME, make=MAKE, taken=TAKEN)))
