"""Special methods of the program: they run at each call, and may be added, replaced or removed between the calls."""

import abc
import collections
import math
import operator
import sys
import typing
import warnings

import toy
from cases import changed, given, whole


def one():
    return (toy.arange(2),)


LOG, K = [], 1


def asked(name):
    LOG.append(name)
    return K


class Row(typing.NamedTuple):
    a: float
    b: float = 1.0

    def __float__(self):
        return float(asked("float"))

    def __int__(self):
        return asked("int")

    def __index__(self):
        return asked("index")

    def __complex__(self):
        return 1j * asked("complex")

    def __abs__(self):
        return asked("abs")

    def __round__(self, digits=None):
        return asked("round")

    def __divmod__(self, other):
        return asked("divmod")

    def __pow__(self, other, modulus=None):
        return asked("pow")

    def __neg__(self):
        return asked("neg")

    def __bytes__(self):
        return b"x" * asked("bytes")

    def __trunc__(self):
        return asked("trunc")

    def __str__(self):
        return "str %d" % asked("str")

    def __format__(self, spec):
        return "format %d" % asked("format")

    def __repr__(self):
        return "repr %d" % asked("repr")

    def __hash__(self):
        return asked("hash")


class Plain(tuple):
    def __str__(self):
        return "plain %d" % asked("str")

    def __float__(self):
        return float(asked("float"))


class Point(typing.NamedTuple):
    a: float
    b: float = 1.0

    def length(self):
        return math.hypot(self.a, self.b)


class Kinds(tuple):
    pass


ROW, PLAIN, POINT, KINDS = Row(1.0), Plain((1, 2)), Point(3.0, 4.0), Kinds((1, 2))

AGAIN = ("K = 2", "K = 3; LOG.clear()")


def counted(*found):
    return found + (list(LOG),)


@changed(*AGAIN)
def test_numbers_of_a_named_tuple(x):
    return x * float(ROW), counted(int(ROW), complex(ROW), abs(ROW), round(ROW), round(ROW, 1), divmod(ROW, 2), pow(ROW, 2), -ROW)


@changed(*AGAIN)
def test_indices_of_a_named_tuple(x):
    return x * K, counted([1, 2, 3, 4, 5][ROW], operator.index(ROW), (1, 2, 3, 4, 5).index(4, ROW), [5, 4, 3, 2].index(2, ROW), range(ROW))


@changed(*AGAIN)
def test_functions_of_a_named_tuple(x):
    return x * K, counted(math.sqrt(ROW), math.trunc(ROW), bytes(ROW), hex(ROW))


@changed(*AGAIN)
def test_texts_of_a_named_tuple(x):
    return x * K, counted(str(ROW), repr(ROW), format(ROW, ">9"), f"{ROW}", f"{ROW!r}", "{}".format(ROW), "%s %r" % (ROW, ROW), repr([ROW]), str((ROW,)))


@changed(*AGAIN)
def test_hashes_of_a_named_tuple(x):
    return x * K, counted(hash(ROW))


@changed(*AGAIN)
def test_a_named_tuple_made_in_the_function(x):
    row = Row(2.0)
    return x * float(row), counted(abs(row), f"{row}", str(Plain([1])), float(PLAIN), hash(Row(3.0)))


class Third(collections.namedtuple("Third", "a")):
    def __float__(self):
        LOG.append(1)
        if len(LOG) % 3 == 0:
            raise ValueError("third")
        return 1.0


THIRD = Third(1)


@changed("None", "None", "None", "None")
def test_an_error_that_a_later_call_raises(x):
    try:
        return x * float(THIRD)
    except ValueError as error:
        return x - 1, str(error)


@whole
@given(one)
def test_known_texts_of_named_tuples(x):
    return x + 1, str(POINT), "%s" % (POINT,), "{}".format(POINT), repr([Point(1.0)]), hash(POINT) == hash((3.0, 4.0)), POINT.length()


@changed(
    "Point.__str__ = lambda self: 'own'",
    "Point.__abs__ = lambda self: 7",
    "del Point.__str__",
    "Point.__repr__ = lambda self: 'own repr'",
    "Point.other = 3",
)
def test_methods_that_come_later(x):
    try:
        size = abs(POINT)
    except TypeError as error:
        size = str(error)
    return x + 1, str(POINT), f"{Point(2.0)}", size


@given(one)
def test_a_method_given_by_the_function(x):
    before = str(POINT)
    Point.__str__ = lambda self: "given"
    after = str(POINT)
    del Point.__str__
    return x + 1, before, after, str(POINT)


@changed("Kinds.__reversed__ = lambda self: [7]", "Kinds.__reversed__ = None", "del Kinds.__reversed__")
def test_reversed_tuples(x):
    try:
        return x + 1, list(reversed(KINDS))
    except TypeError as error:
        return x + 2, str(error)


class Key:
    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return hash(self.number)

    def __eq__(self, other):
        return self.number == other.number


FIRST = Key(1)
KEYED = {FIRST: 1, Key(2): 2}
ORDERED = collections.OrderedDict(KEYED)


@changed("FIRST.number = 2", "FIRST.number = 1")
def test_keys_that_change_in_their_dict(x):
    found = [x * value for value in KEYED.values()]
    return found, list(ORDERED.values()), KEYED.get(Key(2)), KEYED.get(Key(1)), KEYED.get(Key(3))


@whole
@given(one)
def test_keys_with_methods_of_their_own(x):
    return [x * value for value in KEYED.values()], KEYED[Key(2)], list(ORDERED.values())


class Meta(type):
    pass


class Made(metaclass=Meta):
    pass


@changed(
    "Meta.__instancecheck__ = lambda cls, object: True",
    "Meta.__subclasscheck__ = lambda cls, other: True",
    "del Meta.__instancecheck__",
    "del Meta.__subclasscheck__",
)
def test_hooks_that_metaclasses_get_later(x):
    return x + 1, isinstance(5, Made), issubclass(int, Made)


class Written(metaclass=Meta):
    pass


@changed("Meta.__setattr__ = lambda cls, name, value: LOG.append(name)", "del Meta.__setattr__")
def test_writes_that_metaclasses_take_later(x):
    Written.held = 1
    return x + 1, list(LOG), dir(Made()) == []


class Empty:
    def __iter__(self):
        return self


EMPTY = Empty()


@changed("Empty.__next__ = lambda self: next(iter(()))", "del Empty.__next__")
def test_an_iterator_that_becomes_one(x):
    try:
        return x + 1, next(EMPTY, "end")
    except TypeError as error:
        return x + 2, str(error)


@changed("Empty.__dir__ = lambda self: ['b', 'a']", "del Empty.__dir__")
def test_names_that_a_class_gives_later(x):
    return x + 1, "a" in dir(EMPTY)


class Raised(Exception):
    pass


@changed(
    "Raised.__new__ = lambda cls, *args: ValueError('other')",
    "del Raised.__new__",
    "Raised.__init__ = lambda self, *args: LOG.append(args)",
    "del Raised.__init__",
    "Raised.__str__ = lambda self: 'own'",
)
def test_exceptions_made_in_another_way(x):
    try:
        raise Raised(1)
    except Exception as error:
        return x + 1, type(error).__name__, str(error), repr(error), len(LOG)


class Listed(list):
    pass


class Text(str):
    pass


LISTED, TEXT = Listed([1]), Text("a")


@changed(
    "Listed.__mul__ = Text.__mul__ = lambda self, other: 7",
    "del Listed.__mul__, Text.__mul__",
)
def test_products_of_sequences(x):
    found = []
    for work in (lambda: LISTED * [2], lambda: TEXT * [2]):
        try:
            found.append(work())
        except TypeError as error:
            found.append(type(error).__name__)
    return x + 1, found


class Abstract(abc.ABCMeta):
    pass


class Checked(metaclass=Abstract):
    pass


@changed("Abstract.__subclasscheck__ = lambda cls, other: True", "del Abstract.__subclasscheck__")
def test_an_abstract_metaclass_that_gets_a_hook(x):
    return x + 1, isinstance(5, Checked), issubclass(int, Checked)


class Long(tuple):
    def __len__(self):
        return asked("len")

    def __iter__(self):
        return iter([asked("iter")])


LONG = Long((1, 2))


@changed(*AGAIN)
def test_templates_of_tuples_that_override_their_items(x):
    return x + 1, "%s %s" % LONG, list(LOG)


class Few(frozenset):
    def __len__(self):
        return asked("len")


class Read(dict):
    def __getattribute__(self, name):
        LOG.append(name)
        return dict.__getattribute__(self, name)


FEW, READ = Few([1]), Read(a=1)


@changed("LOG.clear()", "K = 2")
def test_containers_that_are_not_asked(x):
    return x * len(FEW), len(READ), list(READ), 1 in FEW, list(LOG)


class Complex(str):
    def __complex__(self):
        return 2j


class Silent:
    def __contains__(self, item):
        return NotImplemented


COMPLEX, SILENT = Complex("1"), Silent()


@given(one)
def test_texts_of_complex_numbers(x):
    return x + 1, complex(COMPLEX)


@given(one)
def test_a_container_that_does_not_answer(x):
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        found = 1 in SILENT
    return x + 1, found, [str(warning.message) for warning in given]


class Counts(list):
    def __index__(self):
        return 2


@given(one)
def test_sequences_times_a_sequence_with_an_index(x):
    try:
        return x + 1, [0] * Counts([1]), "ab" * Counts([1])
    except TypeError as error:
        return x + 2, str(error)


class At:
    def __index__(self):
        return asked("index")


AT = At()


@changed(*AGAIN)
def test_searches_from_an_index(x):
    try:
        return x + 1, (1, 2, 3, 4).index(4, AT), [1, 2, 3, 4].index(4, AT, 4), list(LOG)
    except TypeError as error:
        return x + 2, str(error)


@whole
@given(one)
def test_searches_within_bounds(x):
    return x + 1, (1, 2, 1).index(1, 1), (1, 2, 1).index(1, -1, 99), [1, 2].index(2, -(10**30), 10**30), (1, 2).index(2, True)


@given(one)
def test_searches_from_what_is_no_index(x):
    found = []
    for start in (None, "1", 1.5, EMPTY):
        try:
            found.append((1, 2).index(1, start))
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


DIGITS = "1" * 5000
limit_digits = getattr(sys, "set_int_max_str_digits", int)


@changed("limit_digits(0)", "limit_digits(640)", "limit_digits(4300)")
def test_numbers_of_many_digits(x):
    found, ten = [], len("0123456789")
    for work in (lambda: int(DIGITS) % 7, lambda: len(str(ten**700)), lambda: len(f"{ten**700}")):
        try:
            found.append(work())
        except ValueError:
            found.append("refused")
    return x + 1, found
