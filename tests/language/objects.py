"""Instances of classes, made and used in the function."""

import abc
import math
import types


class Point:
    dims = 2

    def __init__(self, a, b=2):
        self.a = a
        self.b = b

    def total(self):
        return self.a + self.b

    @property
    def double(self):
        return self.a * 2

    @double.setter
    def double(self, value):
        self.a = value / 2

    @double.deleter
    def double(self):
        self.a = 0

    @staticmethod
    def three():
        return 3

    @classmethod
    def of(cls, *args, **kwargs):
        return cls(*args, **kwargs)

    def __eq__(self, other):
        return isinstance(other, Point) and (self.a, self.b) == (other.a, other.b)

    def __hash__(self):
        return hash((self.a, self.b))

    def __add__(self, other):
        return Point(self.a + other.a, self.b + other.b)

    def __radd__(self, other):
        return Point(self.a + other, self.b)

    def __iadd__(self, other):
        self.a += other
        return self

    def __neg__(self):
        return Point(-self.a, -self.b)

    def __len__(self):
        return self.dims

    def __getitem__(self, i):
        return (self.a, self.b)[i]

    def __setitem__(self, i, value):
        setattr(self, "ab"[i], value)

    def __contains__(self, value):
        return value in (self.a, self.b)

    def __call__(self, k):
        return self.a * k

    def __bool__(self):
        return self.a != 0

    def __repr__(self):
        return f"Point({self.a}, {self.b})"

    def __lt__(self, other):
        return self.a < other.a

    def __format__(self, spec):
        return f"<{spec}:{self.a}>"

    def __index__(self):
        return self.a

    def __enter__(self):
        self.b += 1
        return self

    def __exit__(self, *exc):
        self.b += 10
        return exc[0] is ValueError


class Child(Point):
    def __init__(self, a):
        super().__init__(a, b=5)
        self.c = 1

    def total(self):
        return super().total() + self.c


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class SlottedChild(Slotted):
    __slots__ = ("c",)


class WithNew:
    def __new__(cls, value):
        self = super().__new__(cls)
        self.made = value
        return self

    def __init__(self, value):
        self.value = value


class Singleton:
    instance = None

    def __new__(cls):
        return 17


class Fallback:
    def __init__(self):
        self.real = 1

    def __getattr__(self, name):
        if name.startswith("x"):
            return len(name)
        raise AttributeError(name)


class Everything:
    def __getattribute__(self, name):
        if name == "special":
            return 9
        return super().__getattribute__(name)


class Watched:
    def __init__(self):
        object.__setattr__(self, "log", [])

    def __setattr__(self, name, value):
        self.log.append(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        self.log.append("-" + name)
        object.__delattr__(self, name)


class Descriptor:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner):
        return self if instance is None else getattr(instance, self.name, 0) + 1

    def __set__(self, instance, value):
        setattr(instance, self.name, value)

    def __delete__(self, instance):
        delattr(instance, self.name)


class NonData:
    def __get__(self, instance, owner):
        return 11


class Described:
    managed = Descriptor()
    plain = NonData()


class Cached:
    calls = 0

    def __init__(self):
        self.n = 0

    def next(self):
        self.n += 1
        return self.n


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Sequence:
    def __getitem__(self, i):
        if i > 2:
            raise IndexError
        return i * 2

    def __len__(self):
        return 3


class Base(abc.ABC):
    @abc.abstractmethod
    def work(self):
        pass


class Worker(Base):
    def work(self):
        return 6


class Meta(type):
    @property
    def label(cls):
        return "label " + cls.__name__

    def shout(cls):
        return cls.__name__.upper()


class Labelled(metaclass=Meta):
    pass


class Mixin:
    def who(self):
        return "mixin"


class Left(Mixin):
    def who(self):
        return "left " + super().who()


class Right(Mixin):
    def who(self):
        return "right " + super().who()


class Both(Left, Right):
    def who(self):
        return "both " + super().who()


class Hooked:
    registry = []

    def __init_subclass__(cls, **kwargs):
        cls.registry.append(cls.__name__)


def new_instance(x):
    return x + Point(1).total()


def new_instance_of_a_subclass(x):
    p = Child(4)
    return x + p.total(), p.b, p.c


def instance_returned(x):
    return Point(x + 1), Child(3)


def shared_instance_returned(x):
    p = Point(1)
    return x + 1, [p, p], {"p": p}


def class_attribute(x):
    return x + Point.dims + Point(1).dims


def property_read(x):
    return x + Point(3).double


def property_written(x):
    p = Point(3)
    p.double = 10
    return x + 1, p.a


def property_deleted(x):
    p = Point(3)
    del p.double
    return x + p.a


def static_and_class_methods(x):
    return x + Point.three() + Point(1).three() + Point.of(1, b=3).b + Child.of(2).a


def bound_method_as_a_value(x):
    f = Point(2).total
    return x + f()


def unbound_method(x):
    return x + Point.total(Point(2))


def equality_of_instances(x):
    return x + 1, Point(1) == Point(1), Point(1) != Point(2), Point(1) == 3, Point(1) in [Point(2), Point(1)]


def operators_of_instances(x):
    p = Point(1) + Point(2)
    p += 5
    q = 10 + p
    return x + p.a, q.a, (-q).b


def container_protocol(x):
    p = Point(4, 5)
    p[1] = 6
    return x + p[0] + len(p), p[1], 6 in p, 5 in p


def callable_instance(x):
    return Point(x)(3)


def truth_of_an_instance(x):
    return x + (1 if Point(0) else 2)


def sorted_instances(x):
    return x + 1, [p.a for p in sorted([Point(3), Point(1), Point(2)])]


def repr_of_an_instance(x):
    return x + 1, repr(Point(1)), f"{Point(2)!r}", "%r" % Point(3), str(Point(4))


def format_of_an_instance(x):
    return x + 1, f"{Point(1):spec}", format(Point(2), "s"), "{:z}".format(Point(3))


def index_of_an_instance(x):
    return x + [10, 20, 30][Point(1)]


def context_manager_instance(x):
    p = Point(1, 0)
    with p as q:
        y = x + q.b
    return y, p.b


def context_manager_that_suppresses(x):
    p = Point(1, 0)
    with p:
        raise ValueError
    return x + p.b


def slots(x):
    s = Slotted(3)
    s.b = 4
    return x + s.a + s.b, s


def slots_unset(x):
    s = Slotted(3)
    return x + 1, hasattr(s, "b"), getattr(s, "b", 7)


def slots_deleted(x):
    s = SlottedChild(3)
    s.c = 1
    del s.c
    return x + 1, hasattr(s, "c")


def slots_refuse(x):
    try:
        Slotted(1).other = 2
    except AttributeError:
        return x + 1


def own_new(x):
    w = WithNew(x)
    return w.made + w.value


def new_of_another_type(x):
    return x + Singleton()


def getattr_hook(x):
    f = Fallback()
    return x + f.real + f.xyz + getattr(f, "missing", 4), hasattr(f, "y")


def getattribute_hook(x):
    return x + Everything().special


def setattr_hook(x):
    w = Watched()
    w.a = 1
    del w.a
    return x + 1, w.log


def descriptor(x):
    d = Described()
    d.managed = 4
    return x + d.managed + d.plain


def descriptor_deleted(x):
    d = Described()
    d.managed = 4
    del d.managed
    return x + d.managed


def descriptor_on_the_class(x):
    return x + 1, Described.managed.name, Described.plain


def non_data_descriptor_shadowed(x):
    d = Described()
    d.__dict__["plain"] = 5
    return x + d.plain


def instance_dict(x):
    p = Point(1, 2)
    return x + 1, p.__dict__, vars(p), sorted(vars(p).items())


def instance_dict_updated(x):
    p = Point(1, 2)
    p.__dict__.update(a=5)
    return x + p.a


def attributes_by_name(x):
    p = Point(1)
    setattr(p, "a", 5)
    delattr(p, "b")
    return x + getattr(p, "a"), hasattr(p, "b"), hasattr(p, "total")


def type_of_an_instance(x):
    p = Child(1)
    return x + 1, type(p) is Child, p.__class__.__name__, type(p).__mro__[1] is Point, type(p)(2).a


def isinstance_of_instances(x):
    c = Child(1)
    return x + 1, isinstance(c, Point), isinstance(c, (int, Child)), issubclass(Child, Point), isinstance(c, Slotted)


def abstract_base(x):
    w = Worker()
    return x + w.work(), isinstance(w, Base)


def abstract_base_refuses(x):
    try:
        Base()
    except TypeError:
        return x + 1


def metaclass_attributes(x):
    return x + 1, Labelled.label, Labelled.shout(), isinstance(Labelled, Meta), Labelled().__class__.label


def diamond(x):
    return x + 1, Both().who()


def mutated_in_a_method(x):
    c = Cached()
    c.next()
    return x + c.next(), c.n


def instances_in_a_dict(x):
    p = Point(1)
    d = {"p": p}
    d["p"].a = 8
    return x + p.a


def user_iterator(x):
    return x + sum(Countdown(4)), [v for v in Countdown(3)], list(Countdown(2))


def sequence_protocol(x):
    s = Sequence()
    return x + 1, list(s), [v for v in s], 4 in s, len(s), list(reversed(s))


def class_cell(x):
    class_of = Point(1).__class__
    return x + class_of(3).a


def object_identity(x):
    a, b = Point(1), Point(1)
    return x + 1, a is b, a is a, a is not b


def plain_object(x):
    sentinel = object()
    d = {"k": sentinel}
    return x + 1, d["k"] is sentinel, sentinel == object()


def instance_as_a_key(x):
    p = Cached()
    d = {p: 3}
    return x + d[p]


def hashable_instance_as_a_key(x):
    d = {Point(1): 3}
    return x + d[Point(1)], Point(1) in d


def set_of_instances(x):
    return x + len({Point(1), Point(1), Point(2)})


def simple_namespace(x):
    from types import SimpleNamespace

    n = SimpleNamespace(a=1, b=x)
    n.c = 3
    return n.b + n.a + n.c


def property_made_by_call(x):
    return x + 1, Point.double.fget(Point(4))


def super_with_arguments(x):
    c = Child(1)
    return x + super(Child, c).total()


def method_resolution(x):
    return x + 1, [c.__name__ for c in Both.__mro__], [c.__name__ for c in type(Child(1)).__bases__]


class Converted:
    """Stands for other numbers, each where another method is asked."""

    def __index__(self):
        return 2

    def __int__(self):
        return 3

    def __float__(self):
        return 1.5

    def __complex__(self):
        return 1j

    def __round__(self, digits=None):
        return "rounded", digits

    def __trunc__(self):
        return 7

    def __floor__(self):
        return 8

    def __ceil__(self):
        return 9

    def __bytes__(self):
        return b"z"

    def __divmod__(self, other):
        return 1, other

    def __pow__(self, other, modulus=None):
        return other, modulus

    def __abs__(self):
        return 4

    def __reversed__(self):
        return iter([9])

    def __dir__(self):
        return ["q"]


def conversions_of_an_object(x):
    y, n = x + 1, Converted()
    numbers = int(n), float(n), complex(n), round(n), round(n, 2), math.trunc(n), math.floor(n), math.ceil(n), abs(n)
    operators = divmod(n, 3), n ** 2, pow(n, 2, 5), [1, 2, 3][n], "abc"[n], "x" * n
    return y, numbers, operators, hex(n), bin(n), oct(n), chr(n), range(n), bytes(n), list(reversed(n)), dir(n)


def methods_made_by_call(x):
    method = types.MethodType(lambda this, value: (this, value), 3)
    return x + 1, method(4), method.__self__, method.__func__(1, 2)


class Dotted(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


def attributes_that_are_items(x):
    settings = Dotted(width=2)
    settings.depth = settings.width + 1
    settings.name = "net"
    del settings.name
    try:
        del settings.lost
    except KeyError as error:
        settings.error = error.args
    return x * settings.depth, settings, settings.nothing, vars(settings)


class Counted(property):
    def __get__(self, owner, kind=None):
        COUNTS["reads"] += 1
        return property.__get__(self, owner, kind)


COUNTS = {"reads": 0}


class Measured:
    @Counted
    def size(self):
        return 3


MEASURED = Measured()


def getters_called_by_subclasses_of_property(x):
    COUNTS["reads"] = 0
    return x + MEASURED.size, isinstance(Measured.size, Counted), COUNTS["reads"]
