import collections.abc
import sys
from math import inf, nan  # Shared by both runs of a program: from 3.10 on the hash of a nan is its address.

import toy

LOG = []
SHARED = [1, 2]
N = 5


class Failure(Exception):
    pass


def obey(self, name, *args):
    """First action of a special method: raises or breaks the graph, depending on the mode."""
    if self.mode == "raises":
        raise Failure(name, *args)
    if self.mode == "breaks":
        toy.save(toy.arange(1))


def answer(self, name, *args):
    """Body of a special method: logs the call, and returns a value, declines or raises."""
    LOG.append((self.tag, name, len(args)))
    if self.mode == "declines":
        return NotImplemented
    obey(self, name, self.tag)
    return self if self.mode == "itself" else [self.tag, name, *args]


class Base:
    def __init__(self, tag, mode="gives"):
        self.tag = tag
        self.mode = mode

    def __repr__(self):
        return f"{type(self).__name__}({self.tag!r})"


class Op(Base):
    """Has all operators."""

    def __add__(self, other): return answer(self, "add", other)
    def __radd__(self, other): return answer(self, "radd", other)
    def __iadd__(self, other): return answer(self, "iadd", other)
    def __sub__(self, other): return answer(self, "sub", other)
    def __rsub__(self, other): return answer(self, "rsub", other)
    def __mul__(self, other): return answer(self, "mul", other)
    def __rmul__(self, other): return answer(self, "rmul", other)
    def __imul__(self, other): return answer(self, "imul", other)
    def __truediv__(self, other): return answer(self, "truediv", other)
    def __rtruediv__(self, other): return answer(self, "rtruediv", other)
    def __floordiv__(self, other): return answer(self, "floordiv", other)
    def __rfloordiv__(self, other): return answer(self, "rfloordiv", other)
    def __mod__(self, other): return answer(self, "mod", other)
    def __rmod__(self, other): return answer(self, "rmod", other)
    def __pow__(self, other, modulo=None): return answer(self, "pow", other)
    def __rpow__(self, other, modulo=None): return answer(self, "rpow", other)
    def __matmul__(self, other): return answer(self, "matmul", other)
    def __rmatmul__(self, other): return answer(self, "rmatmul", other)
    def __imatmul__(self, other): return answer(self, "imatmul", other)
    def __and__(self, other): return answer(self, "and", other)
    def __rand__(self, other): return answer(self, "rand", other)
    def __or__(self, other): return answer(self, "or", other)
    def __ror__(self, other): return answer(self, "ror", other)
    def __ior__(self, other): return answer(self, "ior", other)
    def __xor__(self, other): return answer(self, "xor", other)
    def __rxor__(self, other): return answer(self, "rxor", other)
    def __lshift__(self, other): return answer(self, "lshift", other)
    def __rlshift__(self, other): return answer(self, "rlshift", other)
    def __rshift__(self, other): return answer(self, "rshift", other)
    def __rrshift__(self, other): return answer(self, "rrshift", other)
    def __lt__(self, other): return answer(self, "lt", other)
    def __le__(self, other): return answer(self, "le", other)
    def __eq__(self, other): return answer(self, "eq", other)
    def __ne__(self, other): return answer(self, "ne", other)
    def __gt__(self, other): return answer(self, "gt", other)
    def __ge__(self, other): return answer(self, "ge", other)
    def __neg__(self): return answer(self, "neg")
    def __pos__(self): return answer(self, "pos")
    def __invert__(self): return answer(self, "invert")
    def __hash__(self): return 7


class Derived(Op):
    """Its reflected operators take precedence over those of `Op`."""

    def __radd__(self, other): return answer(self, "derived radd", other)
    def __rsub__(self, other): return answer(self, "derived rsub", other)
    def __rmul__(self, other): return answer(self, "derived rmul", other)
    def __gt__(self, other): return answer(self, "derived gt", other)
    def __eq__(self, other): return answer(self, "derived eq", other)
    __hash__ = None


class InPlace(Op):
    """Has all in-place operators, too."""

    def __isub__(self, other): return answer(self, "isub", other)
    def __itruediv__(self, other): return answer(self, "itruediv", other)
    def __ifloordiv__(self, other): return answer(self, "ifloordiv", other)
    def __imod__(self, other): return answer(self, "imod", other)
    def __ipow__(self, other): return answer(self, "ipow", other)
    def __iand__(self, other): return answer(self, "iand", other)
    def __ixor__(self, other): return answer(self, "ixor", other)
    def __ilshift__(self, other): return answer(self, "ilshift", other)
    def __irshift__(self, other): return answer(self, "irshift", other)


class Half(Base):
    """Has some operators."""

    def __radd__(self, other): return answer(self, "radd", other)
    def __rmod__(self, other): return answer(self, "rmod", other)
    def __isub__(self, other): return answer(self, "isub", other)
    def __lt__(self, other): return answer(self, "lt", other)
    def __or__(self, other): return answer(self, "or", other)


class Truth(Base):
    def __bool__(self):
        LOG.append((self.tag, "bool"))
        obey(self, "bool", self.tag)
        return self.mode in ("gives", "breaks")


class Sized(Base):
    def __len__(self):
        LOG.append((self.tag, "len"))
        obey(self, "len", self.tag)
        return 2 if self.mode == "gives" else 0


class Judged(Base):
    """Its comparisons return objects with a truth value of their own."""

    def judge(self, name):
        LOG.append(name)
        return Truth(self.tag, self.mode)

    def __lt__(self, other): return self.judge("lt")
    def __le__(self, other): return self.judge("le")
    def __eq__(self, other): return self.judge("eq")
    def __ne__(self, other): return self.judge("ne")
    def __gt__(self, other): return self.judge("gt")
    def __ge__(self, other): return self.judge("ge")
    __hash__ = None


class Box(Base):
    """A container over a list."""

    def __init__(self, items, mode="gives"):
        super().__init__("box", mode)
        self.items = items

    def note(self, name, *args):
        LOG.append((name, *args))
        obey(self, name)

    def __getitem__(self, key):
        self.note("getitem", key)
        return self.items[key]

    def __setitem__(self, key, value):
        self.note("setitem", key, value)
        self.items[key] = value

    def __delitem__(self, key):
        self.note("delitem", key)
        del self.items[key]

    def __contains__(self, item):
        self.note("contains", item)
        return self.items

    def __len__(self):
        # Not logged, because CPython also calls it for length hints, which are not always simulated.
        return len(self.items)


class Steps(Base):
    """Iterates with a Python iterator, which may raise on the way."""

    def __init__(self, n, mode="gives"):
        super().__init__("steps", mode)
        self.n = n

    def __iter__(self):
        LOG.append("iter")
        if self.mode == "breaks":
            toy.save(toy.arange(1))
        return Step(self.n, self.mode)


class Step:
    def __init__(self, n, mode):
        self.n = n
        self.mode = mode

    def __iter__(self):
        return self

    def __next__(self):
        LOG.append(("next", self.n))
        if self.n == 0:
            obey(self, "next")
            raise StopIteration("end")
        if self.n == 2 and self.mode == "breaks":
            toy.save(toy.arange(1))
        self.n -= 1
        return self.n


class Keys(Base):
    """A mapping for `**`."""

    def __init__(self, items, mode="gives"):
        super().__init__("keys", mode)
        self.data = items

    def keys(self):
        LOG.append("keys")
        return iter(list(self.data))

    def __getitem__(self, key):
        LOG.append(("key", key))
        obey(self, key)
        return self.data[key]


class Manager(Base):
    def __enter__(self):
        LOG.append("enter")
        obey(self, "enter")
        return self.tag

    def __exit__(self, kind, value, trace):
        LOG.append(("exit", kind, type(value), trace is None))
        if self.mode == "breaks":
            toy.save(toy.arange(1))
        if self.mode == "declines":
            raise Failure("exit")
        return self.mode == "itself"


class Leaves(Manager):
    """Breaks the graph on exit, and suppresses exceptions."""

    def __exit__(self, kind, value, trace):
        LOG.append(("leaves", kind))
        toy.save(toy.arange(1))
        return True


class Enters(Base):
    """A context manager without `__exit__`."""

    def __enter__(self):
        return self


class Attrs(Base):
    shared = [0]

    @property
    def computed(self):
        LOG.append("get computed")
        obey(self, "computed")
        return [self.tag]

    @computed.setter
    def computed(self, value):
        LOG.append("set computed")
        obey(self, "set")
        self.tag = value

    @computed.deleter
    def computed(self):
        LOG.append("del computed")
        obey(self, "del")
        del self.tag

    def method(self, *args, **kwargs):
        LOG.append("method")
        return args, kwargs, self.tag

    @classmethod
    def of_class(cls, *args, **kwargs):
        return cls.__name__, args, kwargs

    @staticmethod
    def static(*args, **kwargs):
        return args, kwargs

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        LOG.append(("getattr", name))
        if self.mode == "breaks":
            toy.save(toy.arange(1))
        if self.mode == "declines":
            raise AttributeError(name)
        return name


class Lends(Base):
    """Has every attribute, by `__getattr__`."""

    def __getattr__(self, name):
        LOG.append(("getattr", name))
        obey(self, name)
        return function


class Slots:
    __slots__ = ("tag", "other")

    def __init__(self, tag):
        self.tag = tag

    def __repr__(self):
        return "Slots"


class Deep(Attrs):
    shared = [1]

    def method(self, *args, **kwargs):
        return "deep", super().method(*args, **kwargs)


class Calls(Base):
    def __call__(self, *args, **kwargs):
        LOG.append(("call", len(args), sorted(kwargs)))
        obey(self, "call")
        return args, kwargs


class Text(Base):
    def __format__(self, spec): return self.text("format", spec)
    def __str__(self): return self.text("str")
    def __repr__(self): return self.text("repr") if self.mode == "raises" else f"Text({self.tag!r})"

    def text(self, name, *args):
        LOG.append((name, *args))
        obey(self, name)
        return f"<{name} {self.tag}>" if self.mode in ("gives", "breaks") else self.tag


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y

    def __repr__(self):
        return "Point"


class Unnamed:
    """`__match_args__` is not a tuple, so positional patterns fail."""

    __match_args__ = ["x"]


class Mapped(collections.abc.Mapping):
    """A mapping that is not a dict."""

    def __init__(self, items):
        self.items_of = items

    def __getitem__(self, key): return self.items_of[key]
    def __iter__(self): return iter(self.items_of)
    def __len__(self): return len(self.items_of)

    def get(self, key, default=None):
        LOG.append(("get", key))
        return super().get(key, default)


class Names:
    """Two names of one key."""

    one = 1
    same = True


def shadow(name, value=None):
    """Define a global that hides a builtin, or delete it."""
    if value is None:
        del globals()[name]
    else:
        globals()[name] = value


class Prepared(type):
    """The namespaces of its classes have entries before the class bodies run."""

    @classmethod
    def __prepare__(cls, name, bases):
        return {"prepared": 1, "__annotations__": {"before": int}}


class Stop(StopIteration):
    pass


def function(p, q=5, *rest, key=None, **others):
    """Accepts any arguments."""
    LOG.append("function")
    return p, q, rest, key, others


def strict(p, /, q, *, key):
    return [p, q, key]


def plain(p):
    return p


def fails(*args, **kwargs):
    raise Failure("fails", args)


def counting(n=3):
    LOG.append("begin")
    try:
        for i in range(n)[:9]:
            LOG.append(("sent", (yield i)))
    finally:
        LOG.append("end")
    return "done"


def failing(value):
    yield value
    fails(value)


def shared_cell():
    value = N

    def read():
        return value

    def write(new):
        nonlocal value
        value = new

    return read, write


READ, WRITE = shared_cell()
