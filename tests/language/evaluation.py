"""Texts that are compiled and run, by the program or by the library for it."""

import dataclasses
import typing

LIMIT = 7


class Noted:
    a: "int"
    b: "typing.Optional[str]" = None
    c: "typing.List[LaterKnown]" = ()


class LaterKnown:
    pass


@dataclasses.dataclass
class NotedData:
    a: "int"
    b: "typing.ClassVar[int]" = 3
    c: "typing.Optional[float]" = None


def _noted(a: "int", b: "typing.Optional[Noted]" = None) -> "typing.Dict[str, Noted]":
    return a


def hints_in_texts(x):
    return x + 1, typing.get_type_hints(Noted, globals()), typing.get_type_hints(_noted), typing.get_type_hints(NotedData, globals(), {})


def hints_of_a_function_made_here(x):
    def f(a: "int", b: "typing.Optional[Noted]" = None) -> "Noted":
        return a

    return x + 1, typing.get_type_hints(f)


def hints_of_a_class_made_here(x):
    class Local:
        a: "int"
        b: "typing.Tuple[Noted, ...]"

    return x + 1, typing.get_type_hints(Local, globals())


def hints_that_are_not_there(x):
    def f(a: "NotThere"):
        pass

    try:
        typing.get_type_hints(f)
    except NameError as e:
        return x + 1, e.args


def texts_with_names(x):
    k = 3
    return x * eval("k + 2") + eval("x * LIMIT"), eval(" \t1"), eval(b"2"), eval("len(b) + a", {"a": 1, "b": [1, 2]})


def texts_with_two_dicts(x):
    names, own = {"a": 1, "b": 2}, {"b": 3}
    return eval("x + b", {"x": x}, own), eval("a + b", names, own), eval("LIMIT", globals()), eval("LIMIT", globals(), own)


def dicts_are_given_builtins(x):
    names = {}
    value = eval("len([1, 2])", names)
    return x + value, list(names), names["__builtins__"]["len"] is len


def compiled_texts(x):
    code = compile("a * 2", "<text>", "eval")
    run = compile("y = x * 2\nz = y + 1", "<text>", "exec", dont_inherit=True)
    names = {"x": x}
    exec(run, names)
    return names["z"], eval(code, {"a": 2}), eval(code, {}, {"a": "b"}), code.co_names


def statements_in_texts(x):
    names = {"a": 1, "b": 2}
    exec("del a\nb += 1\nfor i in range(3):\n    b += i\nimport math\nc = math.floor(2.5)", names)
    return x * names["b"], names["c"], sorted(names)


def statements_that_write_globals(x):
    names = {}
    own = {}
    exec("global a\na = 1\nb = 2", names, own)
    return x + names["a"], own, exec("pass", {})


def texts_in_texts(x):
    return x + 1, eval("eval('a + 1')", {"a": 1}), eval("sorted(locals())", {"a": 1}, {"b": 2}), eval("globals()['a']", {"a": 1})


def texts_that_are_wrong(x):
    found = []
    for text in ("1 +", "a b", "x = 1"):
        try:
            eval(text, {})
        except SyntaxError as e:
            found.append((e.msg, e.lineno, e.offset, e.text, e.filename))
    try:
        eval("missing", {})
    except NameError as e:
        found.append(e.args)
    return x + 1, found


def variables_that_a_text_makes(x):
    exec("made = 3")
    return x + 1, "made" in locals()
