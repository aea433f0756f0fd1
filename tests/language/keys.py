"""Keys of dicts and elements of sets whose hash and equality the program writes."""

import collections
import dataclasses
import enum


class Name:
    hashed = 0

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return "Name"

    def __hash__(self):
        return hash(self.text.lower())

    def __eq__(self, other):
        return isinstance(other, Name) and self.text.lower() == other.text.lower()


class Folded(str):
    def __hash__(self):
        return hash(self.lower())

    def __eq__(self, other):
        return self.lower() == other.lower()


class Itself:
    """Is its own key, as tensors are: equality says something else."""

    def __hash__(self):
        return hash(id(self))

    def __eq__(self, other):
        raise AssertionError("not asked")


class Unhashable:
    def __eq__(self, other):
        return True


@dataclasses.dataclass(frozen=True)
class Shape:
    rows: int
    columns: int = 2


class Plain:
    pass


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


Pair = collections.namedtuple("Pair", "a b")

_SHAPES = {Shape(1): 10, Shape(2, 3): 20}
_NAMES = {Name("a"), Name("b")}
_ONE, _OTHER, _LAST = Itself(), Itself(), Itself()
_OWN_KEYS = {_ONE: 1, _OTHER: 2}


def key_with_own_hash(x):
    d = {Name("a"): 1}
    d[Name("A")] = 2
    return x + d[Name("a")], len(d), Name("b") in d, d.get(Name("c"), 0), [k.text for k in d]


def key_deleted_and_popped(x):
    d = {Name("a"): 1, Name("b"): 2}
    del d[Name("A")]
    return x + d.pop(Name("B")), len(d), d.setdefault(Name("z"), 4)


def missing_key_with_own_hash(x):
    try:
        {Name("a"): 1}[Name("b")]
    except KeyError as e:
        return x + 1, e.args[0].text


def frozen_dataclass_keys(x):
    d = {Shape(1): 4, Shape(2): 5}
    return x + d[Shape(1, 2)], Shape(2) in d, Shape(3) in d, hash(Shape(1)) == hash(Shape(1))


def keys_of_a_global_dict(x):
    return x + _SHAPES[Shape(1)], Shape(2, 3) in _SHAPES, Shape(9) in _SHAPES, sum(_SHAPES.values())


def elements_of_a_global_set(x):
    return x + len(_NAMES), Name("A") in _NAMES, Name("z") in _NAMES


def set_of_own_hashes(x):
    s = {Name("a"), Name("A"), Name("b")}
    s.add(Name("B"))
    s.discard(Name("a"))
    return x + len(s), Name("b") in s, s == {Name("B")}, len(s | {Name("c")})


def set_operations_with_own_hashes(x):
    a, b = {Shape(1), Shape(2)}, {Shape(2), Shape(3)}
    return x + len(a & b), len(a | b), len(a - b), len(a ^ b), a <= a | b, a.isdisjoint({Shape(9)})


def tuple_with_an_object_as_a_key(x):
    d = {(Name("a"), 1): 3}
    p = Plain()
    e = {(p, 2): 4, (Plain(), 2): 5}
    return x + d[Name("A"), 1], (Name("b"), 1) in d, e[p, 2], (Plain(), 2) in e


def tuple_with_classes_as_a_key(x):
    d = {(int, "a"): 1, (Plain, None): 2, (len, 3): 3}
    return x + d[int, "a"], d[Plain, None], d[len, 3], (str, "a") in d


def classes_as_keys(x):
    d = {int: "i", Plain: "p", list: "l"}
    return x + 1, d[type(3)], d[type(Plain())], d.get(type("s")), Plain in d


def functions_as_keys(x):
    def inner(v):
        return v

    d = {inner: 1, len: 2, Plain.__init__: 3}
    return x + d[inner], d[len]


def enum_keys(x):
    d = {Color.RED: 1, (Color.BLUE, 3): 2, Level.LOW: 4}
    return x + d[Color.RED], d[Color.BLUE, 3], d[1], Color.BLUE in d


def named_tuples_as_keys(x):
    d = {Pair(1, 2): 3}
    return x + d[Pair(1, 2)], d[1, 2], Pair(2, 1) in d


def str_subclass_as_a_key(x):
    d = {Folded("a"): 1}
    return x + d[Folded("A")], Folded("b") in d


def unhashable_keys(x):
    errors = []
    for key in ([], {}, set(), Unhashable(), ([],)):
        try:
            {key: 1}
        except TypeError as e:
            errors.append(str(e)[:15])
    return x + len(errors), errors


def counted_objects(x):
    c = collections.Counter([Shape(1), Shape(1), Shape(2)])
    return x + c[Shape(1)], c[Shape(5)]


def grouped_by_objects(x):
    d = collections.defaultdict(list)
    for shape, value in ((Shape(1), "a"), (Shape(2), "b"), (Shape(1), "c")):
        d[shape].append(value)
    return x + 1, d[Shape(1)], len(d)


def frozenset_of_objects(x):
    f = frozenset([Shape(1), Shape(1)])
    return x + len(f), Shape(1) in f, {f: 2}[frozenset([Shape(1)])]


def dict_of_objects_returned(x):
    return x + 1, len({Shape(1): x, Shape(2): x}), list({Name("q"): 1}.items())[0][1]


def dict_comparison_with_own_hashes(x):
    return x + 1, {Name("a"): 1} == {Name("A"): 1}, {Name("a"): 1} == {Name("b"): 1}


def unique_objects_in_order(x):
    seen = list(dict.fromkeys([Name("b"), Name("a"), Name("B")]))
    return x + len(seen), [n.text for n in seen]


def memo_by_object(x):
    memo = {}

    def area(shape):
        if shape not in memo:
            memo[shape] = shape.rows * shape.columns
        return memo[shape]

    return x + area(Shape(2)) + area(Shape(2)), len(memo)


def keys_hashed_by_their_own_identity(x):
    d = {_ONE: 1, Itself(): 2, (_OTHER, 1): 3}
    made = Itself()
    d[made] = 4
    return x + d[_ONE], d[made], d[_OTHER, 1], _OTHER in d, (made, 1) in d, len({_ONE, _OTHER, _ONE, made}), _OWN_KEYS[_OTHER]


def each_once_by_identity(x):
    seen, found = set(), []
    for one in [_ONE, _OTHER, _ONE, _LAST, _OTHER]:
        if one not in seen:
            seen.add(one)
            found.append(one)
    return x + len(found), [one is _LAST for one in found], _LAST in _OWN_KEYS
