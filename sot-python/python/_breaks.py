"""The break list: calls of what is on it end the graph and run as they are."""

from __future__ import annotations

from typing import Any, Callable

from ._registration import Registration, register


class BreakList(Registration):
    """What one `break_on` put on the list; takes it off again by `undo()` or at the end of a `with` block."""


def break_on(*apis: Callable[..., Any]) -> BreakList:
    """End the graph at calls of these APIs and run them as they are.

    An API is a function, a method, a callable object, or a class: then making its instances and calling them is meant. The
    frame of a listed Python function is not translated either; functions it calls are.

    The list holds until `undo()` of the result, or for a `with` block. A change of it forgets the translations that call one
    of the APIs, so it belongs before the hot loop, not into it.
    """
    if not apis:
        raise TypeError(f"{__package__}.break_on() takes at least one API to break on")
    done = register("break_on", *apis)
    return BreakList(f"{__package__}.break_on({', '.join(map(repr, apis))})", done._undos)
