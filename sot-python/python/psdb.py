"""Functions by which a traced program steers the tracer and asks it questions.

The bodies here run outside of translated code. What the functions mean to a trace is registered with the tracer.
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
    """Assert a condition that is known while tracing. It is guarded, so translated code does not test it again."""
    assert input


def print(*args: Any, **kwargs: Any) -> None:
    """Print, also tensors, without breaking the graph. The prefix is `[SOT]` in translated code, else `[Dygraph]`."""
    builtins.print("[Dygraph]", *args, **kwargs)


def breakpoint() -> None:
    """Leave the frame to CPython and enter the debugger in it. The tracer is off until the debugger is left."""
    from . import _sot

    _sot.call_untraced(builtins.breakpoint)


def breakgraph() -> None:
    """End the graph here, and begin another graph behind this call."""


def fallback(recursive: bool = False) -> None:
    """Leave the calling frame to CPython; with `recursive`, also the functions that the frame calls."""


def in_sot() -> bool:
    """Return whether the calling code is translated."""
    return False


def check_no_breakgraph(fn: _F) -> _F:
    """Raise `sot.GraphBreakError` at a graph break in the function or in inlined functions. Also a decorator."""
    from . import _sot

    return _sot.forbid(fn, "breakgraph")


def check_no_fallback(fn: _F) -> _F:
    """Raise `sot.GraphBreakError` if the function is left to CPython. Also a decorator."""
    from . import _sot

    return _sot.forbid(fn, "fallback")
