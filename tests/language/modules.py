"""Modules of the standard library that programs use beside their tensors."""

import collections
import contextlib
import contextvars
import copy
import datetime
import fnmatch
import functools
import hashlib
import io
import json
import operator
import os
import random
import re
import string
import sys
import time
import traceback
import types
import typing
import weakref


class Node:
    def __init__(self, value, children=()):
        self.value = value
        self.children = list(children)


class Copied:
    def __init__(self, value):
        self.value = value

    def __copy__(self):
        return Copied(self.value + 1)

    def __deepcopy__(self, memo):
        return Copied(self.value + 2)


@functools.singledispatch
def _describe(value):
    return "object"


@_describe.register(int)
def _describe_int(value):
    return "int " + str(value)


@_describe.register(list)
def _describe_list(value):
    return "list " + str(len(value))


class Shown:
    @functools.singledispatchmethod
    def show(self, value):
        return "any"

    @show.register(int)
    def show_int(self, value):
        return "int"


_token = contextvars.ContextVar("token")
_weak = Node(3)
_reference = weakref.ref(_weak)
_weak_values = weakref.WeakValueDictionary({"a": _weak})
_logging = __import__("logging").getLogger("language").isEnabledFor(10)
_pattern = re.compile(r"(\d+)\.(\d+)")


def json_of_containers(x):
    import json

    text = json.dumps({"a": [1, 2.5, None, True], "b": {"c": "d"}}, sort_keys=True)
    return x + 1, text, json.loads(text), json.loads('{"k": [1, "two"]}')["k"][0]


def json_indented(x):
    import json

    return x + 1, json.dumps([1, {"a": 2}], indent=2), json.dumps("é", ensure_ascii=False)


def copy_of_an_object(x):
    n = Node(1, [2, 3])
    a, b = copy.copy(n), copy.deepcopy(n)
    b.children.append(4)
    return x + a.value, a.children is n.children, b.children, n.children


def copy_with_own_methods(x):
    c = Copied(1)
    return x + copy.copy(c).value, copy.deepcopy([c])[0].value


def deepcopy_of_containers(x):
    d = {"a": [1, (2, [3])], "s": {1, 2}}
    e = copy.deepcopy(d)
    e["a"][1][1].append(9)
    return x + 1, d["a"], e["a"], e["s"] == d["s"], e["s"] is d["s"]


def simple_namespace_protocol(x):
    n = types.SimpleNamespace(a=1)
    n.b = 2
    return x + n.b, vars(n), n == types.SimpleNamespace(a=1, b=2), hasattr(n, "c"), repr(n)


def simple_namespace_returned(x):
    return types.SimpleNamespace(t=x + 1, k=2)


def mapping_proxies(x):
    m = types.MappingProxyType({"a": 1, "b": 2})
    return x + m["b"], len(m), list(m), list(m.items()), m.get("z", 0), dict(m), "a" in m


def class_dict(x):
    return x + 1, "value" in Node.__init__.__code__.co_varnames, "__init__" in Node.__dict__, "nothing" in vars(Node)


def templates(x):
    t = string.Template("$a and ${b}")
    return x + 1, t.substitute(a=1, b="x"), t.safe_substitute(a=2)


def string_formatter(x):
    return x + 1, string.capwords("ab cd"), "x".join(string.digits[:3])


def weak_references(x):
    return x + _reference().value, _reference() is _weak


def weak_reference_made(x):
    n = Node(5)
    r = weakref.ref(n)
    return x + r().value, r() is n


def weak_value_dictionary(x):
    return x + _weak_values["a"].value, "b" in _weak_values


def single_dispatch(x):
    return x + 1, _describe(3), _describe([1]), _describe("s"), _describe(True)


def single_dispatch_method(x):
    return x + 1, Shown().show(3), Shown().show("s")


def functools_tools(x):
    return (
        x + 1,
        functools.reduce(operator.add, [1, 2, 3]),
        sorted("bca", key=functools.cmp_to_key(lambda a, b: (a > b) - (a < b))),
        functools.partial(int, base=2)("101"),
    )


def cached_function_in_the_function(x):
    calls = []

    @functools.lru_cache(maxsize=None)
    def square(n):
        calls.append(n)
        return n * n

    return x + square(3) + square(3), calls


def arrays(x):
    import array

    a = array.array("i", [1, 2, 3])
    return x + a[1], len(a), list(a), a.typecode, sum(a)


def byte_arrays(x):
    b = bytearray(b"abc")
    b.append(100)
    b[0] = 65
    b += b"e"
    return x + len(b), bytes(b), b[1], b.decode(), b[1:3], list(b)[:2], b == b"Abcde", b"b" in b


def memory_views(x):
    m = memoryview(b"abc")
    return x + m[0], len(m), bytes(m[1:]), m.tolist(), m.nbytes


def struct_sequences(x):
    t = time.struct_time(range(9))
    return x + t.tm_year, t[1], len(t), t[2:4], tuple(t)[8]


def struct_sequence_given(x):
    import sys

    return x + sys.version_info[0], sys.version_info >= (3, 8), sys.version_info.major


def struct_sequence_of_floats(x):
    import sys

    return x + 1, sys.float_info.max > 1, sys.maxsize > 5


def user_containers(x):
    d, l, s = collections.UserDict(a=1), collections.UserList([3, 1]), collections.UserString("ab")
    l.append(2)
    l.sort()
    d["b"] = 2
    return x + d["b"], list(d), l.data, l[0], str(s.upper()), len(s)


def chain_maps_written(x):
    m = collections.ChainMap({}, {"a": 1})
    m["b"] = 2
    c = m.new_child({"a": 5})
    return x + c["a"], m["a"], sorted(c), m.maps[0]


def string_io(x):
    f = io.StringIO()
    f.write("ab")
    f.write("cd")
    return x + len(f.getvalue()), f.getvalue()


def captured_output(x):
    f = io.StringIO()
    with contextlib.redirect_stdout(f):
        pass
    return x + 1, f.getvalue()


def dates(x):
    import datetime

    d = datetime.date(2024, 2, 28) + datetime.timedelta(days=2)
    return x + d.day, d.isoformat(), d.year, datetime.timedelta(hours=2).total_seconds()


def fractions_of_numbers(x):
    import fractions

    f = fractions.Fraction(1, 3) + fractions.Fraction(1, 6)
    return x + f.numerator, f.denominator, f > 0, float(f)


def paths(x):
    import os.path
    import pathlib

    p = pathlib.PurePosixPath("a") / "b.txt"
    return x + 1, str(p), p.suffix, p.stem, p.parent.name, os.path.splitext("c.d"), os.path.basename("a/b")


def statistics_of_numbers(x):
    import statistics

    return x + statistics.mean([1, 2, 3]), statistics.median([3, 1, 2])


def textwraps(x):
    import textwrap

    return x + 1, textwrap.indent("a\nb", "> "), textwrap.shorten("a b c d", 5), textwrap.wrap("aa bb cc", 5)


def compiled_patterns(x):
    m = _pattern.match("3.14")
    return x + int(m.group(1)), m.group(2), _pattern.sub(r"\2.\1", "1.2 3.4"), [f.group() for f in _pattern.finditer("1.2 3.4")]


def pattern_with_a_function(x):
    return x + 1, re.sub(r"\d", lambda m: str(int(m.group()) + 1), "a1b2"), re.fullmatch("a+", "aa") is not None, re.escape("a.b")


def hashed_texts(x):
    import zlib

    return x + 1, zlib.crc32(b"abc"), zlib.adler32(b"a")


def base_64(x):
    import base64

    return x + 1, base64.b64encode(b"abc"), base64.b64decode("YWJj")


def unique_identifiers(x):
    import uuid

    return x + 1, str(uuid.UUID(int=5))[-2:], uuid.UUID(int=5).version


def inspected(x):
    import inspect

    return (
        x + 1,
        inspect.isfunction(_describe_int),
        inspect.isclass(Node),
        inspect.ismethod(Node(1).__init__),
    )


def logged(x):
    import logging

    logger = logging.getLogger("language")
    logger.debug("not shown %s", 3)
    return x + 1, logger.isEnabledFor(logging.DEBUG), logger.name


def environment(x):
    import os

    return x + 1, os.environ.get("SURELY_NOT_SET", "default"), os.getenv("SURELY_NOT_SET"), os.sep


def type_made_by_call(x):
    cls = type("Made", (Node,), {"extra": 3})
    return x + cls(2).value + cls.extra, cls.__name__


def generic_alias(x):
    return x + 1, typing.get_origin(typing.Optional[int]) is typing.Union, typing.List[int] == typing.List[int], typing.Any is typing.Any


def byte_array_returned(x):
    b = bytearray(2)
    b[1] = 7
    c = b
    c.extend(b"xy")
    return x + len(b), b, c is b, [v for v in b], b.pop(), bytes(b[1:]), b.find(b"x")


def byte_array_changed_while_iterated(x):
    b = bytearray(b"ab")
    seen = []
    for v in b:
        seen.append(v)
        if len(b) < 4:
            b.append(99)
    return x + 1, seen


def text_in_memory_read(x):
    import io

    with io.StringIO("a\nb\n") as f:
        lines = [line.strip() for line in f]
    g = io.BytesIO(b"abc")
    return x + 1, lines, g.read(2), g.tell(), g


def array_returned(x):
    import array

    a = array.array("d", [1.5])
    a.append(2)
    a += array.array("d", [3])
    return x + a[0], a, a.itemsize, a == array.array("d", [1.5, 2, 3])


def globals_of_a_caller(x):
    import sys

    def module(depth):
        return sys._getframe(depth).f_globals["__name__"]

    return x + 1, module(0) == __name__, module(1) == __name__, [module(d) for d in (0, 1)] == [__name__] * 2


def traceback_texts(x):
    try:
        raise ValueError("wrong", 2)
    except ValueError as error:
        return x + 1, traceback.format_exception_only(type(error), error)


def paths_as_texts(x):
    return x + 1, os.path.join("a", "b"), os.fspath("a"), os.path.basename("a/b"), os.path.splitext("a.b"), os.sep


def facts_of_the_interpreter(x):
    return x + sys.float_info.epsilon, sys.maxsize, sys.version_info >= (3, 8), sys.byteorder, sys.intern("a"), sys.platform


def seeded_random(x):
    r = random.Random(3)
    return x + r.random(), r.randint(1, 10), r.choice("abc"), random.Random(8).sample(range(9), 3), r


def random_numbers_of_the_module(x):
    random.seed(3)
    items = list(range(5))
    random.shuffle(items)
    y = x + random.random()
    return y, items, random.randint(1, 10), random.choice("abc"), random.gauss(0, 1), random.sample(range(9), 3), hash(random.getstate())


_generator = random.Random(1)


def random_numbers_from_outside(x):
    _generator.seed("text")
    state = _generator.getstate()
    y = x + _generator.random()
    _generator.setstate(state)
    return y, _generator.random(), _generator.uniform(1, 2)


def random_numbers_by_a_text(x):
    return x + random.Random("abc").random(), random.Random(b"abc").randint(0, 9)


def hashes_of_known_bytes(x):
    h = hashlib.sha256(b"a")
    h.update(b"b")
    other = h.copy()
    other.update(b"c")
    digest = hashlib.new("sha1", b"x").digest()
    return x + len(digest), h.hexdigest(), other.hexdigest(), h.name, h.digest_size, hashlib.blake2b(b"z", digest_size=4).digest()


_settings = types.MappingProxyType({"a": 1, "b": 2})


def mapping_proxy_from_outside(x):
    return x + _settings["a"], list(_settings), len(_settings), _settings.get("z", 5), "b" in _settings, dict(_settings)


def module_that_is_imported_here(x):
    import colorsys
    from wsgiref import util

    return x + 1, colorsys.rgb_to_hsv(1, 0, 0), util.guess_scheme({})


@functools.lru_cache(maxsize=None)
def _remembered(n):
    """Doubled."""
    return n * 2


def wraps_of_a_cached_function(x):
    @functools.wraps(_remembered)
    def doubled(n):
        return _remembered(n)

    return x + doubled(1), doubled.__name__, doubled.__doc__, sorted(doubled.__dict__), doubled.__wrapped__ is _remembered, doubled


def entries_beside_what_c_code_keeps(x):
    def f():
        return 1

    f.__dict__.update(__name__="g", other=2)
    f.__dict__["__doc__"] = 3
    before = dict(vars(f))
    del f.__dict__["__doc__"]
    return x + f(), f.__name__, f.__doc__, before, f.__dict__, f


class Encoder(json.JSONEncoder):
    def default(self, o):
        if isinstance(o, Node):
            return {"value": o.value, "children": o.children}
        return super().default(o)


def json_of_objects(x):
    tree = Node(1.5, [Node("é", ()), Node(None)])
    texts = json.dumps(tree, cls=Encoder), json.dumps([Node(True)], default=vars), Encoder().encode({"k": Node(2)})
    try:
        json.dumps({"k": Node(1)})
    except TypeError as e:
        return x + 1, texts, str(e)


def times_from_texts(x):
    when = datetime.datetime.fromisoformat("2024-01-02T03:04:05")
    day, time = datetime.date.fromisoformat("2024-02-03"), datetime.time.fromisoformat("01:02")
    return x + when.day, when, day, time, datetime.datetime.combine(day, time), datetime.date.fromordinal(when.toordinal())


def dicts_from_keys(x):
    class Own(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key, [value])

    ordered = collections.OrderedDict.fromkeys(["b", "a"], 1)
    ordered.move_to_end("b")
    made = collections.defaultdict.fromkeys("ab")
    return x + 1, ordered, list(ordered), made, Own.fromkeys("ab", 2), type(Own.fromkeys([])).__name__, dict.fromkeys("ab")


class Lenient(string.Formatter):
    def get_value(self, key, args, kwargs):
        return kwargs.get(key, f"<{key}>") if isinstance(key, str) else super().get_value(key, args, kwargs)


def formatters(x):
    f = string.Formatter()
    texts = f.format("{0} {a:>5} {b!r} {c[1].real}", 1, a=2, b="q", c=[0, 7]), f.vformat("{}", (3,), {})
    return x + 1, texts, Lenient().format("{a} {missing} {0}", "zero", a=1)


def output_put_elsewhere(x):
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        print("first", 1, sep="-")
        print("second", end="", flush=True)
        print("error", file=sys.stderr)
        print("aside", file=errors)
    print("after")
    return x + 1, out.getvalue(), errors.getvalue()


_LEADING = re.compile("a*").match


@functools.lru_cache()
def _matcher(pattern):
    return re.compile(pattern).match


# A trace uses what the cache has.
_matcher("b")


def methods_of_patterns_from_outside(x):
    fits = isinstance(_LEADING, types.BuiltinMethodType), callable(_LEADING), _LEADING == _LEADING
    return x + _LEADING("aab").end(), fits, _matcher("b")("bc").group(), fnmatch.fnmatch("a.py", "*.py")


def json_with_hooks(x):
    pairs = json.loads('{"a": {"b": 2}, "c": [1.5, null]}', object_hook=lambda d: tuple(d.items()))
    ordered = json.loads('{"b": 1, "a": 2}', object_pairs_hook=collections.OrderedDict)
    return x + 1, pairs, ordered, json.loads("[1, 2.5]", parse_float=str)


class Hinted:
    a: int
    b: typing.Optional[str] = None

    def method(self, n: int, rest: typing.List[int]) -> str:
        return str(n)


def hints_of_types(x):
    return x + 1, typing.get_type_hints(Hinted.method), typing.get_type_hints(_matcher.__wrapped__)


class WithNames:
    shared = 1

    def __init__(self):
        self.own = 2

    def method(self):
        pass


class WithMoreNames(WithNames):
    __slots__ = ("slot",)


def names_of_objects(x):
    s = WithMoreNames()
    s.late = 3
    names = [name for name in dir(s) if not name.startswith("_")]
    return x + 1, names, dir(s) == sorted(set(dir(WithMoreNames)) | {"own", "late"}), [name for name in dir(WithMoreNames) if not name.startswith("__")]
