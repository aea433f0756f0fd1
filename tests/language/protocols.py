"""Special methods of user classes, beside those in objects.py, and what classes do when they are made."""

import abc
import collections.abc
import contextlib
import operator
import typing


class Grid:
    def __init__(self, rows):
        self.rows = rows

    def __getitem__(self, key):
        if isinstance(key, tuple):
            return self.rows[key[0]][key[1]]
        if isinstance(key, slice):
            return Grid(self.rows[key])
        return self.rows[key]

    def __setitem__(self, key, value):
        self.rows[key[0]][key[1]] = value

    def __delitem__(self, key):
        del self.rows[key]

    def __len__(self):
        return len(self.rows)

    def __reversed__(self):
        return iter(self.rows[::-1])

    def __contains__(self, value):
        return any(value in row for row in self.rows)


class Missing(dict):
    def __missing__(self, key):
        self[key] = key * 2
        return self[key]


class Number:
    def __init__(self, v):
        self.v = v

    def __index__(self):
        return self.v

    def __int__(self):
        return self.v

    def __float__(self):
        return self.v / 2

    def __complex__(self):
        return complex(self.v, 1)

    def __round__(self, digits=None):
        return ("rounded", digits)

    def __trunc__(self):
        return self.v

    def __floor__(self):
        return self.v - 1

    def __ceil__(self):
        return self.v + 1

    def __abs__(self):
        return abs(self.v)

    def __divmod__(self, other):
        return (self.v, other)

    def __pow__(self, other, modulus=None):
        return (self.v, other, modulus)

    def __matmul__(self, other):
        return self.v @ other if not isinstance(other, (int, Number)) else 7

    def __lshift__(self, other):
        return self.v << other

    def __invert__(self):
        return ~self.v

    def __pos__(self):
        return self

    def __bytes__(self):
        return b"n"

    def __len__(self):
        return self.v

    def __length_hint__(self):
        return 3

    def __hash__(self):
        return self.v

    def __sizeof__(self):
        return 100

    def __dir__(self):
        return ["b", "a"]


class Reluctant:
    def __add__(self, other):
        return NotImplemented

    def __radd__(self, other):
        return NotImplemented

    def __eq__(self, other):
        return NotImplemented

    def __lt__(self, other):
        return NotImplemented


class Reflecting:
    def __radd__(self, other):
        return ("radd", other)

    def __rmul__(self, other):
        return ("rmul", other)

    def __gt__(self, other):
        return "gt"

    def __rmatmul__(self, other):
        return "rmatmul"


class Accumulated:
    def __init__(self):
        self.log = []

    def __iadd__(self, other):
        self.log.append(("+", other))
        return self

    def __imul__(self, other):
        self.log.append(("*", other))
        return self

    def __ior__(self, other):
        self.log.append(("|", other))
        return self


class Generic:
    def __class_getitem__(cls, item):
        return (cls.__name__, item)


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, item):
        self.item = item


class Plugin:
    names = []

    def __init_subclass__(cls, tag=None, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.tag = tag


class Tagged(Plugin, tag="t"):
    pass


class Named:
    def __set_name__(self, owner, name):
        self.where = (owner.__name__, name)

    def __get__(self, instance, owner=None):
        return self.where


class Holder:
    field = Named()


class Resource:
    closed = 0

    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(kind.__name__ if kind else "exit")
        return False

    def close(self):
        self.log.append("close")


class Base(abc.ABC):
    @property
    @abc.abstractmethod
    def size(self):
        pass

    @classmethod
    def __subclasshook__(cls, other):
        return hasattr(other, "size") or NotImplemented


class Sized(Base):
    size = 3


class Duck:
    size = 5


class Slotted:
    __slots__ = ("a",)

    def __init__(self):
        self.a = 5


@typing.runtime_checkable
class HasClose(typing.Protocol):
    def close(self):
        ...


class Walker(collections.abc.Sequence):
    def __getitem__(self, i):
        return [1, 2, 3][i]

    def __len__(self):
        return 3


class Table(collections.abc.MutableMapping):
    def __init__(self):
        self.data = {}

    def __getitem__(self, key):
        return self.data[key]

    def __setitem__(self, key, value):
        self.data[key] = value

    def __delitem__(self, key):
        del self.data[key]

    def __iter__(self):
        return iter(self.data)

    def __len__(self):
        return len(self.data)


class Registry(type):
    def __new__(mcs, name, bases, namespace, **kwargs):
        cls = super().__new__(mcs, name, bases, namespace)
        cls.registered = name.lower()
        return cls

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.extra = 4
        return made

    def __len__(cls):
        return 8

    def __iter__(cls):
        return iter([1, 2])

    def __contains__(cls, item):
        return item == 3

    def __getitem__(cls, item):
        return item * 2


class Registered(metaclass=Registry):
    def __init__(self, v):
        self.v = v


class Dead:
    log = []

    def __del__(self):
        pass


def grid_items(x):
    g = Grid([[1, 2], [3, 4]])
    g[0, 1] = 9
    del g[1]
    return x + g[0, 1], len(g), g[0], 9 in g, 3 in g, g[0:1].rows


def reversed_hook(x):
    return x + 1, list(reversed(Grid([1, 2, 3])))


def iterated_by_items(x):
    return x + 1, list(Grid([5, 6])), [v for v in Grid([1])], sum(Grid([1, 2])), max(Grid([3, 9]))


def missing_hook(x):
    m = Missing(a=1)
    return x + m["a"], m["bb"], dict(m), m.get("c")


def index_hook(x):
    n = Number(2)
    return x + [1, 2, 3][n], "abc"[n], list(range(n)), [0] * n, hex(n), bin(n), (1, 2, 3)[:n]


def number_hooks(x):
    n = Number(4)
    return x + int(n), float(n), round(n), round(n, 2), abs(n), divmod(n, 3), n ** 2, pow(n, 2, 5), ~n, n << 1, (+n).v


def math_hooks(x):
    import math

    n = Number(4)
    return x + math.floor(n), math.ceil(n), math.trunc(n), complex(n), bytes(n), bool(n), len(n)


def not_implemented(x):
    r = Reluctant()
    found = []
    try:
        r + 1
    except TypeError as e:
        found.append(str(e))
    try:
        r < 3
    except TypeError as e:
        found.append(str(e))
    return x + 1, found, r == r, r == 4, r != 4


def reflected_hooks(x):
    r = Reflecting()
    return x + 1, 3 + r, [1] * r, 4 < r, Reluctant() + r, 2 @ r


def in_place_hooks(x):
    a = Accumulated()
    b = a
    a += 1
    a *= 2
    a |= 3
    return x + len(a.log), a.log, a is b


def class_getitem_hook(x):
    return x + 1, Generic[3], Box[int](4).item, Box[int].__origin__ is Box


def init_subclass_hook(x):
    return x + 1, Tagged.tag, Tagged.__mro__[1] is Plugin


def init_subclass_in_the_function(x):
    class Local(Plugin, tag="local"):
        pass

    return x + 1, Local.tag


def set_name_hook(x):
    return x + 1, Holder.field, Holder().field


def set_name_in_the_function(x):
    class Local:
        field = Named()

    return x + 1, Local.field


def closed_at_the_end(x):
    log = []
    with contextlib.closing(Resource(log)) as r:
        log.append("body")
    return x + len(log), log


def suppressed(x):
    with contextlib.suppress(ValueError, KeyError):
        raise KeyError(3)
    return x + 1


def null_context_of_a_value(x):
    with contextlib.nullcontext(x + 1) as y:
        return y * 2


def nested_managers(x):
    log = []
    with Resource(log) as a, Resource(log):
        y = x + 1
    return y, log


def manager_sees_the_exception(x):
    log = []
    try:
        with Resource(log):
            raise ValueError
    except ValueError:
        log.append("caught")
    return x + 1, log


def abstract_property(x):
    s = Sized()
    return x + s.size, isinstance(s, Base), isinstance(Duck(), Base), issubclass(int, Base), issubclass(Sized, Base)


def runtime_protocol(x):
    return x + 1, isinstance(Resource([]), HasClose), isinstance(3, HasClose)


def abstract_sequence(x):
    w = Walker()
    return x + w[0], len(w), list(w), 2 in w, w.index(3), w.count(1), list(reversed(w)), isinstance(w, collections.abc.Sequence)


def abstract_mapping(x):
    t = Table()
    t["a"] = 1
    t.update(b=2)
    return x + t["b"], t.pop("a"), list(t.items()), "b" in t, t.get("z"), t.setdefault("c", 3), len(t)


def metaclass_call(x):
    r = Registered(2)
    return x + r.v + r.extra, Registered.registered


def metaclass_protocol(x):
    return x + len(Registered), list(Registered), 3 in Registered, Registered[4]


def finalizer(x):
    d = Dead()
    return x + 1, isinstance(d, Dead)


def bound_through_get(x):
    def method(self, v):
        return (self, v)

    bound = method.__get__(3)
    return x + bound(1)[0], bound.__self__, method.__get__(None, int) is method


def dir_of_things(x):
    return x + 1, dir(Number(1)), "append" in dir([])


def class_attributes(x):
    return x + 1, Sized.__name__, Sized.__bases__ == (Base,), Sized.__qualname__, Sized.__doc__, Sized.__dict__["size"]


def hash_and_identity(x):
    n = Number(3)
    return x + hash(n), {n: 1}[n], id(n) == id(n)


def call_hook(x):
    class Adder:
        def __init__(self, k):
            self.k = k

        def __call__(self, v):
            return v + self.k

    return Adder(3)(x), list(map(Adder(1), [1, 2])), callable(Adder(1))


def iterator_class(x):
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            while self.n:
                yield self.n
                self.n -= 1

    return x + sum(Countdown(3)), list(Countdown(2))


def descriptors_asked_by_hand(x):
    n = Number(3)
    names = type.__dict__["__dict__"].__get__(Base)
    order = type.__dict__["__mro__"].__get__(Sized)
    return x + 1, "__module__" in names, order[1] is Base, Slotted.__dict__["a"].__get__(Slotted()), Number.__dict__["__dict__"].__get__(n)


class Divided:
    def __init__(self, v):
        self.v = v

    def __divmod__(self, other):
        return NotImplemented if other is self else ("left", other, self.v)

    def __rdivmod__(self, other):
        return "right", other, self.v

    def __length_hint__(self):
        return 7 if self.v else NotImplemented


class Dividing:
    def __divmod__(self, other):
        return NotImplemented


def divmod_of_the_right_operand(x):
    return x + 1, divmod(3, Divided(2)), divmod(Divided(2), 4), divmod(Dividing(), Divided(1)), divmod(2.5, Divided(3))


def length_hints(x):
    h = operator.length_hint
    return x + h(Divided(1)), h([1, 2]), h(3, 9), h(Divided(0), 4)




def length_hints_of_iterators(x):
    items = [1, 2, 3]
    given, backwards = iter(items), reversed(items)
    next(given)
    before = operator.length_hint(given), operator.length_hint(backwards)
    items.pop()
    items.pop()
    hint = operator.length_hint
    after = hint(given), hint(backwards), hint(iter("abc")), hint(iter(range(4))), hint(iter((1,))), hint(iter(b"ab"))
    return x + before[0], before, after, next(given, None), hint(given), hint((i for i in "ab"), 7)


class Bound:
    def __init__(self, value, asked):
        self.value, self.asked = value, asked

    def __index__(self):
        self.asked.append(self.value)
        return self.value


def order_in_which_bounds_of_slices_are_asked(x):
    items, asked = [1, 2, 3, 4, 5], []
    zero, one, two, three = (Bound(value, asked) for value in range(4))
    found = items[zero:three:two], "abcde"[one:three], (1, 2, 3)[:two]
    items[zero:three:two] = 7, 8
    del items[one:two]
    return x + len(items), found, items, asked
