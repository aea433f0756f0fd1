"""What a program tells the tracer while it runs: what calls mean, which classes are values, which modules are followed.

Each function registers at once, for all translations to come, and forgets the translations that it concerns. What it gives
takes the registration back by `undo()`, or at the end of a `with` block. What cannot be registered raises here, and says why.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any, Callable, Iterable, TypeVar

from . import _backends
from ._backends import Backend, Graph, Statement
from ._registration import Registration, register

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
    """Say that the result of a function depends on its arguments alone, and that the function does nothing else.

    With arguments that are known while tracing it is called then, and the result is known, too; what the arguments are read
    from is guarded. With others, tensors say, the function is called as if it were not registered.
    """
    return register("pure", function)


def constant_result(function: Callable[..., Any]) -> Registration:
    """Say that a function gives the same from now on: it is called once for each translation, and the result is assumed."""
    return register("constant_result", function)


class Substitution(Registration):
    """A substitution for a function. As a decorator it takes the function to follow, and gives it back."""

    def __init__(self, original: Callable[..., Any]) -> None:
        super().__init__(f"{__package__}.register.substitute({original!r})", [])
        self._original = original

    def __enter__(self) -> Substitution:
        if not self._undos:
            raise TypeError(f"{self._shown} has nothing to follow yet: give that too, or decorate a function with it")
        return self

    # A decorator, which other registrations are not.
    def __call__(self, traceable: _F, /) -> _F:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        _compare(self._original, traceable)
        self._undos += register("substitute", self._original, by=traceable)._undos
        return traceable


def substitute(original: Callable[..., Any], traceable: Callable[..., Any] | None = None) -> Substitution:
    """Follow another function wherever `original` is called: a decorator, or with `traceable`, at once.

    `original` may be written in C. The signatures must be the same, where `original` tells its own. The program still calls
    `original` itself where the graph breaks, so both must do the same.
    """
    if not callable(original):
        raise TypeError(f"substitute() takes callables; {original!r} is not callable")
    substitution = Substitution(original)
    if traceable is not None:
        substitution(traceable)
    return substitution


def graph_node(function: Callable[..., Any]) -> Registration:
    """Make a call of a function one statement of the graph: its body is not followed.

    The function takes tensors and constants and gives tensors, in tuples, lists and dicts or alone. It is called with the
    values of the graph while that is built, and must do for them what it does for tensors. The globals that its code names,
    its defaults, its closure and its arguments are guarded, with what the instances and containers among them hold, layers
    included. Attributes of modules and classes must stay as they are.
    """
    return register("graph_node", function)


def value_type(cls: type) -> Registration:
    """Say that the instances of a class never change, and that equal ones are alike.

    They are known while tracing, so that `pure` functions take them; what is assumed of one is that it is equal, by `==`.
    """
    return register("value_type", cls)


def container(
    cls: type,
    flatten: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Any, tuple[Any, ...]], Any],
) -> Registration:
    """Say how instances of a class hold other objects, such as tensors, so that a graph may go through them.

    `flatten(instance)` gives what it holds, and what else there is to it: that is compared by `==`. `unflatten(rest, held)`
    makes an instance of them. Methods in C are called while tracing, on an instance that holds stand-ins; one that looks at
    what it holds, or changes the instance, ends the graph. Python code of the class is followed.
    """
    _takes(f"container({cls!r}): flatten", flatten, ("an instance",))
    _takes(f"container({cls!r}): unflatten", unflatten, ("what else there is to an instance", "what it holds"))
    return register("container", cls, by=(flatten, unflatten))


def skip(module: ModuleType | str) -> Registration:
    """Leave the functions of a module, and of the modules in it, to CPython: calls of them end the graph."""
    return register("skip", _module(module))


def trace(module: ModuleType | str) -> Registration:
    """Follow the Python functions of a module, and of the modules in it, though Paddle's functions there break the graph or are
    statements by themselves."""
    return register("trace", _module(module))


def disable(function: Callable[..., Any], *, recursive: bool = True) -> Registration:
    """Leave a function to CPython, with all that it calls or, not `recursive`, alone. `sot.disable` is the decorator."""
    return register("disable", function, below=recursive)


def backend(name: str, function: Backend) -> Registration:
    """Give a name to a function that makes the callables of graphs, for `symbolic_translate(backend=name)`.

    It gets a finished `Graph` and the tensors that this call gives it, and gives a callable for all calls: that takes the
    inputs in order and gives a sequence of the outputs in order. Where it raises, or gives something else, the program is
    warned, and the graph runs as without it.
    """
    return _backends.register(name, function)


def _module(module: ModuleType | str) -> ModuleType:
    if not isinstance(module, str):
        return module
    try:
        return sys.modules[module]
    except KeyError:
        raise ValueError(f"no module named {module!r} is imported") from None


def _compare(original: Callable[..., Any], traceable: Callable[..., Any]) -> None:
    """Raise if the functions tell that they take different arguments."""
    try:
        wanted = inspect.signature(getattr(original, "__func__", original))
    except (ValueError, TypeError):
        return  # Many functions in C do not tell.
    if not callable(traceable):
        raise TypeError(f"substitute(): {traceable!r}, which is to stand for a function, is not callable")
    found = inspect.signature(traceable)
    if [_shape(one) for one in wanted.parameters.values()] != [_shape(one) for one in found.parameters.values()]:
        name = getattr(original, "__qualname__", repr(original))
        raise TypeError(f"substitute({name}): the original takes {wanted}, and what is to stand for it takes {found}")


def _takes(what: str, function: Any, given: tuple[str, ...]) -> None:
    """Raise if a function tells that it does not take so many arguments."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return  # Many functions in C do not tell, and what is not callable is refused elsewhere.
    try:
        signature.bind(*given)
    except TypeError:
        raise TypeError(f"{what} is called with {' and '.join(given)}, and {function!r} takes {signature}") from None


def _shape(parameter: inspect.Parameter) -> tuple[Any, ...]:
    """What of a parameter callers depend on."""
    unnamed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    name = None if parameter.kind in unnamed else parameter.name
    return (parameter.kind, name, parameter.default)
