"""Sets whose order counts: at breaks, from outside, and of objects that are not there yet."""

import abc
import dataclasses
import random

import toy
from cases import NANS, given, whole


def made_of(*items, without=()):
    s = set()
    for item in items:
        s.add(item)
    for item in without:
        s.discard(item)
    return s


class Named:
    def __init__(self, name):
        self.name = name


BUSY = {8, 0, 16}


# Equal sets with the same order, whose tables differ.
@given(lambda: (toy.arange(2), made_of(0, 8, 16)), lambda: (toy.arange(2), made_of(0, 1, 8, 16, without=[1])), lambda: (toy.arange(2), made_of(8, 0, 16)), lambda: (toy.arange(2), made_of(*range(40), without=range(1, 40)) | {0, 8, 16}), hit=False)
def test_equal_sets_of_other_tables(x, s):
    t = s | {1, 9, 24}
    u = s.copy()
    u.add(1)
    u.add(3)
    return x + 1, list(s), list(t), list(u), t, u


@given(lambda: (toy.arange(2), made_of(0, 8, 16)), lambda: (toy.arange(2), made_of(0, 1, 8, 16, without=[1])), hit=False)
def test_changed_one_by_one(x, s):
    s.add(1)
    s.discard(8)
    s.add(24)
    return x + 1


@given(lambda: (toy.arange(2), made_of(0, 8, 16)), lambda: (toy.arange(2), made_of(0, 1, 8, 16, without=[1])), hit=False)
def test_changed_one_by_one_and_looked_at(x, s):
    s.add(1)
    s.discard(8)
    out = list(s)
    s |= {40, 48}
    s.pop()
    return x + 1, out


@given(lambda: (toy.arange(2),))
def test_at_a_break(x):
    s = {0, 8, 16, 24, 5}
    s.discard(0)
    t = frozenset({5, 13, 21}) | s
    if x.sum() > 0:
        s.add(32)
    return x + 1, list(s), list(t), s, t, s | t


@given(lambda: (toy.arange(2),))
def test_a_break_while_it_is_gone_round(x):
    s = {0, 8, 16, 24, 5} | {40, 3}
    out = []
    for n in s - {8}:
        if x.sum() > 0:
            out.append(n)
        x = x + n
    return x, out


@given(lambda: (toy.arange(2),))
def test_other_elements_while_it_is_gone_round(x):
    s, out = {0, 8, 16}, []
    for n in s:
        out.append(n)
        if n == 0:
            s.discard(8)
            s.add(5)
    return x + 1, out


@given(lambda: (toy.arange(2),))
def test_more_elements_while_it_is_gone_round(x):
    s = {0, 8, 16} | {24}
    try:
        for n in s:
            s.add(n + 1)
    except RuntimeError as error:
        return x + 1, str(error), s


@dataclasses.dataclass(frozen=True)
class Node:
    name: str
    cost: int = 0


@given(lambda: (toy.arange(2),))
def test_objects_with_hashes_of_their_own(x):
    s = {Node("a"), Node("b", 1)} | {Node("a"), Node("c")}
    return x + len(s), sorted(node.name for node in s), [node.cost for node in sorted(s, key=lambda node: node.cost)]


@whole
@given(lambda: (toy.arange(2),))
def test_objects_sorted(x):
    s = {made_of, Named("b"), Named("a")}
    return x + 1, [one.name for one in sorted(s - {made_of}, key=lambda one: one.name)]


# What it had once shows in the order of what comes later.
@given(lambda: (toy.arange(2),), hit=False)
def test_changes_of_a_set_from_outside(x):
    BUSY.add(24)
    BUSY.discard(8)
    out = list(BUSY)
    BUSY.add(32)
    BUSY.discard(24)
    BUSY.discard(32)
    BUSY.add(8)
    return x + 1, out, list(BUSY), BUSY


@given(lambda: (toy.arange(2), frozenset([16, 8, 0, 24, 5])), lambda: (toy.arange(2), frozenset(made_of(5, 24, 0, 8, 16))), hit=False)
def test_frozensets_from_outside(x, f):
    return x + 1, list(f | {32}), list(f), f - {8}, list(f ^ {8, 40})


@whole
@given(lambda: (toy.arange(2),))
def test_errors(x):
    out = []
    for call in (
        lambda: {1}.union(3),
        lambda: {1}.symmetric_difference(),
        lambda: {1}.update([[1]]),
        lambda: {1}.remove(5),
        lambda: set().pop(),
        lambda: {1} | [2],
        lambda: {1}.intersection([[]]),
    ):
        try:
            out.append(call())
        except (TypeError, KeyError) as error:
            out.append((type(error).__name__, str(error)))
    return x + 1, out


def broken(s):
    yield 3
    s.add(100)
    raise ValueError("half")


@whole
@given(lambda: (toy.arange(2),))
def test_half_an_update(x):
    s = {1, 9}
    try:
        s.update([17], broken(s))
    except ValueError as error:
        return x + 1, list(s), s, str(error)


@dataclasses.dataclass(frozen=True)
class Place:
    row: int
    column: int = dataclasses.field(default=0, compare=False)


@given(lambda: (toy.arange(2),))
def test_elements_that_the_program_compares(x):
    s = {Place(n * 8 % 5) for n in range(7)}
    t = {Place(3, 1), Place(9, 1), Place(1, 1)}
    out = [[(place.row, place.column) for place in one] for one in (s,)]
    s.discard(Place(2))
    s.add(Place(16))
    out += [[(place.row, place.column) for place in one] for one in (s, t)]
    popped = s.pop()
    return x + 1, out, popped.row, len(s | t), {(place.row, place.column) for place in s & t}, sorted(p.row for p in s - t), s, t


@whole
@given(lambda: (toy.arange(2),))
def test_elements_that_differ_for_the_program(x):
    s, t = {Place(8), Place(0), Place(16)}, {Place(24), Place(5)}
    both = s | t
    s |= {Place(40)}
    near = {other for place in both for other in (Place(place.row + 1), Place(place.row - 1))} - both
    return x + 1, [place.row for place in both], [place.row for place in s], [place.row for place in near], both


@given(lambda: (toy.arange(2), {Place(3), Place(11)}))
def test_elements_from_outside_that_the_program_compares(x, s):
    t = s | {Place(4)}
    s.add(Place(19))
    return x + 1, sorted(place.row for place in t), sorted(place.row for place in s), len(t)


def eq_counts(log):
    class Loud:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return self.n % 2

        def __eq__(self, other):
            log.append((self.n, other.n))
            return self.n == other.n

    return Loud


@given(lambda: (toy.arange(2),))
def test_elements_that_tell_who_compares_them(x):
    log = []
    Loud = eq_counts(log)
    s = {Loud(1), Loud(2), Loud(3)}
    t = s | {Loud(4)}
    return x + 1, log, sorted(one.n for one in t)


def _registering(known):
    class Base(abc.ABC):
        def __init_subclass__(cls, **rest):
            super().__init_subclass__(**rest)
            known.append(cls.__name__)
            cls.tag = cls.__name__.lower()

        @abc.abstractmethod
        def run(self, x): ...

    return Base


@given(lambda: (toy.arange(2),))
def test_abstract_classes_that_register(x):
    known = []

    class One(_registering(known)):
        def run(self, x):
            return x + 1

    class Two(One):
        @abc.abstractmethod
        def run(self, x): ...

    try:
        Two()
    except TypeError as error:
        return One().run(x), known, One.tag, str(error), sorted(Two.__abstractmethods__), One.__abstractmethods__


POOL = [0, 8, 16, 24, 32, 1, 9, 17, 64, 128, "a", "b", None, 1.0, 2.5, (1, 2), (8,), -1, -2, True]
METHODS = "add discard pop __ior__ __iand__ __isub__ __ixor__ update copy union intersection difference symmetric_difference"


def changes_of(seed):
    rng = random.Random(seed)
    start = made_of(*rng.choices(POOL + list(range(200, 240)), k=rng.randrange(20)), without=rng.choices(POOL, k=4))
    steps = []
    for method in rng.choices(METHODS.split(), k=12):
        few = rng.choices(POOL, k=rng.randrange(8))
        steps.append((method, {"add": few[:1] or [5], "discard": few[:1] or [5], "pop": [], "copy": []}.get(method, [set(few)])))
    return toy.arange(2), steps, start


@given(*[lambda seed=seed: changes_of(seed) for seed in range(12)], hit=False)
def test_many_changes(x, steps, s):
    out = []
    for method, args in steps:
        if s or method != "pop":
            result = getattr(s, method)(*args)
            s = result if isinstance(result, set) else s
            out.append(list(s))
    return x + 1, out, s



def keyed_by_nans(first):
    a, b, c = NANS[first:first + 3]
    return toy.arange(2), dict.fromkeys([1, a, 2, b, (3, c), 4])


@given(*(lambda first=first: keyed_by_nans(first) for first in range(0, 24, 3)), hit=False)
def test_nans_of_a_dict(x, a):
    s = {key for key in a}
    return x + 1, list(s), s, {1, *a, *a}, list({0, *a}), frozenset(a), [key in s for key in a]


@given(*(lambda at=at: (toy.arange(2), NANS[at], 7) for at in range(8)), hit=False)
def test_nans_as_elements(x, nan, i):
    s = {1, nan, i, (nan, 3)}
    return x + 1, list(s), s, nan in s, float("nan") in s, (nan, 3) in s, len({nan, nan})


@given(lambda: (toy.arange(2), NANS[0], NANS[0]), lambda: (toy.arange(2), NANS[0], NANS[1]), hit=False)
def test_nans_that_are_one(x, a, b):
    return x + 1, len({a, b}), b in {a: 1}, (a, 1) == (b, 1), {(a, 1): 2}.get((b, 1))


@given(lambda: (toy.arange(2),))
def test_nans_made_here(x):
    a, b = float("nan"), float("nan")
    s = {a, b}
    return x + 1, len(s), a in s, float("nan") in s, len({a: 1, b: 2, (a,): 3, (b,): 4}), sorted({1: a, a: 1}, key=str)


class Renumbered:
    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return hash(self.number)

    def __eq__(self, other):
        return self.number == other.number

    def __repr__(self):
        return "Renumbered"


class Unnumbered(Renumbered):
    __slots__ = ()

    def __init__(self):
        pass


@given(lambda: (toy.arange(2), Unnumbered()), lambda: (toy.arange(2), Unnumbered()))
def test_keys_whose_hash_is_written_before_they_are_inserted(x, key):
    key.number = 7
    names, table = {key}, {key: 1}
    toy.save(x)
    return x + 1, key in names, table[key], len(names)


def inserted():
    key = Renumbered(3)
    return toy.arange(2), key, {key: 1}, {key}


@given(inserted)
def test_keys_whose_hash_is_written_after_they_were_inserted(x, key, table, names):
    key.number = 5
    return x + 1, key in table, key in names


def asked_by_keys():
    return toy.arange(2), {1, "two", 3.5, (4, "five"), None, True + 1}, {1: "one", "two": 2, (3, 4): [5]}


@whole
@given(asked_by_keys)
def test_single_keys_of_what_is_from_outside(x, s, d):
    answers = [key in s for key in (1, 1.0, True, "two", (4, "five"), 2, 7, None, float("nan"))]
    s.add(7)
    s.discard("two")
    s.add("two")
    s.discard("none")
    answers += [len(s), bool(s), 7 in s, "two" in s, d.get(1.0), d.get("n"), d[True], d[(3, 4)], (3, 4.0) in d]
    d["n"] = x
    d[1] = "another one"
    answers += [d.setdefault("two", 3), d.setdefault("m", 3), len(d), bool(d), d.get("n"), "m" in d]
    return x + 1, answers


@given(asked_by_keys)
def test_all_keys_after_single_ones(x, s, d):
    s.add(7)
    d["n"] = x
    before = [list(s), list(d.items()), 7 in s, len(s), len(d)]
    del d[1]
    d[1] = d.pop("two")
    s.remove(1)
    s |= {9}
    return x, before, list(s), list(d.items()), s == set(s), d == dict(d), {**d}, s | {11}
