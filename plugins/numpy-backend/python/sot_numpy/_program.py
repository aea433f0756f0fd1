"""Programs: a graph as a Python function of its inputs that calls nothing but NumPy.

The shape and element type of a result are found by running the operation on example arrays. So an operation is refused
if its result is not an array, or if the shape or element type depends on the numbers in the arrays.
"""

import functools
import types

import numpy as np

# Kinds of element types whose operations run no code of the program.
KINDS = "biufc"


class Refused(Exception):
    """The operation cannot be in a graph."""


class Value:
    """An array of the graph, with an example array of the same shape and element type."""

    __slots__ = ("name", "example")

    def __init__(self, name, example):
        self.name = name
        self.example = example


def is_tensor(array):
    return type(array) is np.ndarray and array.dtype.kind in KINDS


def _map(structure, change):
    """Return the structure with `change` applied to each value in it."""
    if isinstance(structure, Value):
        return change(structure)
    if type(structure) in (list, tuple):
        return type(structure)(_map(item, change) for item in structure)
    if type(structure) is dict:
        return {key: _map(item, change) for key, item in structure.items()}
    if type(structure) is slice:
        return slice(*(_map(item, change) for item in (structure.start, structure.stop, structure.step)))
    return structure


def _values(structure):
    if isinstance(structure, Value):
        return [structure]
    if type(structure) is slice:
        structure = (structure.start, structure.stop, structure.step)
    if type(structure) is dict:
        structure = structure.values()
    if type(structure) in (list, tuple) or isinstance(structure, type({}.values())):
        return [value for item in structure for value in _values(item)]
    return []


def _check(kind, callee, args, kwargs):
    """Refuse a call that writes to an argument, or whose result's shape or type depends on the numbers."""
    if kind not in ("function", "method"):
        raise Refused("it changes an array in place")
    if kwargs.get("out") is not None:
        raise Refused("out= names an array that is written to")
    if isinstance(callee, np.ufunc) and len(args) > callee.nin:
        raise Refused("an array is given that is written to")
    if kind == "method" and callee == "__getitem__" and any(value.example.dtype.kind == "b" for value in _values(args[1:])):
        raise Refused("how much a mask takes depends on its numbers")
    if callee is np.where and len(args) + len(kwargs) == 1 or callee is np.repeat and _values(args[1:]):
        raise Refused("the size of the result depends on the numbers")
    if any(isinstance(item, _FUNCTIONS) for item in [*args, *kwargs.values()]):
        raise Refused("a function is given that is called with the numbers")
    if _PROMOTES_BY_VALUE:
        operands = _values(args)
        if any(value.example.ndim == 0 for value in operands) and any(value.example.ndim for value in operands):
            raise Refused("the element type of the result depends on the number in an array without dimensions")


_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)

# Before NumPy 2, the number in a 0-dimensional array influences the element type of the result.
_PROMOTES_BY_VALUE = int(np.__version__.split(".")[0]) < 2


def _run(kind, callee, args, kwargs):
    return getattr(args[0], callee)(*args[1:], **kwargs) if kind == "method" else callee(*args, **kwargs)


class Graph:
    """The statements of a graph while it is recorded."""

    def __init__(self):
        self.lines = []
        self.held = {}
        self.count = 0

    def _value(self, example):
        self.count += 1
        return Value(f"v{self.count}", example)

    def input(self, array):
        return self._value(np.zeros(array.shape, array.dtype))

    def parameter(self, array):
        raise Refused("NumPy has no parameters")

    def call(self, kind, callee, args, kwargs):
        _check(kind, callee, args, kwargs)

        def example(value):
            return value.example

        given = [value.example for value in _values([args, kwargs])]
        with np.errstate(all="ignore"):
            result = _run(kind, callee, _map(args, example), _map(kwargs, example))
        made = self._results(result, given)
        self._note(kind, callee, args, kwargs, made)
        return made

    def _results(self, result, given):
        if type(result) in (list, tuple):
            return type(result)(self._results(item, given) for item in result)
        if isinstance(result, np.generic):
            raise Refused("the result is a number, not an array")
        if not is_tensor(result):
            raise Refused(f"the result is a {type(result).__name__}")
        if any(result is array for array in given):
            raise Refused("the result is one of the arrays that were given")
        return self._value(result)

    def _note(self, kind, callee, args, kwargs, made):
        target = self._text(made)
        if kind == "method":
            called, args = f"{self._text(args[0])}.{callee}", args[1:]
        else:
            called = self._hold(callee)
        given = [self._text(item) for item in args]
        given += [f"{name}={self._text(item)}" for name, item in kwargs.items()]
        self.lines.append(f"{target} = {called}({', '.join(given)})")

    def _text(self, structure):
        if isinstance(structure, Value):
            return structure.name
        if not _values(structure):
            return self._hold(structure)
        if type(structure) is slice:
            parts = (structure.start, structure.stop, structure.step)
            return f"slice({', '.join(map(self._text, parts))})"
        if type(structure) is dict:
            return "{" + ", ".join(f"{key!r}: {self._text(item)}" for key, item in structure.items()) + "}"
        items = ", ".join(map(self._text, structure))
        return f"[{items}]" if type(structure) is list else f"({items},)"

    def _hold(self, thing):
        """Return the name by which the program finds an object that is not a value of the graph."""
        name = f"c{len(self.held)}"
        self.held[name] = thing
        return name

    def program(self):
        return "\n".join(self.lines)

    def finish(self, name, inputs, outputs):
        given = ", ".join(value.name for value in inputs)
        results = "".join(f"{value.name}, " for value in outputs)
        body = "".join(f"    {line}\n" for line in [*self.lines, f"return ({results})"])
        source = f"def program({given}):\n{body}"
        found = {"slice": slice, **self.held}
        exec(_compiled(source), found)
        program = found["program"]
        program.__name__ = name
        program.source = source
        return program


@functools.lru_cache(maxsize=1024)
def _compiled(source):
    return compile(source, "<sot_numpy>/program", "exec")
