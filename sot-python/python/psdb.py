"""Steering the tracer from the traced program, and asking it. The names and meanings are those of `paddle.jit.sot.psdb`.

The bodies here are what happens outside of translated code; what the functions mean to a trace is registered with the tracer.
"""

from __future__ import annotations

import builtins
from typing import Any, Callable, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

__all__ = [
    "assert_true",
    "breakgraph",
    "breakpoint",
    "check_no_breakgraph",
    "check_no_fallback",
    "fallback",
    "in_sot",
    "print",
]


def assert_true(input: Any) -> None:
    """Assert what is known while tracing; it is guarded, so that translated code need not ask again."""
    assert input


def print(*args: Any, **kwargs: Any) -> None:
    """Print without breaking the graph, tensors too; a prefix says whether translated code does it: `[SOT]`, `[Dygraph]`."""
    builtins.print("[Dygraph]", *args, **kwargs)


def breakpoint() -> None:
    """Leave the frame to CPython and enter the debugger in it, with the tracer off until it is left."""
    from . import _sot

    _sot.call_untraced(builtins.breakpoint)


def breakgraph() -> None:
    """End the graph here and begin another one behind it."""


def fallback(recursive: bool = False) -> None:
    """Leave the frame that calls this to CPython; with `recursive`, what that frame calls, too."""


def in_sot() -> bool:
    """Whether translated code asks."""
    return False


def check_no_breakgraph(fn: _F) -> _F:
    """Make a graph break in the function, or in what is inlined into it, a `sot.GraphBreakError`; also a decorator."""
    from . import _sot

    return _sot.forbid(fn, "breakgraph")


def check_no_fallback(fn: _F) -> _F:
    """Make it a `sot.GraphBreakError` if the function is left to CPython; also a decorator."""
    from . import _sot

    return _sot.forbid(fn, "fallback")
