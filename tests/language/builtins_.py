"""Functions of builtins."""


def sorted_with_key(x):
    return x + 1, sorted(["bb", "a", "ccc"], key=len, reverse=True), sorted([3, 1, 2], key=lambda v: -v)


def sorted_tensors_by_key(x):
    pairs = sorted([(2, x), (1, x * 2)], key=lambda pair: pair[0])
    return pairs[0][1]


def sort_is_stable(x):
    items = [("b", 1), ("a", 1), ("c", 0)]
    items.sort(key=lambda t: t[1])
    return x + 1, items


def min_and_max(x):
    return x + max(1, 3, 2), min([4, 2]), max(["aa", "b"], key=len), min([], default=5), max({"a": 1, "b": 2}.values())


def sums(x):
    return x + sum([1, 2, 3]), sum([0.5, 0.25]), sum([[1], [2]], []), sum(x * i for i in range(3))


def any_and_all(x):
    return x + 1, any([0, 1]), all([1, 0]), any([]), all([]), any(v > 1 for v in (1, 2))


def zips(x):
    return x + 1, list(zip([1, 2], "ab")), list(zip()), [a + b for a, b in zip((1, 2), [3, 4])]


def enumerates(x):
    return x + sum(i for i, _ in enumerate("abc", start=2)), list(enumerate("ab", 5))


def maps(x):
    return x + 1, list(map(str, [1, 2])), list(map(lambda a, b: a * b, [1, 2], [3, 4])), list(map(None or len, ["a"]))


def filters(x):
    return x + 1, list(filter(None, [0, 1, ""])), list(filter(lambda v: v > 1, [1, 2, 3]))


def reverses(x):
    return x + 1, list(reversed([1, 2])), list(reversed("ab")), list(reversed(range(3))), list(reversed({"a": 1, "b": 2}))


def ranges(x):
    r = range(2, 10, 3)
    return x + len(r), list(r), 5 in r, r[1], r[::-1], r.index(8), r.start, r.step, range(3) == range(0, 3)


def slices(x):
    s = slice(1, None, 2)
    return x + 1, [1, 2, 3, 4][s], s.start, s.indices(5), "abcdef"[s]


def numbers(x):
    return x + abs(-3), round(2.567, 2), divmod(7, 2), pow(2, 5), pow(3, 4, 5), round(2.5), int("12"), int("ff", 16)


def number_methods(x):
    return x + (5).bit_length(), (0.5).as_integer_ratio(), (2.0).is_integer(), (7).to_bytes(2, "big"), (1 + 2j).conjugate()


def number_texts(x):
    return x + 1, bin(5), hex(255), oct(8), chr(97), ord("a"), ascii("é"), repr("a'b")


def floats(x):
    return x + float("1.5"), float("inf") > 1, (0.1).hex(), float.fromhex("0x1.8p1"), complex(1, 2).real


def conversions(x):
    return x + 1, int(3.7), float(2), bool([]), str(12), list("ab"), tuple([1]), set([1, 1]), dict([("a", 1)]), bytes(3)


def bytes_values(x):
    b = b"abc"
    return x + b[0], b[1:], b.upper(), b + b"d", b.hex(), bytes([1, 2]), b.decode(), "é".encode()


def hashes(x):
    return x + 1, hash(1) == hash(1.0), hash("a") == hash("a"), hash((1, 2)) == hash((1, 2))


def callables(x):
    return x + 1, callable(len), callable(3), callable(lambda: 1), callable(int)


def types_of_values(x):
    return x + 1, type(3) is int, type("a").__name__, type([]) == list, type(None).__name__, type(type(1)) is type


def isinstances(x):
    return x + 1, isinstance(3, int), isinstance(True, int), isinstance("a", (int, str)), issubclass(bool, int)


def isinstance_of_abcs(x):
    from collections.abc import Callable, Iterable, Mapping, Sequence

    return x + 1, isinstance([], Sequence), isinstance({}, Mapping), isinstance(3, Iterable), isinstance(len, Callable)


def numbers_abcs(x):
    import numbers

    return x + 1, isinstance(3, numbers.Integral), isinstance(2.0, numbers.Real), isinstance("a", numbers.Number)


def iter_with_sentinel(x):
    values = iter([1, 2, 3, 4])
    return x + sum(iter(lambda: next(values), 3))


def next_with_default(x):
    it = iter([1])
    return x + next(it), next(it, "none")


def getattr_forms(x):
    return x + 1, getattr("a", "upper")(), getattr(3, "nothing", None), hasattr([], "append"), hasattr(3, "append")


def locals_in_a_function(x):
    def inner():
        a = 1
        b = 2
        return locals()

    return x + 1, inner()


def globals_read(x):
    return x + 1, "globals_read" in globals()


def ids_compare(x):
    a = []
    return x + 1, id(a) == id(a), id(a) == id([a])


def maths(x):
    import math

    return x + math.sqrt(4), math.floor(2.7), math.ceil(2.1), math.gcd(4, 6), math.pi, math.isclose(1, 1.0), math.prod([2, 3])


def operators(x):
    import operator

    get = operator.itemgetter(1)
    name = operator.attrgetter("real")
    call = operator.methodcaller("upper")
    return operator.add(x, 1), get([1, 2]), name(3), call("a"), operator.itemgetter(0, 2)("abc"), operator.mul(2, 3)


def operator_contains(x):
    import operator

    return x + operator.index(3), operator.contains([1], 1), operator.truth([]), operator.not_(0), operator.is_(None, None)


def divmod_of_floats(x):
    return x + 1, divmod(7.5, 2), 7 // -2, -7 % 3, 2 ** -1, 7 / 2


def chained_comparison(x):
    return x + 1, 1 < 2 < 3, 1 < 3 < 2, 1 == 1.0 == True


def star_expressions(x):
    a, *b, c = [1, 2, 3, 4]
    return x + a, b, c, [*b, *"xy"], {**{"a": 1}, "b": 2}, (*b,), {*b}


def deletes(x):
    a = [1, 2, 3]
    del a[0], a[-1]
    d = {"a": 1, "b": 2}
    del d["a"]
    b = 5
    del b
    try:
        b
    except UnboundLocalError:
        return x + 1, a, d


def walrus(x):
    if (n := len([1, 2, 3])) > 2:
        return x + n
    return x


def conditional_expression(x):
    flag = True
    return x + 1 if flag else x


def boolean_operators(x):
    return x + (0 or 3), (1 and 2), not [], (None or "default"), ("" and 1)


def nested_functions(x):
    def outer(k):
        def inner(v):
            return v * k

        return inner

    return outer(3)(x)


def nonlocal_counter(x):
    n = 0

    def bump():
        nonlocal n
        n += 1
        return n

    bump()
    return x + bump(), n


def default_arguments(x):
    def f(a, b=2, *args, c, d=4, **kwargs):
        return a + b + c + d + len(args) + len(kwargs)

    return x + f(1, c=3) + f(1, 2, 3, c=4, e=5)


def positional_only(x):
    def f(a, /, b, *, c):
        return a + b + c

    return x + f(1, 2, c=3)


def lambda_with_closure(x):
    fs = [lambda v, k=k: v * k for k in range(3)]
    return fs[2](x), [f(1) for f in fs]


def recursion(x):
    def fact(n):
        return 1 if n < 2 else n * fact(n - 1)

    return x + fact(5)


def decorators(x):
    def twice(f):
        def wrapper(*args, **kwargs):
            return f(f(*args, **kwargs))

        return wrapper

    @twice
    def add_one(v):
        return v + 1

    return add_one(x)


def comprehensions(x):
    return x + 1, [i * j for i in range(3) for j in range(2) if i != j], {i: i * 2 for i in range(2)}, {c for c in "aab"}


def while_else(x):
    n = 3
    while n:
        n -= 1
    else:
        x = x + 1
    return x


def for_else(x):
    for i in range(3):
        if i == 5:
            break
    else:
        x = x + i
    return x


def imports(x):
    import math
    from collections import OrderedDict as OD
    import os.path as path

    return x + math.floor(2.5), OD(a=1)["a"], path.join("a", "b")


def type_annotations(x):
    y: int = 3
    z: "str"
    return x + y


def chained_assignment(x):
    a = b = [1]
    a.append(2)
    return x + len(b), a is b


def augmented_assignment(x):
    a = [1]
    a += [2]
    d = {"k": 1}
    d["k"] += 5
    n = 7
    n //= 2
    n <<= 2
    return x + n, a, d


def tuple_swap(x):
    a, b = 1, x
    a, b = b, a
    return a + b


def unpacking_errors(x):
    try:
        a, b = [1, 2, 3]
    except ValueError as e:
        return x + 1, str(e)


def ellipsis_and_none(x):
    return x + 1, ... is Ellipsis, None is None, NotImplemented is NotImplemented


def vars_of_a_class(x):
    return x + 1, dir(3)[:1], "append" in dir([])


def copies(x):
    import copy

    a = [1, [2, 3], {"k": (4,)}]
    b, c = copy.copy(a), copy.deepcopy(a)
    return x + 1, b == a, b is a, b[1] is a[1], c == a, c[1] is a[1]


def string_constants(x):
    import string

    return x + len(string.ascii_lowercase), string.digits


def typing_at_run_time(x):
    from typing import List, Optional, cast

    def f(a: Optional[int] = None, b: List[int] = ()) -> "int":
        return 3

    return x + cast(int, 4) + f()


def locals_of_the_frame(x):
    a, b = 1, "two"
    found = locals()
    return x + found["a"], sorted(found), found["b"]


def locals_formatted(x):
    name, size = "n", 3
    return x + 1, "{name}:{size}".format(**locals())


def globals_used(x):
    g = globals()
    return x + 1, g["__name__"] == __name__, g.get("nothing"), callable(g["globals_read"])


def vars_of_things(x):
    import types

    return x + 1, vars(types.SimpleNamespace(a=1)), "globals_used" in vars(__import__(__name__)) if False else True


def dir_of_values(x):
    return x + 1, "upper" in dir("a"), dir(3) == dir(4), "__len__" in dir(list)


def iter_with_a_counter(x):
    n = 0

    def step():
        nonlocal n
        n += 1
        return n

    return x + sum(iter(step, 4)), n


def slot_wrappers(x):
    return (
        x + 1,
        (3).__add__(4),
        [1].__len__(),
        "a".__contains__("a"),
        {"k": 1}.__getitem__("k"),
        (1, 2).__iter__().__next__(),
        int.__add__(1, 2),
        str.__len__("abc"),
        list.__contains__([1], 1),
        (5).__lt__(6),
        [3].__iter__().__next__(),
    )


def type_constructors(x):
    return x + 1, int.__new__(int, 5), object.__new__(object) is not None, tuple.__new__(tuple, [1]), list.__new__(list)


def class_methods_of_builtins(x):
    return x + 1, dict.fromkeys([1], 2), int.from_bytes(b"\x01", "little"), bytes.fromhex("01"), float.fromhex("0x1p1"), str.maketrans({"a": "b"})


def builtin_functions_as_values(x):
    table = {"abs": abs, "len": len, "max": max, "up": str.upper}
    return x + table["abs"](-2), table["len"]("ab"), table["max"](1, 5), table["up"]("a")


def number_protocol(x):
    return x + (7).__floordiv__(2), (-7).__mod__(3), (2).__pow__(3), (1.5).__round__(), (3).real, (2.5).is_integer(), (6).__and__(3), (5).conjugate()


def complex_numbers(x):
    c = complex(1, 2) * 2j
    return x + c.real, c.imag, abs(3 + 4j), c == -4 + 2j, c.conjugate()


def round_forms(x):
    return x + round(1.5), round(-2.567, 1), round(1234, -2), type(round(2.0)).__name__, type(round(2.0, 1)).__name__


def sum_forms(x):
    return x + 1, sum((i for i in range(3)), 10), sum([(1,), (2,)], ()), sum([0.1] * 3)


def min_max_forms(x):
    return x + 1, min(3, 1, key=lambda v: -v), max([], default=None), max((1, 2), (1, 3)), min("b", "a", key=str.upper)


def isinstance_forms(x):
    return x + 1, isinstance(x.shape, list), isinstance(3, (str, (int, float))), issubclass(bool, (str, int)), isinstance(len, type(print))


def exec_free_names(x):
    a = [1, 2]
    b = {"k": a}
    del a[0]
    return x + b["k"][0], [*range(2), *a], {**b, "z": 1}


def sorted_by_several(x):
    rows = [("b", 2), ("a", 2), ("c", 1)]
    return x + 1, sorted(rows, key=lambda r: (-r[1], r[0])), sorted(rows, reverse=True)[0], sorted({"b": 1, "a": 2}.items())


def print_nothing(x):
    print(end="")
    return x + 1


def conversions_of_texts(x):
    return x + int("0x10", 0), int(" 7 "), float("1e3"), complex("1+2j"), int(b"12"), bool("False"), str(b"a", "ascii"), bytes("é", "utf8")


def format_specs(x):
    return x + 1, format(255, "#x"), format(1e6, ","), format("a", ">4"), format(0.5, "%"), format(3, "04d"), format(True), format(None)


def inputs_compared(x):
    return x + 1, (1, "a") < (1, "b"), [1, [2]] == [1, [2]], {1, 2} > {1}, "a" != b"a", 1 == True, None == 0
