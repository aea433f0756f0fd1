"""`eval`, `exec` and `compile` where names change between calls, or something else than a dict of the trace has them."""

import typing

import toy
from cases import changed, given

LIMIT = 1
OUTSIDE = {"a": 2}
TEXT = "LIMIT + 1"
CODE = compile("a + 1", "<text>", "eval")


def one():
    return (toy.arange(2),)


class Limited:
    a: "Alias"


Alias = int


@given(one)
def test_a_dict_from_outside(x):
    return x + eval("a", OUTSIDE), len(OUTSIDE), eval(CODE, OUTSIDE)


@given(one)
def test_builtins_of_its_own(x):
    y = x + 1
    try:
        eval("len([])", {"__builtins__": {}})
    except NameError as e:
        return y * 2, e.args
    return y, None


@given(one)
def test_functions_in_a_dict_made_here(x):
    names = {"scale": 3}
    exec("def f(a):\n    return a * scale\nclass A:\n    v = 1", names)
    y = names["f"](x)
    names["scale"] = 4
    return y + names["f"](x), names["A"].v, eval("lambda a: a + scale", names)(x)


@given(one)
def test_a_text_that_breaks(x):
    y = x + 1
    names = {"y": y}
    exec("z = y + 1\nw = float(z.sum())\nq = z * w", names)
    return names["q"], y


@given(one)
def test_a_text_that_breaks_and_reads_the_frame(x):
    y = x + 1
    return eval("float(y.sum())") + y, eval("y")


@given(one)
def test_a_module_written_by_a_text(x):
    exec("LIMIT = 5", globals())
    y = x * LIMIT
    exec("global LIMIT\nLIMIT = 1")
    return y, LIMIT


class Mapping(dict):
    def __missing__(self, name):
        return name


@given(one)
def test_names_in_a_dict_of_its_own_kind(x):
    return x + 1, eval("a + b", {}, Mapping(a="1"))


@changed("Alias = float", "del Alias", "Alias = typing.List[int]", "Limited.__annotations__['b'] = 'str'")
def test_hints_that_name_what_changes(x):
    try:
        return x + 1, typing.get_type_hints(Limited, globals())
    except NameError as e:
        return x + 1, e.args


@changed("LIMIT = 2", "OUTSIDE['LIMIT'] = 5", "LIMIT = 3", "del OUTSIDE['LIMIT']", "TEXT = 'LIMIT * x'", "CODE = compile('LIMIT', '', 'eval')")
def test_what_texts_read_changes(x):
    return x + eval("LIMIT"), eval("LIMIT", globals(), OUTSIDE), eval(TEXT), eval(CODE, globals(), {"a": 1})


@given(one)
def test_code_of_functions(x):
    def f():
        return x

    seen = []
    try:
        eval(f.__code__)
    except TypeError as e:
        seen.append(str(e)[:30])
    exec((lambda: OUTSIDE.setdefault("b", 1)).__code__)
    return x + 1, seen, OUTSIDE["b"]


@given(one)
def test_keywords(x):
    try:
        return x + eval("a", globals={"a": 1})
    except TypeError:
        return x


@given(one)
def test_type_parameters_of_texts(x):
    names, own = {}, {}
    exec("from typing import TypeVar; T = TypeVar('T')", names, own)
    exec("from typing import TypeVar; U = TypeVar('U')", globals(), own)
    return x + 1, own["T"].__module__, own["U"].__module__, own["T"].__name__


# Where the call of eval() runs natively, its frame's variables are there.
@given(lambda: (toy.arange(2),), hit=False)
def test_an_error_in_evaluated_text(x):
    name = "unused"
    y = x + 1
    try:
        raised(y)
    except AttributeError as error:
        return y, str(error)


def raised(y):
    name = "unused"
    z = y * 2
    return eval("name.nothing"), z


@given(lambda: (toy.arange(2),), hit=False)
def test_an_error_that_leaves_evaluated_text(x):
    name = "unused"
    y = x + 1
    return eval("name.nothing"), y
