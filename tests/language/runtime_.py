"""What modules of the standard library do at run time: typing, contexts, abstract classes, locks, and known values."""

import abc
import contextvars
import copy
import datetime
import fractions
import hashlib
import json
import random
import re
import struct
import threading
import typing
import uuid
import weakref

VAR = contextvars.ContextVar("VAR", default=3)
OTHER = contextvars.ContextVar("OTHER")
T = typing.TypeVar("T")


class Config:
    def __init__(self, a: "int", b: "typing.List[str]" = ()):
        self.a, self.b = a, b

    size: "int" = 3
    names: "typing.Optional[str]" = None


@typing.runtime_checkable
class HasForward(typing.Protocol):
    def forward(self, x): ...


class Layer:
    def forward(self, x):
        return x + 1


class Countable(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        if cls is Countable:
            return any("count" in base.__dict__ for base in other.__mro__)
        return NotImplemented


class Counter:
    def count(self):
        return 4


class Stack(typing.Generic[T]):
    def __init__(self):
        self.items: typing.List[T] = []

    def push(self, item: T) -> None:
        self.items.append(item)


def typevars(x):
    U = typing.TypeVar("U", bound=int)
    V = typing.TypeVar("V", int, str)
    return x + 1, U.__name__, U.__bound__, V.__constraints__


def newtypes(x):
    UserId = typing.NewType("UserId", int)
    return x + UserId(3), UserId.__name__, UserId.__supertype__


def casts(x):
    n = typing.cast("int", 3)
    m = typing.cast(typing.List[int], [1])
    return x + n, m


def generics(x):
    s = Stack[int]()
    s.push(3)
    return x + s.items[0], typing.get_origin(typing.List[int]) is list, typing.get_args(typing.Dict[str, int])


def a_generic_made_here(x):
    class Box(typing.Generic[T]):
        def __init__(self, value: T):
            self.value = value

        def get(self) -> T:
            return self.value

    return Box(x + 1).get(), Box[int](2).get(), Box.__parameters__ == (T,)


def protocols(x):
    layer = Layer()
    if isinstance(layer, HasForward):
        x = layer.forward(x)
    return x, isinstance(3, HasForward), issubclass(Layer, HasForward)


def context_variables(x):
    token = VAR.set(7)
    inner = VAR.get()
    VAR.reset(token)
    return x + inner, VAR.get(), OTHER.get(5), token.old_value is contextvars.Token.MISSING


def context_run(x):
    def f(n):
        VAR.set(n)
        return VAR.get() * 2

    context = contextvars.copy_context()
    got = context.run(f, 11)
    return x + got, VAR.get()


def new_context_variables(x):
    fresh = contextvars.ContextVar("fresh", default=2)
    bare = contextvars.ContextVar("bare")
    before = fresh.get(), bare.get(None), fresh.name
    token = fresh.set(x * 2)
    y = fresh.get() + 1
    fresh.reset(token)
    try:
        bare.get()
    except LookupError as error:
        missing = error.args[0] is bare
    return y, before, fresh.get(), missing, isinstance(fresh, contextvars.ContextVar)


def new_contexts(x):
    fresh = contextvars.ContextVar("fresh")
    fresh.set(5)
    VAR_token = VAR.set(9)

    def inside():
        before = VAR.get(), fresh.get(None)
        fresh.set(6)
        return before, contextvars.copy_context()[fresh]

    context = contextvars.Context()
    copy = context.copy()
    got = context.run(inside)
    VAR.reset(VAR_token)
    return x * 2, got, context[fresh], fresh in copy, VAR in context, fresh.get(), copy.get(VAR)


def context_as_mapping(x):
    context = contextvars.copy_context()

    def f():
        VAR.set(8)

    context.run(f)
    return x + context[VAR], VAR in context, context.get(OTHER, 1)


def registered_classes(x):
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

    class Square:
        def area(self):
            return 4

    Shape.register(Square)
    return x + Square().area(), isinstance(Square(), Shape), issubclass(Square, Shape), issubclass(int, Shape)


def registered_by_decorator(x):
    class Base(abc.ABC):
        pass

    @Base.register
    class Some:
        pass

    return x + 1, isinstance(Some(), Base), isinstance(3, Base)


def subclass_hooks(x):
    return x + 1, isinstance(Counter(), Countable), issubclass(int, Countable), isinstance(3, Countable), issubclass(list, Countable)


def a_subclass_hook_made_here(x):
    class Closable(abc.ABC):
        @classmethod
        def __subclasshook__(cls, other):
            return hasattr(other, "close")

    class File:
        def close(self):
            return 2

    return x + File().close(), isinstance(File(), Closable), isinstance(3, Closable)


def weak_references(x):
    layer = Layer()
    ref = weakref.ref(layer)
    return ref().forward(x), ref() is layer


def locks_made_here(x):
    lock, again = threading.Lock(), threading.RLock()
    with lock:
        held = lock.locked()
        x = x + 1
    with again, again:
        x = x * 2
    got = lock.acquire()
    lock.release()
    return x, held, lock.locked(), got


def made_fractions(x):
    f = fractions.Fraction(3, 4) + fractions.Fraction("1/4")
    return x + int(f), str(fractions.Fraction(6, 8)), fractions.Fraction(0.5).denominator, float(fractions.Fraction(1, 8))


def datetimes(x):
    d = datetime.date(2024, 2, 28) + datetime.timedelta(days=2)
    t = datetime.datetime(2020, 1, 1, 12, 30)
    return x + d.day, d.isoformat(), t.strftime("%Y-%m"), (t - datetime.datetime(2020, 1, 1)).total_seconds(), d.weekday()


def uuids(x):
    u = uuid.UUID("12345678123456781234567812345678")
    return x + u.version if u.version else x + 1, str(u), u.hex, str(uuid.uuid5(uuid.NAMESPACE_DNS, "a.b"))


def expressions(x):
    m = re.match(r"(\w+)-(\d+)", "layer-12")
    p = re.compile("[a-c]+")
    return x + int(m.group(2)), m.groups(), p.findall("abcxcab"), re.sub("b", "_", "abc"), re.split(",", "a,b"), p.sub(lambda m: m.group().upper(), "xabx")


def json_texts(x):
    d = json.loads('{"a": [1, 2.5, null], "b": {"c": "d"}}')
    return x + d["a"][0], json.dumps(d, sort_keys=True), json.dumps({"n": [1, (2, 3)]}, indent=1), d


def digests(x):
    h = hashlib.sha256(b"abc")
    h.update(b"def")
    return x + 1, h.hexdigest(), hashlib.md5("a".encode()).hexdigest()[:4]


def packed(x):
    data = struct.pack("<if", 3, 0.5)
    return x + struct.unpack("<if", data)[0], data, struct.calcsize("<qi"), struct.Struct("<h").pack(5)


def randoms(x):
    rng = random.Random(7)
    return x + rng.random(), rng.randint(0, 10), rng.choice([1, 2, 3]), rng.sample(range(10), 3), rng.uniform(0, 1)


def shuffled(x):
    rng, items = random.Random(3), [1, 2, 3, 4]
    rng.shuffle(items)
    return x + items[0], items, rng.gauss(0, 1)


def deep_copies(x):
    config = {"a": [1, {2, 3}], "b": Config(1, ["c"])}
    copied = copy.deepcopy(config)
    copied["a"].append(2)
    copied["b"].b.append("d")
    return x + len(config["a"]), copied["a"], config["b"].b, copied["b"].b, copied["b"] is config["b"]


SHARED = Config(3, ["shared"])


def deep_copies_of_constants_beside_objects(x):
    copied = copy.deepcopy({"n": 3, "of": [SHARED, 2.5, None], "again": SHARED})
    return x + copied["n"], copied["of"][0] is copied["again"], copied["again"] is SHARED, copied["again"].b


class Guarded:
    def __init__(self):
        self.lock, self.values = threading.Lock(), {}

    def get(self, key, make):
        with self.lock:
            if key not in self.values:
                self.values[key] = make()
            return self.values[key]


def a_cache_with_a_lock(x):
    cache = Guarded()
    return cache.get("a", lambda: x + 1), cache.get("a", lambda: x + 2), cache.lock.locked()


def a_lock_handed_out(x):
    lock, again = threading.Lock(), threading.RLock()
    lock.acquire()
    again.acquire()
    again.acquire()
    return x + 1, [lock], lock.locked(), type(lock).__name__


def context_lookups(x):
    context = contextvars.copy_context()
    token = VAR.set(4)
    try:
        return x + VAR.get(), context.get(VAR), VAR in context, context.get(OTHER, 2), token.var is VAR
    finally:
        VAR.reset(token)


def bounded(x):
    class Base:
        pass

    U = typing.TypeVar("U", bound=Base)
    V = typing.TypeVar("V", Base, int, covariant=False)

    class Box(typing.Generic[U]):
        def __init__(self, value: U):
            self.value = value

    return Box(x + 1).value, U.__bound__ is Base, V.__constraints__[1] is int, Box.__parameters__ == (U,)


def registered_elsewhere_and_here(x):
    class Animal(abc.ABC):
        pass

    class Dog(Animal):
        pass

    Animal.register(int)
    try:
        Dog.register(Animal)
    except RuntimeError as error:
        text = str(error)
    return x + 1, [isinstance(one, Animal) for one in (1, "a", Dog(), True)], issubclass(bool, Animal), text


def a_registered_class_handed_out(x):
    class Shape(abc.ABC):
        pass

    class Square:
        pass

    Shape.register(Square)
    return x + 1, [Shape, Square()], isinstance(Square(), Shape)


def a_hook_that_leaves_it_open(x):
    class Sized(abc.ABC):
        @classmethod
        def __subclasshook__(cls, other):
            if cls is Sized and "__len__" in other.__dict__:
                return True
            return NotImplemented

    class Mine(Sized):
        pass

    return x + 1, isinstance([], Sized), isinstance(Mine(), Sized), issubclass(dict, Sized), isinstance([], Sized)
