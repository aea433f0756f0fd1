"""Backends in Python: functions that compile graphs, registered by name or given to `symbolic_translate`."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Callable, Sequence, cast

from . import _sot
from ._registration import Registration, shown_as


@dataclass(frozen=True)
class Statement:
    """One statement of a graph: the callee, its arguments (symbols and literals), and the symbols of the results."""

    kind: str
    """`api`, `method`, `inplace`, `sir` for a StatementIR that is called, or the framework's word for a model that is
    called."""
    callee: str
    args: tuple[str, ...]
    kwargs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """A finished graph, as a backend gets it."""

    name: str
    inputs: tuple[str, ...]
    """The symbols of the inputs that each call gives, in order: tensors, and numbers that are left open."""
    outputs: tuple[str, ...]
    """The symbols of the tensors that the callable returns, in order."""
    statements: tuple[Statement, ...]
    text: str
    """The StatementIR as people read it, with the StatementIRs that it calls."""
    program: Any
    """The framework's own object that holds the statements, or `None`. Read it only: `run` uses it."""
    run: Callable[..., Sequence[Any]]
    """Runs the graph without the backend: takes the inputs and returns a sequence of the outputs."""

    def __str__(self) -> str:
        return self.text


Backend = Callable[[Graph, Sequence[Any]], Callable[..., Sequence[Any]]]

_named: dict[str, Compiler] = {}

# The calls that errors name.
_REGISTER = f"{__package__}.register.backend"
_TRANSLATE = f"{__package__}.symbolic_translate()"


class Compiler:
    """A backend as the tracer calls it: it makes a `Graph` from the tracer's data."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        # Guards and messages show this text; showing it runs no code of the program.
        self.shown = f"<backend {getattr(backend, '__qualname__', None) or shown_as(backend)}>"

    def __call__(self, told: dict[str, Any], example_inputs: tuple[Any, ...]) -> Callable[..., Sequence[Any]]:
        statements = tuple(Statement(**statement) for statement in told.pop("statements"))
        return self._backend(Graph(statements=statements, **told), example_inputs)

    def __repr__(self) -> str:
        return self.shown


# Compilers by the id of the backend function: one for each function, so that translations are shared.
_of_functions: dict[int, Compiler] = {}


def register(name: str, backend: Backend) -> Registration:
    """Register a backend under a name."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"{_REGISTER}(): name is a text that is not empty, not {shown_as(name)}")
    if name in _sot._own_compilers:
        raise ValueError(f"{_REGISTER}({shown_as(name)}): that name is {_sot._backend.capitalize()}'s")
    if name in _named:
        raise ValueError(f"{_REGISTER}({shown_as(name)}): the name is registered already, for {_named[name]!r}: undo that first")
    if not callable(backend):
        raise TypeError(f"{_REGISTER}({shown_as(name)}): {shown_as(backend)} is not callable")
    _check(f"{_REGISTER}({shown_as(name)})", backend)
    _named[name] = _of(backend)
    return Registration(f"{__package__}.register.backend({shown_as(name)}, {shown_as(backend)})", [lambda: _forget(name)])


def _forget(name: str) -> None:
    del _named[name]


def _of(backend: Backend) -> Compiler:
    known = _of_functions.get(id(backend))
    if known is None:
        # The compiler keeps the function alive, so that its address stays its own.
        known = _of_functions[id(backend)] = Compiler(backend)
    return known


def find(backend: Any) -> Compiler | None:
    """Return the compiler that `symbolic_translate(backend=...)` means; `None` for the framework's own compilers."""
    if isinstance(backend, Compiler):
        return backend
    if isinstance(backend, str):
        if backend in _named:
            return _named[backend]
        if backend in _sot._own_compilers:
            return None
        known = ", ".join(map(repr, _named)) or "none"
        raise ValueError(f"{_TRANSLATE}: no backend named {shown_as(backend)}; registered: {known} (see {_REGISTER})")
    if not callable(backend):
        raise TypeError(f"{_TRANSLATE}: backend={shown_as(backend)} is neither a name nor a function")
    _check(_TRANSLATE, backend)
    return _of(cast(Backend, backend))


def _check(call: str, backend: Any) -> None:
    """Raise `TypeError`, which names the call, if the signature of a backend does not take a graph and example inputs."""
    try:
        signature = inspect.signature(backend)
    except (ValueError, TypeError):
        return  # Not every callable has a signature.
    try:
        signature.bind("graph", "example_inputs")
    except TypeError:
        text = f"{call}: a backend is called with a graph and example inputs, and {shown_as(backend)} takes {signature}"
        raise TypeError(text) from None
