"""Registrations that a program makes at run time: the meaning of calls, classes that are values, modules to follow.

Each function registers at once, for all later translations, and forgets the translations that the registration
concerns. The result takes the registration back by `undo()`, or at the end of a `with` block. What cannot be
registered raises at this call, with an error that says why.
"""

from __future__ import annotations

import inspect
import sys
from types import FunctionType, ModuleType
from typing import Any, Callable, Iterable, TypeVar

from . import _backends
from ._backends import Backend, Graph, Statement
from ._registration import Registration, register, shown_as

__all__ = [
    "Backend",
    "Graph",
    "Registration",
    "Statement",
    "Substitution",
    "backend",
    "constant_result",
    "container",
    "disable",
    "graph_node",
    "pure",
    "skip",
    "substitute",
    "trace",
    "value_type",
]

_F = TypeVar("_F", bound=Callable[..., Any])


def pure(function: Callable[..., Any]) -> Registration:
    """Declare that the result of a function depends on its arguments alone, and that the function has no side effects.

    When all arguments are known while tracing, the tracer calls the function then, and the result is known, too; the
    places from which the arguments are read are guarded. With other arguments, such as tensors, the function is called
    as if it were not registered.
    """
    return register("pure", function)


def constant_result(function: Callable[..., Any]) -> Registration:
    """Declare that a function returns the same from now on. Each translation calls it once, and assumes the result."""
    return register("constant_result", function)


class Substitution(Registration):
    """A substitution for a function. As a decorator it takes the function to follow, and returns that function."""

    def __init__(self, original: Callable[..., Any]) -> None:
        super().__init__(f"{__package__}.register.substitute({shown_as(original)})", [])
        self._original = original
        self._is_complete = False

    def __enter__(self) -> Substitution:
        if not self._is_complete:
            raise TypeError(f"{self._shown} has no function to follow yet: pass one, or use it as a decorator")
        super().__enter__()
        return self

    # This registration is also a decorator; others are not.
    def __call__(self, traceable: _F, /) -> _F:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        _compare(self._original, traceable)
        self._undos += register("substitute", self._original, by=traceable)._undos
        self._is_complete = True
        return traceable


def substitute(original: Callable[..., Any], traceable: Callable[..., Any] | None = None) -> Substitution:
    """Follow another function wherever `original` is called. Without `traceable`, return a decorator that takes it.

    `original` may be written in C. The signatures must be the same, if `original` has one that can be read. Where the
    graph breaks, the program still calls `original` itself, so both functions must do the same.
    """
    if not callable(original):
        raise TypeError(f"{_SUBSTITUTE}() takes callables; {shown_as(original)} is not callable")
    substitution = Substitution(original)
    if traceable is not None:
        substitution(traceable)
    return substitution


def graph_node(function: Callable[..., Any]) -> Registration:
    """Make each call of a function one statement of the graph: the tracer does not follow its body.

    The function takes tensors and constants. It returns tensors, alone or in tuples, lists and dicts. It is called
    with the values of the graph while the graph is built, and must do for these values what it does for tensors.

    The globals that its code names, its defaults, its closure and its arguments are guarded, and so is what instances
    and containers among them hold, including models. Attributes of modules and classes are not guarded: they must not
    change.
    """
    return register("graph_node", function)


def value_type(cls: type) -> Registration:
    """Declare that the instances of a class never change, and that equal instances are interchangeable.

    Instances are known while tracing, so `pure` functions take them. A translation assumes of an instance that it is
    equal, by `==`.
    """
    return register("value_type", cls)


def container(
    cls: type,
    flatten: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Any, tuple[Any, ...]], Any],
) -> Registration:
    """Declare how instances of a class hold other objects, such as tensors, so that instances can go through a graph.

    `flatten(instance)` returns the held objects, and the rest of the instance, which is compared by `==`.
    `unflatten(rest, held)` makes an instance of the two.

    Methods in C are called while tracing, on an instance that holds stand-ins. If such a method looks at what the
    instance holds, or changes the instance, the graph ends. Python code of the class is followed.
    """
    shown = f"{__package__}.register.container({shown_as(cls)})"
    _takes(f"{shown}: flatten", flatten, ("an instance",))
    _takes(f"{shown}: unflatten", unflatten, ("what else there is to an instance", "what it holds"))
    return register("container", cls, by=(flatten, unflatten))


def skip(module: ModuleType | str) -> Registration:
    """Leave the functions of a module, and of its submodules, to CPython: calls of them end the graph."""
    return register("skip", _module("skip", module))


def trace(module: ModuleType | str) -> Registration:
    """Follow the Python functions of a module and of its submodules, where calls would otherwise break the graph or be
    one statement (the framework's own functions)."""
    return register("trace", _module("trace", module))


def disable(function: Callable[..., Any], *, recursive: bool = True) -> Registration:
    """Leave a function to CPython; with `recursive`, also what it calls. `sot.disable` is the decorator."""
    if not isinstance(recursive, bool):
        raise TypeError(f"{__package__}.register.disable(): recursive is True or False, not {shown_as(recursive)}")
    return register("disable", function, below=recursive)


def backend(name: str, function: Backend) -> Registration:
    """Register a function that compiles graphs under a name, for `symbolic_translate(backend=name)`.

    The function is given a finished `Graph` and the tensors of the call at hand. It returns a callable for all calls,
    which takes the inputs in order and returns a sequence of the outputs in order. If the function raises or returns
    something else, the program is warned, and the graph runs without the backend.
    """
    return _backends.register(name, function)


def _module(word: str, module: ModuleType | str) -> ModuleType:
    if not isinstance(module, str):
        return module
    try:
        return sys.modules[module]
    except KeyError:
        raise ValueError(f"{__package__}.register.{word}(): no module named {module!r} is imported") from None


_SUBSTITUTE = f"{__package__}.register.substitute"


def _compare(original: Callable[..., Any], traceable: Callable[..., Any]) -> None:
    """Raise `TypeError` if the signatures of the functions differ."""
    if not isinstance(traceable, FunctionType):
        raise TypeError(f"{_SUBSTITUTE}(): only a Python function can be followed, not {shown_as(traceable)}")
    if isinstance(original, type):
        raise TypeError(f"{_SUBSTITUTE}() takes functions and callable objects; {shown_as(original)} is a class")
    try:
        wanted = inspect.signature(getattr(original, "__func__", original))
    except (ValueError, TypeError):
        return  # Many functions in C have no signature.
    found = inspect.signature(traceable)
    if [_shape(one) for one in wanted.parameters.values()] != [_shape(one) for one in found.parameters.values()]:
        name = getattr(original, "__qualname__", None) or shown_as(original)
        raise TypeError(f"{_SUBSTITUTE}({name}): the original takes {wanted}, and what is to stand for it takes {found}")


def _takes(what: str, function: Any, given: tuple[str, ...]) -> None:
    """Raise `TypeError` if the signature of a function does not take these arguments."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return  # Many functions in C have no signature. Objects that are not callable are refused elsewhere.
    try:
        signature.bind(*given)
    except TypeError:
        raise TypeError(f"{what} is called with {' and '.join(given)}, and {shown_as(function)} takes {signature}") from None


def _shape(parameter: inspect.Parameter) -> tuple[Any, ...]:
    """Return what callers depend on: kind, default, and the name if the parameter can be passed by name."""
    unnamed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    name = None if parameter.kind in unnamed else parameter.name
    return (parameter.kind, name, parameter.default)
