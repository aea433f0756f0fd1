"""The break list: the APIs at whose calls the graph ends, so that the call runs eagerly."""

from __future__ import annotations

from typing import Any, Callable

from ._registration import Registration, register, shown_as


class BreakList(Registration):
    """What one `break_on` put on the break list; removed from it by `undo()` or at the end of a `with` block."""


def break_on(*apis: Callable[..., Any]) -> BreakList:
    """End the graph at calls of these APIs, and run these calls eagerly.

    An API is a function, a method, a callable object, or a class. A class stands for making its instances and for
    calling them. The frame of a listed Python function is not translated; functions that it calls are.

    The list holds until `undo()` of the result is called, or for a `with` block. A change of the list forgets the
    translations that call one of the APIs, so it belongs before the hot loop, not into it.
    """
    if not apis:
        raise TypeError(f"{__package__}.break_on() takes at least one API to break on")
    done = register("break_on", *apis)
    return BreakList(f"{__package__}.break_on({', '.join(map(shown_as, apis))})", done._undos)
