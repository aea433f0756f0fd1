"""Classes made in the function: what is in them, who tells them apart, what leaves the graph."""

import abc
import collections
import dataclasses
import enum
import functools
import typing

import toy
from cases import given, whole

REGISTRY = []
BY_NAME = {}


class Base:
    factor = 2

    def scaled(self, x):
        return x * self.factor

    @classmethod
    def make(cls, *args):
        return cls(*args)


class Told:
    def __init_subclass__(cls, tag=None, **kwargs):
        super().__init_subclass__(**kwargs)
        REGISTRY.append((cls.__name__, tag))
        cls.tag = tag


class Named:
    def __set_name__(self, owner, name):
        REGISTRY.append((owner.__name__, name))
        self.name = name

    def __get__(self, instance, owner):
        return self.name if instance is None else (self.name, instance.k)


class Meta(type):
    def __new__(mcls, name, bases, namespace, **keywords):
        namespace["added"] = sorted(keywords)
        return super().__new__(mcls, name, bases, namespace)

    def __init__(cls, name, bases, namespace, **keywords):
        super().__init__(name, bases, namespace)
        cls.late = len(keywords)

    def __len__(cls):
        return 7


class Prepared(type):
    @classmethod
    def __prepare__(mcls, name, bases):
        return {"given": name}


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        pass


T = typing.TypeVar("T")


def one():
    return (toy.arange(3),)


def summary(cls):
    return cls.__name__, cls.__qualname__, [base.__name__ for base in cls.__mro__], sorted(k for k in vars(cls) if not k.startswith("__"))


@whole
@given(one)
def test_instance_returned(x):
    class Local:
        k = 2

        def __init__(self, t):
            self.t = t

        def get(self):
            return self.t * self.k

    local = Local(x + 1)
    return local.get(), local


@whole
@given(one)
def test_class_returned(x):
    class Local(Base):
        """What it is."""

        factor = 5
        pair = (1, [2])

        def get(self, y=x, *, z=3):
            return self.scaled(y) + z

    return Local, Local.__doc__, Local().get()


@given(one)
def test_class_used_behind_a_break(x):
    class Local(Base):
        def get(self, y):
            return self.scaled(y) + 1

    y = Local().get(x)
    if y.sum() > 0:
        y = y + 1
    return Local().get(y), isinstance(Local(), Base), summary(Local)


@whole
@given(one)
def test_class_in_its_own_methods(x):
    class Node:
        def __init__(self, value, left=None):
            self.value, self.left = value, left

        def grown(self):
            return Node(self.value + 1, self)

        def depth(self):
            return 1 if self.left is None else 1 + self.left.depth()

    n = Node(x).grown().grown()
    return n.value, n.depth(), n, Node


@whole
@given(one)
def test_super_in_both_forms(x):
    class Local(Base):
        def scaled(self, y):
            return super().scaled(y) + super(Local, self).scaled(y)

    class Lower(Local):
        factor = 3

        def scaled(self, y):
            return super().scaled(y) + 1

    return Lower().scaled(x), Lower.make(), Lower.__mro__[1] is Local


@whole
@given(one)
def test_classes_of_two_calls_differ(x):
    def make():
        class Local:
            pass

        return Local

    a, b = make(), make()
    return x + (a is b), a == b, isinstance(a(), b), {a: 1, b: 2}[b], a, b


@given(one, hit=False)
def test_class_kept_outside(x):
    class Local(Base):
        pass

    REGISTRY.append(Local)
    BY_NAME["Local"] = Local
    return x + 1, len(REGISTRY), BY_NAME["Local"] is REGISTRY[-1]


@whole
@given(one)
def test_attributes_written(x):
    class Local:
        count = 0

    a = Local()
    Local.count += 1
    Local.other = lambda self: self.count
    a.count += 5
    del Local.count
    Local.count = 3
    return x + a.other() + Local().other(), Local, hasattr(Local, "missing")


@whole
@given(one)
def test_descriptors(x):
    class Local:
        def __init__(self):
            self._v = 1

        @property
        def v(self):
            return self._v

        @v.setter
        def v(self, value):
            self._v = value * 2

        @functools.cached_property
        def once(self):
            return self._v + 1

        @staticmethod
        def plain(y):
            return y + 1

        @classmethod
        def built(cls):
            return cls()

    l = Local.built()
    l.v = 4
    return Local.plain(x) + l.v, l.once, l.once, l, Local.__dict__["v"].fset is None


@whole
@given(one)
def test_slots(x):
    class Local:
        __slots__ = ("a", "b")

        def __init__(self, a):
            self.a = a

    l = Local(x + 1)
    try:
        l.c = 1
    except AttributeError as error:
        text = str(error)
    return l.a, hasattr(l, "b"), text, l


@whole
@given(one)
def test_special_methods(x):
    class Number:
        def __init__(self, v):
            self.v = v

        def __add__(self, other):
            return Number(self.v + other.v)

        def __eq__(self, other):
            return self.v == other.v

        def __hash__(self):
            return hash(self.v)

        def __getattr__(self, name):
            return name

        def __call__(self, y):
            return y * self.v

        def __repr__(self):
            return f"Number({self.v})"

        def __iter__(self):
            yield from range(self.v)

    n = Number(1) + Number(2)
    return n(x), n == Number(3), {n: 1}[Number(3)], n.anything, repr(n), list(n), n


@whole
@given(one)
def test_builtin_bases(x):
    class Table(dict):
        def __missing__(self, key):
            return key * 2

    class Items(list):
        def total(self):
            return sum(self)

    class Number(int):
        def double(self):
            return self * 2

    t, i = Table(a=1), Items([1, 2])
    i.append(3)
    return x + t[4] + t["a"] + i.total() + Number(4).double(), t, i, Number(7)


@whole
@given(one)
def test_exceptions(x):
    class Failure(Exception):
        def __init__(self, code):
            super().__init__("failed", code)
            self.code = code

    class Worse(Failure):
        pass

    try:
        try:
            raise Worse(3)
        except Failure as error:
            y = x + error.code
            raise KeyError("k") from error
    except KeyError as error:
        cause = error.__cause__
    return y, cause.args, type(cause) is Worse, isinstance(cause, Failure)


@given(one)
def test_exception_that_leaves(x):
    class Failure(Exception):
        pass

    y = x + 1
    raise Failure("left", y)


@whole
@given(one, hit=False)
def test_named_by_the_class(x):
    class Local:
        k = 5
        field = Named()

    return x + 1, Local.field, Local().field


@given(one, hit=False)
def test_told_of_subclasses(x):
    class Local(Told, tag="t"):
        pass

    class Lower(Local):
        pass

    return x + 1, Local.tag, Lower.tag, list(REGISTRY), Local


@whole
@given(one)
def test_metaclass(x):
    class Local(Base, metaclass=Meta, a=1, b=2):
        pass

    return x + len(Local), Local.added, Local.late, type(Local) is Meta, Local


@whole
@given(one)
def test_prepared_namespace(x):
    class Local(metaclass=Prepared):
        text = given + "!"

    return x + 1, Local.text, Local.given


@whole
@given(one)
def test_abstract(x):
    class Square(Shape):
        def __init__(self, a):
            self.a = a

        def area(self):
            return self.a * self.a

    class Open(Shape):
        pass

    try:
        Open()
    except TypeError as error:
        text = str(error)
    return x + Square(3).area(), isinstance(Square(1), Shape), issubclass(Open, Shape), text, Square(2)


@whole
@given(one)
def test_dataclasses(x):
    @dataclasses.dataclass(order=True)
    class Point:
        a: int
        b: int = 2
        c: list = dataclasses.field(default_factory=list, compare=False)

        def total(self):
            return self.a + self.b

    @dataclasses.dataclass(frozen=True)
    class Frozen:
        t: object

    p, q = Point(1), Point(1, 3)
    p.c.append(4)
    try:
        Frozen(1).t = 2
    except dataclasses.FrozenInstanceError as error:
        text = str(error)
    return x + p.total(), p < q, p == Point(1), repr(p), q, Frozen(x * 2), text


@whole
@given(one)
def test_named_tuples(x):
    class Pair(typing.NamedTuple):
        a: object
        b: int = 3

        def total(self):
            return self.a + self.b

    p = Pair(x + 1)
    return p.total(), p, p._replace(b=4).b, Pair._fields


@whole
@given(one)
def test_enumerations(x):
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

        @property
        def nice(self):
            return self.name.lower()

    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 5

    table = {Color.RED: 1, Color.BLUE: 2}
    return x + table[Color(2)] + Level.HIGH, Color.RED.nice, [c.name for c in Color], Color["BLUE"] is Color.BLUE, Color.RED


@whole
@given(one)
def test_generic(x):
    class Box(typing.Generic[T]):
        def __init__(self, v):
            self.v = v

    return Box(x + 1).v, Box(2)


@whole
@given(one)
def test_total_ordering(x):
    @functools.total_ordering
    class Version:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n == other.n

        def __lt__(self, other):
            return self.n < other.n

    return x + (Version(1) <= Version(2)), Version(3) > Version(2), Version(1) >= Version(2)


@whole
@given(one)
def test_body_with_names(x):
    outer = 3

    class Local:
        a = outer
        b = [n for n in range(a)]
        if a:
            c: int = len(b)
        d: "text" = 5
        del a
        e = sorted(locals())[-1]

        class Inner:
            deep = outer

    return x + Local.c, Local.b, Local.Inner.deep, Local.e, hasattr(Local, "a"), Local.__annotations__, Local.Inner


@given(one)
def test_body_raises(x):
    y = x + 1
    try:

        class Local:
            k = missing_name

    except NameError as error:
        text = str(error)
    return y, text


@whole
@given(one)
def test_conflicts_are_cpythons(x):
    class A:
        pass

    class B(A):
        pass

    try:

        class C(A, B):
            pass

    except TypeError as error:
        return x + 1, str(error)


@whole
@given(one)
def test_tensors_in_a_class(x):
    class Local:
        t = x + 1
        items = [x * 2]

        def get(self):
            return self.t + self.items[0]

    Local.items.append(3)
    return Local().get(), Local, Local.t is Local().t


@whole
@given(one)
def test_class_by_call(x):
    names = {"k": 3, "get": lambda self: self.k}
    Made = type("Made", (Base,), names)
    names["k"] = 4
    return x + Made().get(), Made.__module__ == __name__, Made


@whole
@given(one)
def test_counter_of_a_class(x):
    class Counter(collections.Counter):
        pass

    class Ordered(collections.OrderedDict):
        pass

    c, o = Counter("aab"), Ordered(a=1)
    o.move_to_end("a")
    return x + c["a"], o


@whole
@given(one)
def test_method_given_away(x):
    class Local:
        def get(self):
            return self

        @classmethod
        def cls(cls):
            return cls

    local = Local()
    return x + 1, local.get, Local.cls, Local.get, local


@given(one)
def test_enumeration_with_a_name_twice(x):
    y = x + 1
    try:

        class Color(enum.Enum):
            RED = 1
            RED = 2

    except TypeError as error:
        return y, "RED" in str(error)


@given(one)
def test_enumeration_made_in_a_loop(x):
    class Color(enum.Enum):
        vars().update({k: v for v, k in enumerate("ab")})

    return x + 1, [c.name for c in Color], Color.a.value


@given(one)
def test_class_cell_that_is_none(x):
    class Celled(type):
        def __new__(mcls, name, bases, namespace, cell):
            namespace["__classcell__"] = cell
            return super().__new__(mcls, name, bases, namespace)

    y = x + 1
    try:

        class Local(metaclass=Celled, cell=0):
            pass

    except TypeError as error:
        return y, str(error)


@given(one)
def test_attributes_of_a_static_method(x):
    class Local:
        @staticmethod
        def plain():
            pass

    made = staticmethod(Local.plain)
    try:
        made.note = 3
    except AttributeError:
        pass
    return x + 1, getattr(made, "note", None), sorted(getattr(made, "__dict__", ()))


@whole
@given(one)
def test_fields_of_a_dataclass(x):
    @dataclasses.dataclass
    class Point:
        a: int
        b: list = dataclasses.field(default_factory=list, metadata={"k": 1})
        c: int = dataclasses.field(default=4, repr=False)

    point = Point(1, [2])
    return x + len(dataclasses.fields(Point)), [f.name for f in dataclasses.fields(point)], dataclasses.asdict(point), repr(point)


@given(one)
def test_break_in_a_method_of_a_dataclass(x):
    @dataclasses.dataclass
    class Point:
        a: int

        def __post_init__(self):
            if self.a.sum() > 0:
                self.a = self.a * 2

    return Point(x + 1).a, Point(x).a


Item = typing.TypeVar("Item")
Other = typing.TypeVar("Other")


class Holder(typing.Generic[Item]):
    held = "held"


def text_of(work):
    try:
        return work()
    except TypeError as error:
        return str(error)


@whole
@given(one)
def test_bases_that_stand_for_others_beside_others(x):
    class Both(typing.Generic[Item, Other], Holder[Item]):
        pass

    class Listed(typing.List[int], Holder[Item]):
        pass

    found = [[base.__name__ for base in made.__mro__] for made in (Both, Listed)]
    return x + 1, found, len(Both.__orig_bases__), Both.held


@given(one)
def test_named_tuple_with_another_base(x):
    class Plain:
        pass

    def make():
        class Named(typing.NamedTuple, Plain):
            field: int

        return Named

    return x + 1, text_of(make)


@given(one)
def test_bases_of_type_are_in_a_tuple(x):
    made = [text_of(lambda: type("Made", bases, {})) for bases in (1, [int], ())]
    return x + 1, made[:2], made[2].__name__


def row_of(names, **keywords):
    return collections.namedtuple("Row", names, **keywords)


@whole
@given(one)
def test_named_tuples_of_lists_that_change(x):
    names, defaults = ["a", "b"], [[1]]
    Row = row_of(names, defaults=defaults)
    names.append("c")
    defaults[0].append(2)
    defaults.clear()
    return x + 1, Row, Row(3), Row._fields, Row.__module__, Row.__new__.__defaults__


@whole
@given(one)
def test_named_tuples_that_are_refused(x):
    told = []
    for names, keywords in [("a a", {}), ("a b", {"defaults": (1, 2, 3)}), ("def", {}), ("_a", {}), ("def a", {"rename": True})]:
        try:
            told.append(row_of(names, **keywords)._fields)
        except (TypeError, ValueError) as error:
            told.append(str(error))
    return x + 1, told


@given(one)
def test_a_named_tuple_of_a_tensor(x):
    Row = row_of("a b", defaults=[x])
    return Row(x + 1)


class Refusing:
    def __set_name__(self, owner, name):
        REGISTRY.append(name)
        raise ValueError(name)


def names_are_refused():
    class Refused:
        first = Refusing()

    return Refused


@given(one)
def test_a_hook_that_raises(x):
    told = []
    for make in (names_are_refused, names_are_refused):
        try:
            make()
        except (ValueError, RuntimeError) as error:
            told.append((type(error).__name__, str(error), getattr(error, "__notes__", None), repr(error.__cause__)))
    try:

        class Refused:
            second = Refusing()

    except Exception as error:
        told.append((type(error).__name__, error.args))
    return x + 1, told, list(REGISTRY)
