"""The break list: calls of what is on it end the graph and run as they are."""

from __future__ import annotations

from typing import Any, Callable

from . import _sot


class BreakList:
    """What one `break_on` put on the list; takes it off again by `undo()` or at the end of a `with` block."""

    def __init__(self, apis: tuple[Any, ...]) -> None:
        self._apis: list[Any] = list(apis)

    def undo(self) -> None:
        """Take the APIs off the list; doing so twice is once."""
        while self._apis:
            _sot.break_list_remove(self._apis.pop())

    def __enter__(self) -> BreakList:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def __call__(self, *_: object, **__: object) -> Any:
        self.undo()
        raise TypeError("sot.break_on() is no decorator; define the function, then call sot.break_on(function)")

    def __repr__(self) -> str:
        return f"<sot.break_on({', '.join(map(repr, self._apis))})>"


def break_on(*apis: Callable[..., Any]) -> BreakList:
    """End the graph at calls of these APIs and run them as they are.

    An API is a function, a method, a callable object, or a class: then making its instances and calling them is meant. The
    frame of a listed Python function is not translated either; functions it calls are.

    The list holds until `undo()` of the result, or for a `with` block. Every change of it forgets all translations, so it
    belongs before the hot loop, not into it.
    """
    if not apis:
        raise TypeError("sot.break_on() takes at least one API to break on")
    found = tuple(map(_sot.listable, apis))
    for api in found:
        _sot.break_list_add(api)
    return BreakList(found)
