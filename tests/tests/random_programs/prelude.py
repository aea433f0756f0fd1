import bisect
import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import zlib
import toy

LOG = []
G = 1
GL = [3, 1, 2]


class Boom(Exception):
    pass


class Crash(Boom):
    def __init__(self, code, hint=None):
        super().__init__(code, hint)
        self.code = code


class Point:
    kind = "point"

    def __init__(self, v, t=None):
        self.v = v
        self.t = t

    @property
    def half(self):
        return self.v // 2

    @half.setter
    def half(self, value):
        LOG.append(("half", value))
        self.v = value * 2

    def grow(self, by=1):
        self.v += by
        return self.v

    def scale(self, t):
        self.t = t * self.v
        return self.t

    @classmethod
    def make(cls, v):
        return cls(v)

    @staticmethod
    def twice(v):
        return v + v

    def __add__(self, other):
        if isinstance(other, Point):
            return type(self)(self.v + other.v)
        return NotImplemented

    def __eq__(self, other):
        return isinstance(other, Point) and self.v == other.v

    __hash__ = None

    def __len__(self):
        return self.v % 3

    def __getitem__(self, index):  # whole
        if index >= self.v % 4:
            raise IndexError(index)
        return index + self.v

    def __call__(self, i=1):
        LOG.append(("call", i))
        return self.v + i


class Child(Point):
    kind = "child"

    def __init__(self, v, w=0):
        super().__init__(v)
        self.w = w

    def grow(self, by=1):
        LOG.append("grow")
        return super().grow(by) + self.w


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):  # whole
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Asking(Point):
    kind = "asking"

    def ask(self, answer):
        LOG.append(("ask", self.v))
        y = toy.arange(2) + self.v
        toy.save(y)
        self.t = y * 2
        return answer

    def __bool__(self):
        return self.ask(self.v > 1)

    def __len__(self):
        return self.ask(self.v % 3)

    def __contains__(self, item):
        return self.ask(item == self.v)

    def __iter__(self):
        return self.ask(Stepping(self.v % 3))

    def __str__(self):
        return self.ask("asked")

    def __format__(self, specification):
        return self.ask(specification + "!")


class Stepping(Countdown):
    def __next__(self):  # whole
        n = super().__next__()
        t = toy.arange(1) + n
        toy.save(t)
        LOG.append(t * 2)
        return n


class Manager:
    def __init__(self, tag, suppressed=()):
        self.tag = tag
        self.suppressed = suppressed

    def __enter__(self):
        LOG.append(("enter", self.tag))
        return self

    def __exit__(self, kind, error, traceback):
        LOG.append(("exit", self.tag, kind and kind.__name__))
        return kind is not None and issubclass(kind, self.suppressed)


@contextlib.contextmanager
def managed(tag):
    LOG.append(("start", tag))
    try:
        yield tag
    except Boom as error:
        LOG.append(("swallowed", error.args))
    finally:
        LOG.append(("end", tag))


def count(n):  # whole
    while n > 0:
        LOG.append(("count", n))
        yield n
        n -= 1


class Hooked(Point):
    kind = "hooked"

    def __getattr__(self, name):
        LOG.append(("asked", name))
        if name.startswith("_"):
            raise AttributeError(name)
        return len(name)


def echo(n, log=LOG):  # whole
    # It may die after its module.
    got = None
    try:
        while n > 0:
            n -= 1
            got = yield n, got
            log.append(("got", got))
    except Exception as error:
        log.append(("echo", error.args))
        yield "caught"
    finally:
        log.append(("closed", n))
    return got


def counter(n):
    def step(by=1):
        nonlocal n
        n += by
        return n

    return step


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        LOG.append((function.__name__, len(args), sorted(kwargs)))
        return function(*args, **kwargs)

    return wrapper


@logged
def traced(value, by=2):
    return value * by


@functools.lru_cache(maxsize=2)
def cached(n):
    return n * 3


def first(tensors, limit, default):
    for at, t in enumerate(tensors):
        try:
            if t.sum() > limit:
                return t * 2
        finally:
            LOG.append(("tried", at))
    return default


@dataclasses.dataclass
class Config:
    a: int = 1
    b: list = dataclasses.field(default_factory=list)


Pair = collections.namedtuple("Pair", "a b")
KEPT = [1, 2], {"a": 1}, Point(2), toy.arange(2)


def add(values, item):
    if len(values) < 8:
        values.append(item)


def shared(x, n, a, d, p):
    p.u = a
    p.t = x
    d["a"] = n
    return x, n, a, d, p
