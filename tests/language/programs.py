"""Small programs as users write them: settings, registries, searches of graphs, caches."""

import abc
import collections
import contextlib
import copy
import dataclasses
import datetime
import enum
import fractions
import functools
import hashlib
import heapq
import itertools
import json
import operator
import random
import re
import string
import struct
import threading
import typing

import toy

EDGES = {"in": {"a", "b"}, "a": {"c"}, "b": {"c", "d"}, "c": {"out"}, "d": {"out"}, "out": set()}
WEIGHTS = {("in", "a"): 2, ("in", "b"): 1, ("a", "c"): 1, ("b", "c"): 5, ("b", "d"): 3, ("c", "out"): 1, ("d", "out"): 4}
REGISTRY = {}


class Kind(enum.Enum):
    CONV = "conv"
    NORM = "norm"


class Flags(enum.Flag):
    TRAIN = 1
    FREEZE = 2
    DEBUG = 4
    BOTH = 5


@dataclasses.dataclass
class Options:
    width: int = 2
    names: list = dataclasses.field(default_factory=list)
    tags: frozenset = frozenset()
    nested: "typing.Optional[Options]" = None


@dataclasses.dataclass(frozen=True, order=True)
class Point:
    x: int
    y: int


def _register(name):
    def keep(function):
        REGISTRY[name] = function
        return function

    return keep


@_register("double")
def _double(x):
    return x * 2


@_register("shift")
def _shift(x, by=1):
    return x + by


def reachable(x):
    seen, stack = set(), ["in"]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        stack.extend(EDGES[node] - seen)
        x = x + len(node)
    return x, seen, sorted(seen)


def layers_of_a_graph(x):
    done, order = set(), []
    left = set(EDGES)
    while left:
        ready = {node for node in left if not any(node in EDGES[other] for other in left)}
        order.append(sorted(ready))
        done |= ready
        left -= ready
    for layer in order:
        x = x * len(layer)
    return x, order, done


def shortest_path(x):
    queue, settled = [(0, "in", ())], {}
    while queue:
        cost, node, path = heapq.heappop(queue)
        if node in settled:
            continue
        settled[node] = (cost, path)
        for other in EDGES[node]:
            if other not in settled:
                heapq.heappush(queue, (cost + WEIGHTS[node, other], other, path + (node,)))
    return x + settled["out"][0], settled["out"]


def colours_of_a_graph(x):
    colours = {}
    for node in sorted(EDGES):
        near = EDGES[node] | {other for other in EDGES if node in EDGES[other]}
        used = {colours[other] for other in near if other in colours}
        colours[node] = min(set(range(len(EDGES))) - used)
    return x + max(colours.values()), colours


def parts_of_a_graph(x):
    groups = [{n} for n in range(6)]
    for a, b in [(0, 1), (2, 3), (1, 3), (4, 5)]:
        one = next(group for group in groups if a in group)
        other = next(group for group in groups if b in group)
        if one is not other:
            one |= other
            groups.remove(other)
    return x + len(groups), [list(group) for group in groups], groups


def game_of_life(x):
    live = {(0, 1), (1, 1), (2, 1)}
    for _ in range(3):
        near = collections.Counter((a + i, b + j) for a, b in live for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        live = {cell for cell, n in near.items() if n == 3 or (n == 2 and cell in live)}
    return x + len(live), list(live)


def primes(x):
    left = set(range(2, 60))
    for n in range(2, 8):
        left -= set(range(n * n, 60, n))
    total = 0
    for n in left:
        total += n
    return x + total, list(left)


def words_in_common(x):
    texts = ["the cat sat", "the cat ran", "a cat the end"]
    common = set.intersection(*(set(text.split()) for text in texts))
    every = set().union(*(text.split() for text in texts))
    rare = {word for word in every if sum(word in text.split() for text in texts) == 1}
    return x + len(common), [*common], [*every], [*rare], "|".join(rare)


def letters_missing(x):
    missing = set(string.ascii_lowercase) - set("the quick brown fox jumps over a lazy cat")
    return x + len(missing), "".join(missing), missing


def settings_merged(x):
    base = {"a": 1, "b": {"c": 2}, "tags": {"x", "y"}}
    over = {"b": {"d": 3}, "tags": {"z"}}

    def merge(one, other):
        out = dict(one)
        for key, value in other.items():
            if isinstance(value, dict) and isinstance(out.get(key), dict):
                out[key] = merge(out[key], value)
            elif isinstance(value, set):
                out[key] = out.get(key, set()) | value
            else:
                out[key] = value
        return out

    merged = merge(base, over)
    return x + merged["b"]["d"], merged, list(merged["tags"])


def options_replaced(x):
    one = Options(3, ["a"], frozenset({"p", "q"}))
    two = dataclasses.replace(one, nested=Options(), tags=one.tags | {"r"})
    three = copy.copy(two)
    three.names = [*two.names, "b"]
    return x * two.width, dataclasses.asdict(three), one.names, list(two.tags), two == three


def a_registry(x):
    for name in sorted(REGISTRY):
        x = REGISTRY[name](x)
    return x, [name for name in REGISTRY.keys() - {"double"}]


def a_registry_of_classes(x):
    class Op(abc.ABC):
        known = {}

        def __init_subclass__(cls, kind=None, **rest):
            super().__init_subclass__(**rest)
            Op.known[kind] = cls

        @abc.abstractmethod
        def run(self, x): ...

    class Twice(Op, kind=Kind.CONV):
        def run(self, x):
            return x * 2

    class Minus(Op, kind=Kind.NORM):
        def run(self, x):
            return x - 1

    for kind in Kind:
        x = Op.known[kind]().run(x)
    return x, sorted(kind.value for kind in Op.known)


def flags_combined(x):
    flags = Flags.TRAIN | Flags.DEBUG
    flags &= Flags.TRAIN
    return x + flags.value, Flags.TRAIN in flags, flags == Flags.TRAIN, bool(flags)


def a_cache_by_key(x):
    cache, misses = {}, []

    def get(*key):
        if key not in cache:
            misses.append(key)
            cache[key] = x * sum(key)
        return cache[key]

    return get(1, 2) + get(1, 2) + get(3), misses


def a_cache_that_forgets(x):
    class LRU(collections.OrderedDict):
        def __init__(self, size):
            super().__init__()
            self.size, self.lock = size, threading.RLock()

        def fetch(self, key, make):
            with self.lock:
                if key in self:
                    self.move_to_end(key)
                else:
                    self[key] = make(key)
                    if len(self) > self.size:
                        self.popitem(last=False)
                return self[key]

    lru = LRU(2)
    for key in (1, 2, 1, 3, 2):
        x = lru.fetch(key, lambda key: x * key)
    return x, list(lru)


def memoised(x):
    @functools.lru_cache(maxsize=None)
    def ways(n):
        return 1 if n < 2 else ways(n - 1) + ways(n - 2)

    return x + ways(12)


def sampled(x):
    rng = random.Random("seed")
    names = sorted({"conv", "norm", "act", "pool"} | {"drop"})
    picked = rng.sample(names, 3)
    rng.shuffle(names)
    return x + rng.randrange(5), picked, names, rng.choices([1, 2], weights=[1, 3], k=4)


def hashed_settings(x):
    text = json.dumps({"b": 1, "a": sorted({3, 1, 2} | {7})}, sort_keys=True)
    digest = hashlib.sha1(text.encode()).hexdigest()
    return x + int(digest[:2], 16), text, digest


def versions_compared(x):
    def parse(text):
        match = re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?(rc\d+)?", text)
        return tuple(int(part or 0) for part in match.groups()[:3]), match.group(4) is None

    found = sorted(["1.10.2", "1.9", "1.10.2rc1"], key=parse)
    return x + parse(found[-1])[0][1], found


def schedules(x):
    start = datetime.datetime(2024, 1, 31, 22, 0)
    times = [start + datetime.timedelta(hours=step) for step in range(0, 6, 2)]
    days = {time.date() for time in times}
    return x + len(days), [time.isoformat() for time in times], sorted(day.day for day in days)


def ratios(x):
    parts = [fractions.Fraction(1, n) for n in (2, 3, 4, 2)]
    return x + float(sum(parts)), str(sum(parts)), max(parts)


def headers(x):
    header = struct.Struct(">HBx")
    data = b"".join(header.pack(n, n % 3) for n in range(3))
    return x + sum(n for n, _ in header.iter_unpack(data)), data


def points(x):
    points = {Point(0, 1), Point(1, 0), Point(0, 1)}
    first, around = min(points), []
    for point in points:
        around.append((point.x, point.y))
    more = points | {Point(2, 2)}
    more.discard(Point(0, 1))
    return x + len(points), first, sorted(points), Point(1, 0) in points, around, [point.x for point in more], more


def nested_contexts(x):
    entered = set()

    @contextlib.contextmanager
    def entering(name):
        entered.add(name)
        try:
            yield name
        finally:
            entered.discard(name)

    with contextlib.ExitStack() as stack:
        names = [stack.enter_context(entering(name)) for name in ("a", "b")]
        inside = sorted(entered)
        x = x + len(entered)
    return x, names, inside, entered


def events(x):
    class Emitter:
        def __init__(self):
            self.handlers = collections.defaultdict(set)

        def on(self, name, handler):
            self.handlers[name].add(handler)

        def emit(self, name, value):
            for handler in self.handlers[name]:
                value = handler(value)
            return value

    emitter = Emitter()
    emitter.on("a", operator.neg)
    emitter.on("b", abs)
    return emitter.emit("b", emitter.emit("a", x)), sorted(emitter.handlers)


def combinations_covered(x):
    pairs = set(itertools.combinations(range(5), 2))
    picked = []
    while pairs:
        best = max(itertools.combinations(range(5), 3), key=lambda three: (len(pairs & set(itertools.combinations(three, 2))), three))
        picked.append(best)
        pairs -= set(itertools.combinations(best, 2))
    return x + len(picked), picked


def tokens(x):
    kinds = [("num", r"\d+"), ("op", r"[-+*]"), ("skip", r"\s+")]
    pattern = "|".join(f"(?P<{name}>{text})" for name, text in kinds)
    found = [(m.lastgroup, m.group()) for m in re.finditer(pattern, "3 + 4*5") if m.lastgroup != "skip"]
    return x + int(found[0][1]), found, {kind for kind, _ in found} ^ {"num", "id"}


def a_vocabulary(x):
    words = "a b a c b a d".split()
    vocabulary = {word: n for n, word in enumerate(sorted(set(words), key=lambda word: (-words.count(word), word)))}
    unknown = {"a", "z", "y"} - vocabulary.keys()
    return x + len(vocabulary), vocabulary, [*unknown], [*(vocabulary.keys() & {"d", "c", "q"})]
