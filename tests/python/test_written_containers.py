"""A container that the graph has written to is iterated, and the graph breaks in the loop.

The tests are all combinations of a container, its writes and a way to iterate it.
"""

import collections
import itertools
import linecache
import logging

import paddle
import pytest

import sot


class Own(dict):
    pass


class Attributes:
    pass


def three():
    return {"a": paddle.ones([1]), "b": paddle.full([1], 2.0), "c": paddle.full([1], 3.0)}


def attributes():
    made = Attributes()
    made.__dict__.update(three())
    return made.__dict__


MAPPINGS = {
    "dict": three,
    "ordered": lambda: collections.OrderedDict(three()),
    "default": lambda: collections.defaultdict(list, three()),
    "own": lambda: Own(three()),
    "attributes": attributes,
}
WRITES = [
    "d['b'] = d['b'] * x",
    "d['n'] = x",
    "del d['a']; d['n'] = x",
    "d['a'] = d.pop('a') * x",
    "d['c'] = d.pop('c') * x",
    "d.popitem(); d['c'] = x",
    "d.update(b=x, c=d.pop('b'))",
    "old = dict(d); d.clear(); d.update(reversed(list(old.items())))",
    "d['n'] = d.pop('b'); d['m'] = d.pop('a')",
]
MAPPING_LOOPS = [
    "for key, value in d.items():\n        seen.append((key, value.tolist()))",
    "for key in d:\n        seen.append((key, d[key].tolist()))",
    "for at, value in enumerate(d.values()):\n        seen.append((at, value.tolist()))",
    "for (key, value), other in zip(d.items(), d.values()):\n        seen.append((key, value.tolist(), other.tolist()))",
    "rest = iter(d.items()); next(rest); x.tolist()\n    for key, value in rest:\n        seen.append((key, float(value)))",
    "rest = map(str, d); next(rest); seen.append(float(x)); seen.extend(rest)",
    "rest = (key for key in d); next(rest); seen.append(float(x)); seen.extend(rest)",
]

SEQUENCES = {
    "list": lambda: [paddle.full([1], float(number)) for number in range(4)],
    "deque": lambda: collections.deque(paddle.full([1], float(number)) for number in range(4)),
}
SEQUENCE_WRITES = [
    "d.append(d.pop() * x)",
    "d.append(x); del d[0]",
    "d.reverse()",
    "d[1] = x; d.insert(0, d.pop())",
    "d.extend([x, x]); d.pop(); d.pop(); d.remove(d[1])",
]
SEQUENCE_LOOPS = [
    "for value in d:\n        seen.append(value.tolist())",
    "for value in reversed(d):\n        seen.append(value.tolist())",
    "rest = iter(d); next(rest); seen.append(float(x)); seen.extend(map(float, rest))",
    "for at, value in enumerate(d):\n        seen.append((at, value.tolist()))",
]

SETS = {"set": lambda: {1, 2, 3}}
SET_WRITES = ["d.discard(2); d.add(9)", "d.remove(3); d.add(3)", "d |= {7}; d -= {1}"]
SET_LOOPS = [
    "for value in d:\n        seen.append((x * value).tolist())",
    "rest = iter(d); seen.append(next(rest)); seen.append(float(x)); seen.extend(rest)",
]

PROGRAMS = [
    *itertools.product(MAPPINGS.items(), WRITES, MAPPING_LOOPS),
    *itertools.product(SEQUENCES.items(), SEQUENCE_WRITES, SEQUENCE_LOOPS),
    *itertools.product(SETS.items(), SET_WRITES, SET_LOOPS),
]


def function(write, loop):
    text = f"def program(x, d):\n    seen = []\n    {write}\n    {loop}\n    return seen, x + 1\n"
    name = f"<written {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {}
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"], text


def observe(program, make):
    results = []
    for call in range(2):
        container = make()
        try:
            seen, y = program(paddle.full([1], 3.0 + call), container)
            result = seen, y.tolist()
        except Exception as error:
            result = type(error), str(error)
        results.append((result, [str(part) for part in container]))
    return results


@pytest.mark.parametrize("kind", [*MAPPINGS, *SEQUENCES, *SETS])
def test_a_written_container_is_iterated_across_a_break(kind):
    found = []
    for (name, make), write, loop in PROGRAMS:
        if name == kind:
            program, text = function(write, loop)
            eager = observe(program, make)
            translated = observe(sot.symbolic_translate(program), make)
            if translated != eager:
                found.append(f"{text}eager mode: {eager}\ntranslated: {translated}\n")
    assert not found, f"{len(found)} differ\n" + "\n".join(found)


def keys(n):
    return {f"k{i}": i for i in range(n)}


# A write, and a container of n items to which it is applied.
WRITES_OF_A_FEW_ITEMS = {
    "c['k7'] += 1": keys,
    "c['k3'] = x": keys,
    "c['new'] = c.pop('k7')": keys,
    "c['k5'] += 2": lambda n: collections.Counter(keys(n)),
    "c.move_to_end('k3')": lambda n: collections.OrderedDict(keys(n)),
    "c.append(1); c.pop()": lambda n: list(range(n)),
    "c[3] = x": lambda n: list(range(n)),
    "c[-2:] = [1, x, 2]": lambda n: list(range(n)),
    "c.insert(4, c.pop())": lambda n: collections.UserList(range(n)).data,
    "del c[5]": lambda n: list(range(n)),
    "c[0], c[1] = c[1], c[0]": lambda n: list(range(n)),
    "c.add(-1); c.discard(4)": lambda n: set(range(n)),
}


class NewCode(logging.Handler):
    """Counts the instructions of new code."""

    def __init__(self):
        super().__init__()
        self.counts = []

    def emit(self, record):
        title, *lines = record.getMessage().splitlines()
        if "NewCode" in title:
            self.counts.append(len(lines))


@pytest.mark.parametrize("write", WRITES_OF_A_FEW_ITEMS)
def test_new_code_writes_only_the_items_that_change(write):
    make = WRITES_OF_A_FEW_ITEMS[write]
    namespace = {}
    exec(f"def program(x, c):\n    {write}\n    return x + 1\n", namespace)
    lengths = {}
    logger, handler = logging.getLogger("sot.code"), NewCode()
    logger.addHandler(handler)
    level, logger.level = logger.level, logging.INFO
    try:
        for n in (20, 200):
            program = sot.symbolic_translate(namespace["program"])
            eager, translated = make(n), make(n)
            before = sot.stats()
            namespace["program"](paddle.ones([1]), eager)
            program(paddle.ones([1]), translated)
            assert sot.stats().fallbacks == before.fallbacks
            assert str(translated) == str(eager)
            # The translation for 20 items may serve 200, too.
            lengths[n] = handler.counts.pop() if handler.counts else lengths[20]
    finally:
        logger.level = level
        logger.removeHandler(handler)
    # Where an item moves to another place, the items between the places are written anew.
    assert lengths[200] == lengths[20] or write == "c.insert(4, c.pop())"
