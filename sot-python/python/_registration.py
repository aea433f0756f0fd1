"""Handles of registrations: `undo()` takes a registration back."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

from . import _sot


class Registration:
    """The registrations that one call has made. `undo()`, or the end of a `with` block, takes them back."""

    def __init__(self, shown: str, undos: list[Callable[[], None]]) -> None:
        self._shown = shown
        self._undos = undos
        self._blocks = 0
        for made in _collecting:
            made.append(self)

    def undo(self) -> None:
        """Take the registration back. A second call does nothing."""
        while self._undos:
            self._undos.pop()()

    def __enter__(self) -> Registration:
        if not self._undos:
            raise RuntimeError(f"{self._shown} has been undone: a `with` block would run without it; register again")
        self._blocks += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._blocks -= 1
        if not self._blocks:
            self.undo()

    def __call__(self, *_: object, **__: object) -> Any:
        self.undo()
        name = self._shown.partition("(")[0]
        raise TypeError(f"{name}() is no decorator; define the function, then call {name}(function)")

    def __repr__(self) -> str:
        return f"<{self._shown}>"


_collecting: list[list[Registration]] = []


@contextlib.contextmanager
def all_or_none() -> Iterator[None]:
    """Undo the registrations that are made in the block if it raises."""
    made: list[Registration] = []
    _collecting.append(made)
    try:
        yield
    except BaseException:
        for registration in reversed(made):
            registration.undo()
        raise
    finally:
        _collecting.pop()


def register(word: str, *objects: Any, by: Any = None, below: bool = False, shown: str | None = None) -> Registration:
    """Register all of these objects; if one is refused, register none and raise."""
    done = Registration(shown or f"{__package__}.register.{word}({', '.join(map(shown_as, objects))})", [])
    try:
        for one in objects:
            done._undos.append(_undo(_sot.register_meaning(word, one, by, below=below)))
    except BaseException:
        done.undo()
        raise
    return done


def shown_as(one: object) -> str:
    """Return the `repr` of an object; for an object whose `repr` fails, its type."""
    try:
        return repr(one)
    except Exception:
        return object.__repr__(one)


def _undo(token: int) -> Callable[[], None]:
    return lambda: _sot.undo_registration(token)
