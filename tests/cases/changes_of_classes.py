"""More of what a trace has looked at changes between the calls: bases, descriptors, decorators, containers, numbers."""

import abc
import collections
import contextlib
import dataclasses
import enum
import functools
import re
import types

import toy
from cases import changed, given, whole


def one():
    return (toy.arange(2),)


class A:
    def who(self):
        return 1


class B:
    def who(self):
        return 2


class C(A, B):
    def who(self):
        return super().who() * 10


class D(A, B):
    pass


CC, DD = (C(), D())


@changed(
    "del A.who",
    "A.who = lambda self: 5",
    "C.__bases__ = (B, A)",
    "C.who = lambda self: super(C, self).who() * 3",
    "del B.who",
    "C.__bases__ = (A, B)",
)
def test_super_through_changes(x):
    return x * CC.who()


@changed("D.who = lambda self: 7", "del D.who", "D.__bases__ = (B, A)", "DD.who = lambda: 8", "del DD.who")
def test_lookup_through_changes(x):
    return x * DD.who()


@dataclasses.dataclass
class Config:
    n: int = 1
    values: list = dataclasses.field(default_factory=list)


CONF = Config()


@changed("CONF.n = 2", "CONF.values.append(3)", "CONF = Config(3, [1])", "Config.n = 9; del CONF.n", "CONF.n = 2.0")
def test_a_dataclass(x):
    made = Config(CONF.n + 1)
    made.values.append(CONF.n)
    return (x * CONF.n, made, made == Config(2, [1]), len(CONF.values))


class Color(enum.Enum):
    RED = 1
    BLUE = 2


COLOR = Color.RED


@changed("COLOR = Color.BLUE", "COLOR = 1", "COLOR = Color.RED")
def test_an_enum(x):
    value = {Color.RED: 1}.get(COLOR)
    return x + (1 if COLOR is Color.RED else 2), COLOR == Color.BLUE, getattr(COLOR, "value", None), value


class Desc:
    def __set_name__(self, owner, name):
        self.name = name


    def __get__(self, obj, owner=None):
        return 3 if obj is None else obj.__dict__.get(self.name, 0)


    def __set__(self, obj, value):
        obj.__dict__[self.name] = value * 2


class WithDesc:
    a = Desc()


WD = WithDesc()


@changed(
    "WD.a = 5",
    "Desc.__get__ = lambda self, obj, owner=None: 11",
    "del Desc.__set__",
    "WD.__dict__['a'] = 13",
    "Desc.__set__ = lambda self, obj, value: None",
)
def test_a_data_descriptor(x):
    WD.a = WD.a + 1
    return (x * WD.a, WithDesc.a, dict(vars(WD)))


def deco(f):

    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs) + OFFSET
    return wrapper


OFFSET = 1


@deco
def decorated(x, k=2):
    return x * k


@changed(
    "OFFSET = 2",
    "decorated.__wrapped__.__defaults__ = (5,)",
    "decorated.__wrapped__ = None",
    "decorated = deco(decorated)",
    "OFFSET = 2.5",
)
def test_a_decorated_function(x):
    return decorated(x)


@functools.lru_cache(None)
def cached(n):
    CALLS.append(n)
    return n * FACTOR


CALLS, FACTOR = ([], 2)


@changed("FACTOR = 3", "cached.cache_clear()", "CALLS.clear()")
def test_a_cached_function(x):
    return (x * cached(4), list(CALLS))


@functools.lru_cache(None)
def cached_value(n):
    return n * VALUE


VALUE = 2
cached_value(4)


@changed("VALUE = 3", "cached_value.cache_clear()", "VALUE = 5")
def test_a_cached_function_that_reads_what_changes(x):
    return x * cached_value(4)


@functools.lru_cache(maxsize=2)
def cached_object(n, *, key="a"):
    CALLS.append(n)
    return types.SimpleNamespace(n=n, items=[n, key], factor=VALUE)


@changed(
    "VALUE = 7",
    "cached_object.cache_clear()",
    "cached_object(5).items.append(9)",
    "cached_object(6), cached_object(7), cached_object(8)",
    "cached_object(4).n = 11",
    "cached_object = functools.lru_cache(lambda n, key: types.SimpleNamespace(n=key, items=[], factor=0))",
)
def test_an_object_of_a_cached_function(x):
    found = cached_object(4, key="b")
    return x * found.factor, found.n, found.items, found, found is cached_object(4, key="b"), list(CALLS)


@changed("CALLS.clear()", "cached_object.cache_clear()")
def test_a_cached_function_behind_an_effect(x):
    CALLS.append("before")
    return x + cached_object(3).n, list(CALLS)


@functools.lru_cache(maxsize=2)
def counted(n, *, key="a"):
    return types.SimpleNamespace(n=n, key=key) if n else VALUE


@changed(
    "counted(4)",
    "counted(5), counted(6)",
    "counted.cache_clear()",
    "counted(4, key='b'), counted(4)",
    "VALUE = 3",
    "counted(4.0)",
)
def test_what_a_cached_function_counts(x):
    found = counted(4).n + counted(4, key="b").n + counted(4).n
    return x * found, counted.cache_info(), counted(4).key, counted.cache_info()


@changed("counted.cache_clear()", "counted(5), counted(6)")
def test_which_value_a_cached_function_drops(x):
    oldest, newest = counted(4), counted(5)
    again = counted(4)
    del newest
    third = counted(6)
    return x * third.n, again is oldest, counted(4) is oldest, counted.cache_info()


@changed("VALUE = 3", "counted.cache_clear()")
def test_what_a_cached_function_counts_that_is_followed(x):
    CALLS.append(1)
    found = counted_number(3) + counted_number(3)
    return x * found, list(CALLS), counted_number.cache_info()


@functools.lru_cache(None)
def counted_number(n):
    return n * 2


class Hooked(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        return IS_HOOKED


IS_HOOKED = False


@changed("IS_HOOKED = True", "Hooked = type('Hooked', (Hooked,), {})", "IS_HOOKED = False")
def test_an_abstract_class_with_a_hook(x):
    return x + 1, isinstance(x, Hooked), issubclass(int, Hooked)


PART = functools.partial(lambda x, k: x * k, k=2)


@changed(
    "PART.keywords['k'] = 3",
    "PART = functools.partial(lambda x, k: x + k, k=5)",
    "PART.extra = 1",
    "PART.__setstate__((PART.func, (), {'k': 9}, None))",
)
def test_a_partial(x):
    return PART(x)


SLICES = slice(0, 1)


@changed("SLICES = slice(1, 2)", "SLICES = slice(None)", "SLICES = 0")
def test_a_slice(x):
    return (x[SLICES] + 1, [1, 2, 3][SLICES])


NESTED = {"a": {"b": [1, {"c": 2}]}}


@changed(
    "NESTED['a']['b'][1]['c'] = 3",
    "NESTED['a']['b'].append(4)",
    "NESTED['a']['b'][0] = NESTED",
    "NESTED['a'] = {'b': [5, {'c': 6}]}",
    "NESTED['a']['b'][1] = [0]",
    "NESTED['a']['b'][1] = {'c': 2, 'd': 3}",
)
def test_nested_containers(x):
    inner = NESTED["a"]["b"]
    try:
        return (x * inner[1]["c"] + len(inner), isinstance(inner[0], dict), len(inner[1]))
    except TypeError as error:
        return (x, str(error))


CTX = contextlib.nullcontext()


@changed(
    "CTX = contextlib.suppress(ValueError)",
    "CTX = contextlib.suppress(KeyError, ValueError)",
    "CTX = contextlib.nullcontext(5)",
)
def test_a_context(x):
    result = x
    try:
        with CTX as value:
            result = result + (value or 0)
            raise ValueError("v")
    except ValueError:
        result = result * 2
    return result


class Abstract(abc.ABC):
    @abc.abstractmethod
    def f(self):
        ...


class Concrete(Abstract):
    def f(self):
        return 1


class Stranger:
    def f(self):
        return 2


STRANGER = Stranger()


@changed("Abstract.register(Stranger)")
def test_a_class_is_registered(x):
    return (x + int(isinstance(STRANGER, Abstract)), issubclass(Stranger, Abstract), isinstance(Concrete(), Abstract))


@changed("Concrete.__abstractmethods__ = frozenset(['g'])", "Concrete.__abstractmethods__ = frozenset()")
def test_a_class_becomes_abstract(x):
    try:
        return x + Concrete().f()
    except TypeError as error:
        return (x, str(error))


class Multi:
    def __init__(self):
        self.k = 1


    def __getitem__(self, i):
        return self.k


    def __len__(self):
        return self.k


M = Multi()


@changed(
    "M.k = 2",
    "M.__getitem__ = lambda i: 100",
    "Multi.__getitem__ = lambda self, i: i",
    "Multi.__len__ = lambda self: 0",
    "M.__class__ = type('Sub', (Multi,), {'__len__': lambda self: 5})",
)
def test_special_methods(x):
    return (x * M[3], len(M), bool(M))


@given(
    *[
        lambda v=v: (toy.arange(2), v)
        for v in (
            1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2.0, 3.0, True, -0.0, 0.0, 12.5, 13, 14, 2 ** 80,
        )
    ]
)
def test_many_numbers(x, n):
    y = x * n
    if n > 5:
        y = y + 1
    return (y, n // 1 if n == n else 0, f'{n}', str(n), [n], n * 2, n == 1, n is True, max(n, 3), round(n))


@given(*[lambda v=v: (toy.arange(2), v, v + 1) for v in (1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)])
def test_many_numbers_together(x, n, m):
    total = n + m * 2
    k = f'{n}-{m}'
    return (x * total, k, (n, m), total - n, [total] * 2, total)


@given(*[lambda v=v: (toy.arange(v), v) for v in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)])
def test_many_shapes(x, n):
    return (x + x.shape[0], x.shape, x.size == n, len(x))


def table_of(n):
    return {"k%d" % i: i for i in range(n)}


@given(*[lambda v=v: (toy.arange(2), table_of(v)) for v in (0, 1, 2, 3, 3, 2, 1, 0, 5)])
def test_many_dicts(x, table):
    for key in table:
        x = x + table[key]
    return (x, len(table), sorted(table))


@given(*[lambda v=v: (toy.arange(2), *v) for v in ((1, 2), (1, 2), (2, 1), (1, 1), (True, 1), (1, True), (1.0, 1))])
def test_numbers_that_are_equal(x, n, m):
    return (x + (n == m), {n: "n", m: "m"}, [n, m].index(m), len({n, m}), (n, m), n in [m])


def args_of(*args, **kwargs):
    return (args, kwargs)


CALLARGS = ((1, 2), {"a": 3})


@changed(
    "CALLARGS = (1,), {'a': 3}",
    "CALLARGS = [1, 2], {'b': 3, 'a': 4}",
    "CALLARGS[1]['z'] = 1",
    "CALLARGS[0].append(5)",
    "CALLARGS = ((), {})",
)
def test_starred_calls(x):
    args, kwargs = args_of(x.ndim, *CALLARGS[0], **CALLARGS[1])
    return (x * len(args), args, kwargs)


LOOP = [1, 2]


@changed(
    "LOOP = (v for v in [1, 2])",
    "LOOP = iter([3])",
    "LOOP = {5: 1}",
    "LOOP = 'ab'",
    "LOOP = range(3)",
    "LOOP = map(abs, [-1])",
    "LOOP = zip([1], [2])",
    "LOOP = collections.deque([1])",
    "LOOP = toy.arange(2)",
)
def test_what_is_looped_over(x):
    seen = []
    for item in LOOP:
        seen.append(item)
        x = x + 1
    return (x, seen)


class Prop:
    def __init__(self):
        self._v = 1


    @property
    def v(self):
        return self._v


P = Prop()


@changed(
    "P._v = 5",
    "Prop.v = Prop.v.setter(lambda self, v: setattr(self, '_v', v))",
    "Prop.v = property(lambda self: self._v + 1)",
    "Prop.v = property()",
    "del Prop.v",
    "P.v = 4",
    "Prop.v = functools.cached_property(lambda self: 77)",
)
def test_a_property_changes(x):
    results = []
    for work in (lambda: P.v, lambda: setattr(P, "v", 6), lambda: delattr(P, "v"), lambda: P.v):
        try:
            results.append(work())
        except AttributeError as error:
            results.append(str(error).split("(")[0])
    return (x + 1, results, dict(vars(P)))


class Empty:
    __slots__ = ("a", "__dict__")


EMPTY = Empty()


@changed("EMPTY.a = 1", "del EMPTY.a", "EMPTY.b = 2", "del EMPTY.b", "EMPTY.a = 3")
def test_slots_and_dict(x):
    return (x + getattr(EMPTY, "a", 10) + getattr(EMPTY, "b", 100), hasattr(EMPTY, "a"), hasattr(EMPTY, "b"))


def gen(n):
    while n:
        n -= 1
        yield (n * SCALE)


SCALE = 2


@changed("SCALE = 3", "gen = range", "SCALE = -1", "SCALE = 0.5")
def test_a_generator_function(x):
    return x + sum(gen(3))


TENSOR = toy.ones([2])


@changed("TENSOR = toy.ones([2]) * 3", "TENSOR = toy.arange(2, 2)", "TENSOR = 2", "TENSOR = toy.arange(2).astype('int64')")
def test_a_global_tensor(x):
    return x + TENSOR


class Holder:
    t = toy.ones([2])


H = Holder()


@changed("Holder.t = Holder.t * 2", "H.t = toy.arange(2)", "del H.t", "Holder.t = 3", "H.t = None")
def test_a_tensor_of_a_class(x):
    return x if H.t is None else x + H.t


class Watched(type):
    def __delattr__(cls, name):
        super().__delattr__(name)

    def mro(cls):
        return super().mro()


class OfWatched(metaclass=Watched):
    a = 1


class Own(list):
    def append(self, item):
        super().append(item + 1)

    def sort(self):
        add = super().append
        add(7)
        return add


@changed("OfWatched.a = 2")
def test_method_of_a_metaclass_behind_super(x):
    if "a" in OfWatched.__dict__:
        del OfWatched.a
    return x + len(OfWatched.__dict__.get("a", ()))


@changed("A.x = 2")
def test_method_behind_super_kept(x):
    own = Own()
    own.append(1)
    add = own.sort()
    y = x + len(own)
    if y.sum() > 0:
        add(9)
    return y, own, add.__self__ is own


PATTERN = re.compile("a")


@changed("A.x = 3")
def test_method_of_a_c_class_kept_at_a_break(x):
    search = PATTERN.search
    y = x + 1
    if y.sum() > 0:
        y = y + 1
    return y, search("xay").start(), [PATTERN.search(str(n) + "a").end() for n in range(2)]


@changed("A.x = 4")
def test_hash_in_a_class_of_the_function(x):
    class Key(int):
        asked = 0

        def __hash__(self):
            Key.asked += 1
            return int.__hash__(self)

    keys = set(map(Key, range(3)))
    y = x + len(keys)
    if y.sum() > 0:
        y = y + 1
    return y, Key.asked, sorted(keys) == [0, 1, 2]


@whole
@changed("A.x = 5")
def test_text_of_an_object_of_a_subclass(x):
    class Text(str):
        def __str__(self):
            return "own"

    class Level(enum.IntEnum):
        LOW = 1

        def __str__(self):
            return self.name

    t = Text("x")
    return x + 1, "%s" % t, "{}".format(t), format(t), f"{t} {t!r}", str(t), f"{Level.LOW}"


@whole
@changed("A.x = 6")
def test_truth_that_is_refused(x):
    class Blocked:
        __bool__ = None

    try:
        bool(Blocked())
    except TypeError as error:
        return x + 1, str(error)


DIED = []


class Mortal:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        DIED.append(self.name)


@given(one, hit=False)
def test_objects_that_run_code_when_they_die(x):
    a = Mortal("a")
    Mortal("b")
    del a
    y = x + len(DIED)
    object.__new__(Mortal).name = "c"
    return y, list(DIED)


@whole
@changed("A.x = 7")
def test_deletion_from_a_module(x):
    try:
        del functools.no_such_thing
    except AttributeError as error:
        return x + 1, "no_such_thing" in str(error)


class Written:
    def __init__(self):
        self.a = 1


def set_more(self, name, value):
    object.__setattr__(self, name, (value, "set"))


def delete_nothing(self, name):
    pass


@changed("Written.__setattr__ = set_more", "del Written.__setattr__", "Written.__setattr__ = set_more")
def test_writes_around_a_hook_that_comes_later(x):
    first, second, third = object.__new__(Written), object.__new__(Written), object.__new__(Written)
    first.__dict__["y"] = 1
    vars(second).update(y=2, z=3)
    object.__setattr__(third, "y", 4)
    return x, vars(first), vars(second), vars(third)


@changed("Written.__delattr__ = delete_nothing", "del Written.__delattr__")
def test_deletions_around_a_hook_that_comes_later(x):
    made = [object.__new__(Written) for _ in range(4)]
    for each in made:
        each.__dict__.update(a=1, b=2)
    made[0].__dict__.pop("a")
    made[1].__dict__.clear()
    del made[2].__dict__["a"]
    object.__delattr__(made[3], "b")
    return x, [vars(each) for each in made]


class Hashed:
    pass


HASHED = (Hashed(), Hashed())


@changed("Hashed.__hash__ = None", "del Hashed.__hash__", "Hashed.__hash__ = None", "Hashed.__hash__ = object.__hash__")
def test_objects_that_can_no_longer_be_hashed(x):
    try:
        count = len({*HASHED}) + len({HASHED[0]: 1}) + len({Hashed()})
    except TypeError as error:
        return x, str(error)
    return x * count
