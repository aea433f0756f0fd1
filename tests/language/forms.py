"""What the other files have, in further forms."""

import collections
import contextlib
import contextvars
import copy
import enum
import functools
import itertools
import operator
import types
import typing

Pair = collections.namedtuple("Pair", "a b")
_level = contextvars.ContextVar("level", default=1)
_total = 0


class Shape:
    sides = 0

    def __init__(self, size):
        self.size = size


class Hinted:
    a: int


class Square(Shape):
    sides = 4


class Real(float):
    def twice(self):
        return self * 2


class Complex(complex):
    def norm(self):
        return abs(self)


class Chunk(bytes):
    def first(self):
        return self[0]


class Fixed(frozenset):
    def has(self, item):
        return item in self


class Window(collections.deque):
    def last(self):
        return self[-1]


class Tally(collections.Counter):
    def top(self):
        return self.most_common(1)[0][0]


class Groups(collections.defaultdict):
    def put(self, key, value):
        self[key].append(value)


def dispatch_made_in_the_function(x):
    @functools.singledispatch
    def kind(value):
        return "any"

    @kind.register(int)
    def _(value):
        return "int"

    @kind.register(str)
    def _(value):
        return "str " + value

    return x + 1, kind(1), kind("a"), kind(1.5), kind.dispatch(bool)(True)


def dispatch_by_annotation(x):
    @functools.singledispatch
    def kind(value):
        return "any"

    @kind.register
    def _(value: str):
        return "str " + value

    return x + 1, kind("a"), kind(2)


def dispatch_on_classes(x):
    @functools.singledispatch
    def area(shape):
        return 0

    @area.register(Shape)
    def _(shape):
        return shape.size

    return x + area(Square(3)), area(4), area.registry[Shape](Shape(2)), area.dispatch(Square) is area.dispatch(Shape)


def total_ordering_in_the_function(x):
    @functools.total_ordering
    class Ranked:
        def __init__(self, rank):
            self.rank = rank

        def __eq__(self, other):
            return self.rank == other.rank

        def __lt__(self, other):
            return self.rank < other.rank

    a, b = Ranked(1), Ranked(2)
    return x + 1, a <= b, a > b, a >= b, sorted([b, a])[0].rank


def cached_property_in_the_function(x):
    class Lazy:
        @functools.cached_property
        def value(self):
            return [1]

    lazy = Lazy()
    lazy.value.append(2)
    return x + len(lazy.value), lazy.value is lazy.value


def partial_method_in_the_function(x):
    class Cell:
        def set(self, state, loud=False):
            return (state, loud)

        on = functools.partialmethod(set, True, loud=True)
        off = functools.partialmethod(set, False)

    return x + 1, Cell().on(), Cell().off(loud=3)


def update_wrapper_by_hand(x):
    def inner(v):
        """doc"""
        return v + 1

    def outer(v):
        return inner(v) * 2

    functools.update_wrapper(outer, inner)
    return outer(x), outer.__name__, outer.__doc__, outer.__wrapped__ is inner


def partial_of_a_partial(x):
    f = functools.partial(functools.partial(lambda a, b, c: a * 100 + b * 10 + c, 1), 2)
    return x + f(3), f.args, f.func.__name__, f.keywords


def memoized_method(x):
    @functools.lru_cache()
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return x + fib(8)


def cache_information(x):
    @functools.lru_cache(maxsize=4)
    def f(n):
        return n + 1

    f(1)
    f(1)
    return x + f(2), f.cache_info().hits, f.__wrapped__(3)


def reduce_of_tensors(x):
    return functools.reduce(operator.mul, [x, x + 1, 2]), functools.reduce(lambda a, b: a + [b], "ab", [])


def tee_returned(x):
    a, b = itertools.tee([1, 2, 3])
    next(a)
    return x + 1, list(a), b


def tee_of_a_generator_left(x):
    a, b = itertools.tee(i * i for i in range(4))
    return x + next(a) + next(a) + next(b), list(b)


def tee_pairs(x):
    a, b = itertools.tee("abc")
    next(b, None)
    return x + 1, list(zip(a, b))


def accumulate_forms(x):
    return (
        x + 1,
        list(itertools.accumulate([3, 1, 2], max)),
        list(itertools.accumulate("ab", initial="")),
        list(itertools.accumulate([1, 2, 3], operator.mul, initial=2)),
        list(itertools.accumulate([])),
    )


def combinatorics(x):
    return (
        x + 1,
        list(itertools.permutations("ab")),
        list(itertools.combinations(range(4), 3))[-1],
        next(itertools.product("ab", repeat=3)),
        sum(1 for _ in itertools.combinations_with_replacement([1, 2, 3], 2)),
    )


def infinite_iterators(x):
    c, k, r = itertools.count(10, -3), itertools.cycle("xy"), itertools.repeat("r")
    return x + next(c) + next(c), [next(k) for _ in range(3)], next(r), [v for v, _ in zip(itertools.count(), "ab")]


def iterators_from_outside_in(x):
    it = iter([1, 2, 3, 4, 5, 6])
    head = list(itertools.islice(it, 2))
    middle = list(itertools.takewhile(lambda v: v < 5, it))
    return x + sum(head), middle, list(it)


def itertools_kept(x):
    chain = itertools.chain([1], [2, 3])
    next(chain)
    zipped = itertools.zip_longest("ab", [1])
    mapped = map(str, [1, 2])
    return x + 1, chain, zipped, mapped, itertools.repeat(2, 2)


def context_variable_set(x):
    token = _level.set(5)
    inside = _level.get()
    _level.reset(token)
    return x + inside, _level.get()


def context_variable_in_a_context(x):
    def run():
        return _level.get() + 1

    return x + contextvars.copy_context().run(run)


def context_variable_name(x):
    return x + _level.get(), _level.name


def float_subclasses(x):
    r = Real(1.5)
    return x + r, r.twice(), r.is_integer(), type(r + 1) is float, isinstance(r, float), r == 1.5, hash(r) == hash(1.5)


def complex_subclasses(x):
    c = Complex(3, 4)
    return x + c.norm(), c.real, c * 2 == 6 + 8j, type(c) is Complex


def bytes_subclasses(x):
    b = Chunk(b"abc")
    return x + b.first(), b[1:], b.upper(), len(b), b == b"abc", type(b[0:]) is bytes


def frozenset_subclasses(x):
    f = Fixed([1, 2])
    return x + len(f), f.has(1), 2 in f, f == {1, 2}, sorted(f | {3}), type(f) is Fixed


def deque_subclasses(x):
    w = Window([1, 2], maxlen=2)
    w.append(3)
    w.seen = 1
    v = Window("abc")
    v.rotate(1)
    v += w
    v *= 2
    found = 3 in w, w[0], w.pop(), [n for n in reversed(v)], w == collections.deque([2]), v.maxlen, bool(Window())
    return x + v.last(), list(w), len(w), w.maxlen, found, w, v, isinstance(w, collections.deque)


def deques_repeated_in_place(x):
    d = e = collections.deque([1, 2], maxlen=3)
    d *= 2
    return x + len(d), d is e, list(e), d


def counter_subclasses(x):
    t = Tally("abb")
    t.update("a" * 3)
    return x + t["a"], t.top(), t["zz"], dict(t)


def defaultdict_subclasses(x):
    g = Groups(list)
    g.put("a", 1)
    g.put("a", 2)
    return x + len(g["a"]), dict(g), "b" in g


def global_statement(x):
    global _total
    _total = 5
    _total += 1
    return x + _total


def global_deleted(x):
    global _made
    _made = 3
    kept = _made
    del _made
    return x + kept, "_made" in globals()


def nonlocal_in_two_levels(x):
    n = 0

    def outer():
        nonlocal n
        n += 1

        def inner():
            nonlocal n
            n += 10
            return n

        return inner()

    return x + outer(), n


def cell_deleted(x):
    n = 3

    def read():
        return n

    before = read()
    del n
    try:
        read()
    except NameError as e:
        return x + before, type(e).__name__


def deleted_in_many_ways(x):
    class Thing:
        pass

    t = Thing()
    t.a, a, d = 1, [1, 2, 3, 4], {"k": 1, "l": 2}
    del t.a, a[1:3], d["k"], a[0]
    return x + len(a), a, d, hasattr(t, "a")


def walrus_in_a_comprehension(x):
    found = [y for v in [1, 2, 3] if (y := v * 2) > 2]
    return x + y, found


def while_with_walrus(x):
    items = [1, 2, 3]
    total = 0
    while items and (item := items.pop()):
        total += item
    return x + total, item


def star_arguments(x):
    def f(*args, k=1, **kwargs):
        return args, k, kwargs

    return x + 1, f(*[1], *"ab", **{"k": 2}, **{"z": 3}), f(*range(2), 5, k=7)


def star_in_assignments(x):
    (a, *b), *c = [(1, 2, 3), 4, 5]
    *d, e = "xyz"
    for f, *g in [(1, 2, 3)]:
        pass
    return x + a, b, c, d, e, f, g


def star_in_returns(x):
    rest = [1, 2]
    return x + 1, *rest, *"ab"


def decorator_with_arguments(x):
    def times(n):
        def decorate(f):
            @functools.wraps(f)
            def wrapper(*args):
                return f(*args) * n

            return wrapper

        return decorate

    @times(3)
    @times(2)
    def one(v):
        return v + 1

    return one(x), one.__name__


def decorator_class(x):
    class Count:
        def __init__(self, f):
            self.f = f
            self.calls = 0

        def __call__(self, *args):
            self.calls += 1
            return self.f(*args)

    @Count
    def one(v):
        return v + 1

    return one(one(x)), one.calls


def class_decorator(x):
    def register(cls):
        cls.tag = cls.__name__.lower()
        return cls

    @register
    class Thing:
        pass

    return x + 1, Thing.tag


def keyword_only(x):
    def f(a, *, b, c=3):
        return a + b + c

    try:
        f(1, 2)
    except TypeError as e:
        return x + f(1, b=2), "positional" in str(e)


def function_attributes(x):
    def f(a, b=2, *, c=3) -> int:
        """doc"""

    f.extra = 1
    return x + f.extra, f.__name__, f.__doc__, f.__defaults__, f.__kwdefaults__, f.__code__.co_argcount, f.__annotations__["return"]


def imports_in_forms(x):
    import collections.abc
    import os.path as p
    from math import floor, sqrt as root
    from os import path, sep

    return x + floor(2.5), root(4), p is path, isinstance([], collections.abc.Sequence), len(sep)


def locals_in_forms(x):
    def f(a, *args, k=2, **kw):
        b = a
        return sorted(locals())

    def g():
        n = 1

        def h():
            return n, sorted(locals())

        return h()

    return x + 1, f(1), g(), sorted(locals())


def locals_in_a_class(x):
    class Thing:
        a = 1
        names = sorted(n for n in locals() if not n.startswith("__"))

    return x + Thing.a


def metaclass_new(x):
    class Meta(type):
        def __new__(mcs, name, bases, namespace):
            namespace["extra"] = 3
            return super().__new__(mcs, name, bases, namespace)

        def __init__(cls, name, bases, namespace):
            super().__init__(name, bases, namespace)
            cls.seen = name

    class Thing(metaclass=Meta):
        pass

    return x + Thing.extra, Thing.seen, type(Thing) is Meta


def metaclass_prepare(x):
    class Meta(type):
        @classmethod
        def __prepare__(mcs, name, bases):
            return {"given": 2}

    class Thing(metaclass=Meta):
        twice = given * 2

    return x + Thing.twice, Thing.given


def metaclass_instancecheck(x):
    class Meta(type):
        def __instancecheck__(cls, instance):
            return instance == 3

        def __subclasscheck__(cls, other):
            return other is int

    class Three(metaclass=Meta):
        pass

    return x + 1, isinstance(3, Three), isinstance(4, Three), issubclass(int, Three), issubclass(str, Three)


def class_statement_with_slots(x):
    class Thing:
        __slots__ = ("a", "b")

        def __init__(self):
            self.a = 1

    t = Thing()
    return x + t.a, hasattr(t, "b"), hasattr(t, "__dict__")


def class_statement_with_super(x):
    class A:
        def f(self):
            return 1

        @classmethod
        def made(cls):
            return cls.__name__

    class B(A):
        def f(self):
            return super().f() + 1

        @classmethod
        def made(cls):
            return "B " + super().made()

    return x + B().f(), B.made(), super(B, B()).f()


def class_statement_nested(x):
    class Outer:
        class Inner:
            value = 3

        inner = Inner()

    return x + Outer.inner.value, Outer.Inner.__qualname__


def class_statement_with_descriptors(x):
    class Positive:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, instance, owner=None):
            return getattr(instance, self.name)

        def __set__(self, instance, value):
            if value < 0:
                raise ValueError(self.name)
            setattr(instance, self.name, value)

    class Thing:
        size = Positive()

    t = Thing()
    t.size = 3
    try:
        t.size = -1
    except ValueError as e:
        return x + t.size, str(e)


def class_statement_with_properties(x):
    class Thing:
        def __init__(self):
            self._v = 1

        @property
        def v(self):
            """doc"""
            return self._v

        @v.setter
        def v(self, value):
            self._v = value

    t = Thing()
    t.v += 4
    return x + t.v, Thing.v.__doc__, Thing.v.fset is not None


def class_statement_of_a_flag(x):
    class Mode(enum.Flag):
        R = enum.auto()
        W = enum.auto()

    return x + Mode.W.value, (Mode.R | Mode.W).value, Mode.R in (Mode.R | Mode.W)


def class_statement_of_a_dataclass(x):
    import dataclasses

    @dataclasses.dataclass
    class Row:
        a: int
        b: int = 2

    return x + Row(1).b, Row(1) == Row(1, 2), dataclasses.asdict(Row(3))


def class_statement_of_builtins(x):
    class L(list):
        def second(self):
            return self[1]

    class D(dict):
        def __missing__(self, key):
            return 7

    return x + L([1, 2]).second(), D()["zz"], D(a=1)


def generator_conversation(x):
    def talk():
        heard = []
        try:
            while True:
                try:
                    heard.append((yield len(heard)))
                except ValueError as e:
                    heard.append(str(e))
        finally:
            heard.append("closed")
            log.extend(heard)

    log = []
    g = talk()
    next(g)
    a, b, c = g.send("one"), g.throw(ValueError("two")), g.send("three")
    g.close()
    return x + a + b + c, log


def generator_throw_forms(x):
    def g():
        try:
            yield 1
        except LookupError as e:
            yield type(e).__name__, e.args

    first, second = g(), g()
    next(first), next(second)
    return x + 1, first.throw(KeyError("k")), second.throw(IndexError(2))


def generator_ignores_exit(x):
    def g():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    it = g()
    next(it)
    try:
        it.close()
    except RuntimeError as e:
        return x + 1, str(e)


def generator_raises_stop(x):
    def g():
        yield 1
        raise StopIteration

    try:
        list(g())
    except RuntimeError as e:
        return x + 1, type(e.__cause__).__name__


def yield_from_values(x):
    def inner():
        got = yield 1
        return got + 1

    def outer():
        result = yield from inner()
        yield result

    g = outer()
    return x + next(g) + g.send(4)


def yield_from_close(x):
    log = []

    def inner():
        try:
            yield 1
        finally:
            log.append("inner")

    def outer():
        try:
            yield from inner()
        finally:
            log.append("outer")

    g = outer()
    next(g)
    g.close()
    return x + len(log), log


def generator_attributes(x):
    def g():
        yield 1

    it = g()
    ended = iter(it)
    return x + 1, it.__name__, it.gi_running, iter(it) is it, next(it), list(ended), it.gi_frame, it.__qualname__


def managers_in_forms(x):
    @contextlib.contextmanager
    def tag(name):
        log.append("<" + name)
        try:
            yield name
        except KeyError:
            log.append("!" + name)
        log.append(">" + name)

    log = []
    with tag("a") as a, tag("b") as b:
        log.append(a + b)
        raise KeyError
    return x + len(log), log


def manager_as_a_decorator(x):
    log = []

    @contextlib.contextmanager
    def logged():
        log.append("in")
        yield
        log.append("out")

    @logged()
    def f(v):
        return v + 1

    return f(x), log


def exception_chain(x):
    class Own(Exception):
        def __init__(self, code):
            super().__init__("code", code)
            self.code = code

    try:
        try:
            {}["k"]
        except KeyError as e:
            raise Own(3) from e
    except Own as e:
        return x + e.code, e.args, type(e.__cause__).__name__, e.__context__ is e.__cause__, e.__suppress_context__


def exception_in_finally(x):
    log = []

    def f():
        try:
            raise ValueError("a")
        finally:
            log.append("finally")
            try:
                raise KeyError("b")
            except KeyError as e:
                log.append(type(e.__context__).__name__)

    try:
        f()
    except ValueError as e:
        return x + 1, log, e.args


def finally_overrides(x):
    def f():
        for i in range(3):
            try:
                return i
            finally:
                if i < 2:
                    continue
        return "end"

    def g():
        try:
            raise ValueError
        finally:
            return "swallowed"

    return x + 1, g()


def loops_in_finally(x):
    log = []
    for i in range(3):
        try:
            if i == 1:
                continue
            if i == 2:
                break
            log.append(i)
        finally:
            log.append("f")
    else:
        log.append("else")
    return x + 1, log


def raise_in_forms(x):
    found = []
    for what in [ValueError, ValueError("v"), KeyError]:
        try:
            raise what
        except Exception as e:
            found.append(repr(e))
    try:
        raise 3
    except TypeError as e:
        found.append(str(e))
    try:
        raise ValueError from None
    except ValueError as e:
        found.append(e.__cause__)
    return x + 1, found


def copies_of_named_tuples(x):
    p = Pair([1], 2)
    d = copy.deepcopy(p)
    return x + 1, d, d.a is p.a, copy.copy(p) is p


def copies_of_ordered_dicts(x):
    return x + 1, copy.copy(collections.OrderedDict(a=1)), copy.deepcopy(collections.OrderedDict(a=[1]))


def copies_in_forms(x):
    class Thing:
        def __init__(self):
            self.items = [1]
            self.me = self

    t = Thing()
    c, d = copy.copy(t), copy.deepcopy(t)
    return (
        x + 1, c.items is t.items, d.items is t.items, d.me is d, copy.copy([1, [2]]), copy.copy({"a": 1}), copy.copy({1}),
        copy.copy((1,)), copy.copy(collections.deque([1], 2)), copy.deepcopy(collections.deque([[1]])),
    )


def copy_with_state(x):
    class Thing:
        def __init__(self, a):
            self.a = a

        def __getstate__(self):
            return {"a": self.a + 1}

        def __setstate__(self, state):
            self.a = state["a"] * 10

    return x + copy.copy(Thing(1)).a


def copy_with_reduce(x):
    class Thing:
        def __init__(self, a):
            self.a = a

        def __reduce__(self):
            return Thing, (self.a + 5,)

    return x + copy.copy(Thing(1)).a, copy.deepcopy(Thing(2)).a


def copy_with_slots(x):
    class Thing:
        __slots__ = ("a",)

    t = Thing()
    t.a = [1]
    c, d = copy.copy(t), copy.deepcopy(t)
    return x + 1, c.a is t.a, d.a, d.a is t.a


V = typing.TypeVar("V")


def generic_class_in_the_function(x):
    class Stack(typing.Generic[V]):
        def __init__(self) -> None:
            self.items: typing.List[V] = []

        def push(self, item: V) -> None:
            self.items.append(item)

    s = Stack()
    s.push(3)
    return x + s.items[0], typing.Optional[int] == typing.Union[int, None]


def type_hints(x):
    return x + 1, typing.get_type_hints(Square.__init__), Hinted.__annotations__["a"] is int


def typing_named_tuple(x):
    class Row(typing.NamedTuple):
        a: int
        b: str = "b"

    r = Row(1)
    return x + r.a, r.b, r._asdict(), r._replace(a=5), Row._fields


def typing_new_type(x):
    UserId = typing.NewType("UserId", int)
    return x + UserId(5), typing.cast(str, 3), typing.TYPE_CHECKING


def typing_protocols(x):
    @typing.runtime_checkable
    class Closes(typing.Protocol):
        def close(self):
            ...

    class Door:
        def close(self):
            return 1

    return x + 1, isinstance(Door(), Closes), isinstance(3, Closes)


def struct_sequences_in_forms(x):
    import os
    import sys
    import time

    t = time.struct_time((1970, 1, 1, 0, 0, 0, 3, 1, 0))
    return (
        x + t.tm_year, t.tm_mon, tuple(t)[:3], len(t), t[-1], list(t)[:2], t == time.struct_time(tuple(t)), sys.flags.optimize,
        sys.hash_info.width > 0, os.stat_result(range(10)).st_size, t.tm_zone,
    )


def mapping_proxies_in_forms(x):
    m = types.MappingProxyType({"a": 1, "b": [2]})
    p = Shape.__dict__
    try:
        m["c"] = 3
    except TypeError as e:
        refused = str(e)
    return (
        x + m["a"], list(m.keys()), list(m.values()), m.copy(), {**m}, m == {"a": 1, "b": [2]}, p["sides"], "size" in p,
        m.get("z"), refused, [k for k in m], sorted(m), m | {"c": 3} if hasattr(m, "__or__") else None, type(p).__name__,
    )


def string_formats(x):
    class Money:
        def __init__(self, n):
            self.n = n

        def __format__(self, spec):
            return f"${self.n:{spec}}" if spec else f"${self.n}"

        def __str__(self):
            return "money"

        def __repr__(self):
            return "Money()"

    m = Money(5)
    return (
        x + 1, "{} {!s} {!r} {:03d}".format(m, m, m, m), f"{m} {m!s} {m!r} {m:>4}", "{0.n} {a[0]} {b[k]}".format(m, a=[1], b={"k": 2}),
        "{:>{w}}|{:^7}|{:<3}|".format("a", "b", "c", w=4), "{:,} {:_} {:+} {:e} {:%} {:b} {:o} {:X} {:#x} {:c}".format(
            1234, 1234, 5, 1.5, 0.5, 5, 8, 255, 255, 97), "{{}} {!a}".format("é"), f"{'é'!a:>8}", f"{3:{'>'}{4}}", f"{1.5=} {m=!s:>7}",
        f"{[1, 'a']!s:>10}", f"{None} {True:>5} {1 + 2j:.1f}", "%s %r %a %d %i %5.2f %x %c %%" % (m, m, "é", 3, 4, 1.234, 255, "z"),
        "%(a)s %(b)05d %(a)r" % {"a": m, "b": 3}, "%*d|%-*s|" % (4, 1, 3, "a"), format(m, "04"), format(1e10, "g"),
    )


def bytes_formats(x):
    return x + 1, b"%s %d %x %a %c" % (b"a", 1, 255, "é", 97), b"%(a)s" % {b"a": b"z"}, b"ab".center(6, b"*"), bytearray(b"%d") % 3


def int_methods(x):
    n = 1234
    return (
        x + n.bit_length(), n.to_bytes(2, "little", signed=True), int.from_bytes([1, 2], "big"), n.as_integer_ratio(), n.numerator,
        n.denominator, n.real, n.imag, n.conjugate(), n.__index__(), (-7) // 2, -7 % 3, 7 ** -1, ~5, 5 ^ 3, 1 << 70, n.__format__("x"),
    )


def float_methods(x):
    f = 2.5
    return (
        x + f, f.hex(), f.as_integer_ratio(), f.is_integer(), float.fromhex("0x1p-1"), f.real, f.imag, f.conjugate(), round(f), f // 1,
        f % 1, divmod(-f, 1), f.__trunc__(), float("nan") != float("nan"), float("-inf"), repr(0.1 + 0.2), f.__floor__() if hasattr(f, "__floor__") else 2,
    )


def complex_methods(x):
    c = 3 + 4j
    return x + abs(c), c.real, c.imag, c.conjugate(), c * c, c / 2, c == complex(3, 4), complex("1+2j"), -c, c ** 2, repr(c), bool(0j), hash(1 + 0j) == hash(1)


def bytes_methods(x):
    b = b"a,b,c"
    return (
        x + len(b), b.split(b","), b.find(b"b"), b.replace(b",", b""), b[::-1], b.startswith(b"a"), b.title(), b.zfill(7), b"x".join([b, b]),
        b.partition(b","), b.translate(bytes.maketrans(b"abc", b"xyz")), list(b"ab"), b"a" in b, 97 in b, b.count(b","), b.hex(), b < b"b", bytes([1]) * 3,
    )


def dict_views_in_forms(x):
    d = {"a": 1, "b": 2}
    k, v, i = d.keys(), d.values(), d.items()
    e = {"b": 2, "c": 3}
    return (
        x + len(k), k & e.keys(), sorted(k | e), k - {"a"}, sorted(k ^ e.keys()), i & e.items(), list(reversed(k)), list(reversed(i)), "a" in k,
        2 in v, ("a", 1) in i, k == {"a", "b"}, k <= {"a", "b", "c"}, k.isdisjoint("z"), [*v], max(v), list(map(str, i)), v,
    )


def set_operators_in_forms(x):
    a, b = {1, 2, 3}, frozenset([2, 3, 4])
    a2 = set(a)
    a2 &= b
    a3 = set(a)
    a3 ^= b
    a4 = set(a)
    a4 -= b
    return (
        x + len(a), a & b, a | b, a - b, a ^ b, a2, a3, a4, a < {1, 2, 3, 4}, a >= {1}, a.union([9], (8,)), a.intersection([1, 5]), a.difference([1]),
        a.symmetric_difference([1, 7]), a.issubset(range(5)), a.issuperset([1]), a.copy() == a, b.copy() is b, type(b | a) is frozenset,
    )


def sorted_in_forms(x):
    class P:
        def __init__(self, v):
            self.v = v

        def __lt__(self, other):
            return self.v < other.v

    ps = [P(3), P(1), P(2)]
    return (
        x + 1, [p.v for p in sorted(ps)], [p.v for p in sorted(ps, reverse=True)], max(ps, key=lambda p: -p.v).v, min(ps, key=operator.attrgetter("v")).v,
        sorted("bCa", key=str.lower), sorted([(1, "b"), (1, "a")]), max("a", "bb", key=len, default=None) if False else 1, min({3: "a", 1: "b"}),
        sorted({"b": 1, "a": 0}, key={"b": 1, "a": 0}.get), max([1, 2], [1, 3]),
    )


def abcs_in_forms(x):
    import numbers
    from collections import abc

    class Sized:
        def __len__(self):
            return 1

    class Virtual:
        pass

    abc.Sequence.register(Virtual) if False else None
    return (
        x + 1, isinstance(Sized(), abc.Sized), isinstance(Sized(), abc.Iterable), issubclass(dict, abc.Mapping), isinstance((i for i in ""), abc.Generator),
        isinstance({}.keys(), abc.KeysView), isinstance(1, numbers.Number), isinstance(1j, numbers.Complex), isinstance(True, numbers.Integral), issubclass(Sized, abc.Hashable),
    )


def abstract_classes_in_the_function(x):
    import abc

    class Base(abc.ABC):
        @abc.abstractmethod
        def f(self):
            """nothing"""

        def g(self):
            return self.f() + 1

    class Done(Base):
        def f(self):
            return 2

    try:
        Base()
    except TypeError as e:
        return x + Done().g(), "abstract" in str(e), isinstance(Done(), Base)


def attribute_functions(x):
    class Thing:
        a = 1

        def __getattr__(self, name):
            if name == "magic":
                return 42
            raise AttributeError(name)

    t = Thing()
    setattr(t, "b", 2)
    return x + getattr(t, "b"), getattr(t, "magic"), getattr(t, "no", "d"), hasattr(t, "magic"), hasattr(t, "no"), t.__dict__, getattr(Thing, "a"), vars(t)


def operator_overloading(x):
    class N:
        def __init__(self, v):
            self.v = v

        def __add__(self, o):
            return NotImplemented if isinstance(o, str) else N(self.v + (o.v if isinstance(o, N) else o))

        __radd__ = __add__

        def __mod__(self, o):
            return ("mod", o)

        def __rmod__(self, o):
            return ("rmod", o)

        def __rsub__(self, o):
            return o - self.v

        def __rpow__(self, o):
            return o ** self.v

        def __and__(self, o):
            return "and"

        def __ror__(self, o):
            return "ror"

        def __rshift__(self, o):
            return "rshift"

        def __eq__(self, o):
            return NotImplemented

        def __ne__(self, o):
            return "ne"

        def __ge__(self, o):
            return "ge"

    n = N(2)
    try:
        n + "a"
    except TypeError as e:
        refused = str(e)
    return x + (n + 1).v, (1 + n).v, (n + n).v, n % 1, 1 % n, 5 - n, 2 ** n, n & 1, 1 | n, n >> 1, n == n, n == N(2), n != 1, n >= 1, 1 <= n, refused, sum([n, n]).v


def heap_of_pairs(x):
    import heapq

    h = []
    for pair in [(2, "b"), (1, "a"), (3, "c")]:
        heapq.heappush(h, pair)
    return x + heapq.heappop(h)[0], h, heapq.heappushpop(h, (0, "z")), heapq.heapreplace(h, (9, "y")), list(heapq.merge([1, 3], [2])), heapq.nlargest(2, h)


def operator_functions(x):
    return (
        operator.add(x, 1), operator.floordiv(7, 2), operator.getitem([1, 2], 1), operator.setitem([1], 0, 2), operator.concat("a", "b"), operator.countOf([1, 1], 1),
        operator.indexOf("abc", "c"), operator.iadd([1], [2]), operator.length_hint([1, 2]), operator.attrgetter("real", "imag")(3), operator.itemgetter("k")({"k": 1}),
        operator.methodcaller("split", ",", maxsplit=1)("a,b,c"), operator.ne(1, 2), operator.neg(3), operator.xor(1, 3), operator.abs(-2),
    )


def math_functions(x):
    import math

    return (
        x + math.factorial(4), math.hypot(3, 4), math.comb(5, 2), math.perm(4, 2), math.isqrt(17), math.fsum([0.1] * 10), math.copysign(1, -2), math.frexp(8), math.modf(2.5),
        math.ldexp(1, 3), math.log(8, 2), math.log2(8), math.exp(0), math.atan2(1, 1), math.degrees(math.pi), math.isnan(math.nan), math.inf > 1, math.trunc(-2.5), math.fmod(7, 3), math.dist([0, 0], [3, 4]), math.remainder(7, 4),
    )


def regex_in_forms(x):
    import re

    p = re.compile(r"(?P<a>\w)(\d)?", re.I)
    m = p.match("x1")
    return (
        x + m.end(), m.group("a"), m[2], m.groupdict(), m.span(1), p.sub(lambda m: m.group(1).upper(), "a1 b"), [f.start() for f in p.finditer("ab")], re.split(r"[,;]", "a,b;c"), re.subn("a", "b", "aa"),
        re.fullmatch("a", "ab"), p.pattern, p.groups, p.flags & re.I, m.expand(r"\1-\2"), m.lastindex, m.string, m.re is p, re.escape("a.b"),
    )


def frozen_things(x):
    import dataclasses

    @dataclasses.dataclass(frozen=True)
    class P:
        a: int

    return x + 1, {P(1): "one"}[P(1)], hash(P(1)) == hash(P(1)), {frozenset([1]): 2}[frozenset([1])]


def calls_with_positional_only(x):
    def f(a, b=2, /, c=3, *, d=4):
        return a + b * 10 + c * 100 + d * 1000

    try:
        f(a=1)
    except TypeError as e:
        return x + f(1), f(1, 5, c=6, d=7), "positional" in str(e)


def object_protocol(x):
    o, p = object(), object()
    return x + 1, o == o, o != p, o is p, hash(o) == hash(o), isinstance(o, object), type(o) is object, callable(o), bool(o)


def context_in_a_context(x):
    seen = []

    def run(value):
        seen.append(_level.get())
        token = _level.set(value)
        inner = contextvars.copy_context()
        _level.reset(token)
        return inner

    before = contextvars.copy_context()
    token = _level.set(3)
    context = contextvars.copy_context()
    inner = context.run(run, 7)
    context.run(_level.set, 5)
    try:
        context.run(lambda: {}["k"])
    except KeyError:
        seen.append("missing")
    seen.append(_level.get())
    _level.reset(token)
    return x + _level.get(), before.run(_level.get), context.run(_level.get), inner.run(_level.get), seen


def hashes_of_tuples_of_functions(x):
    by_function = hash((hashes_by_identity, (1, 2), len, None))
    return x + 1, by_function == (hashes_by_identity, (1, 2), len, None).__hash__(), hash((int, ()))


def hashes_by_identity(x):
    class Plain:
        pass

    class Own:
        def __eq__(self, other):
            return True

        __hash__ = object.__hash__

    p, q, o = Plain(), Own(), Own()
    return x + 1, hash(p) == hash(p), hash(q) == hash(o), len({q, o, q}), p.__hash__() == hash(p), {q: 1}[q]


def namedtuple_made_in_the_function(x):
    Row = collections.namedtuple("Row", "a b", defaults=[4])
    r = Row(1)
    return x + r.a, r.b, r._asdict(), r._replace(a=5), Row._fields, Row.__module__ == __name__


def namedtuple_returned_in_the_function(x):
    Row = collections.namedtuple("Row", ["a", "b"])
    row = Row(x + 1, b=2)
    try:
        collections.namedtuple("Row", "a a")
    except ValueError as e:
        return row, Row, isinstance(row, tuple), row == (row.a, 2), str(e)


def generic_aliases_of_classes_made_here(x):
    class Box(typing.Generic[V]):
        def __init__(self, v):
            self.v = v

    class Named:
        def __class_getitem__(cls, key):
            return cls.__name__, key

    b = Box[int](3)
    return x + b.v, Named[int], Box[int].__origin__ is Box, isinstance(b, Box), Box[V].__args__ == (V,)
