"""`sot.on_progress`: shows how far a long translation is, in notebooks and other places without a terminal."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Callable, Optional

from . import _sot
from ._registration import shown_as


@dataclass(frozen=True)
class Progress:
    """How far a translation has come."""

    function: str
    """The qualified name of the function that is translated."""
    phase: str
    """`simulate`, `compile`, or `done`."""
    statements: int
    """Number of statements of its graph so far."""
    seconds: float
    """Time since the translation began."""

    def __str__(self) -> str:
        return f"{__package__} translates {self.function}: {self.statements} statements, {self.phase}, {self.seconds:.1f} s"


class ProgressCallback:
    """The handle that `on_progress` returns; removes the callback by `undo()` or at the end of a `with` block."""

    def __init__(self, callback: Callable[[Progress], object]) -> None:
        self._number: Optional[int] = _sot._add_progress_callback(
            lambda function, phase, statements, seconds: callback(Progress(function, phase, statements, seconds))
        )

    def undo(self) -> None:
        """Remove the callback. A second call does nothing."""
        if self._number is not None:
            _sot._remove_progress_callback(self._number)
            self._number = None

    def __enter__(self) -> ProgressCallback:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


def on_progress(callback: Callable[[Progress], object]) -> ProgressCallback:
    """Call `callback(progress)` during a translation, at most every half second, and once more when it is done.

    There are no calls for a translation that takes less than half a second. The callback runs in the thread that
    translates, with the tracer off, and must not wait for other threads. If the callback raises, the exception is
    reported by `sys.unraisablehook`, the translation goes on, and the callback is not called again.

    Args:
        callback: a function that takes a `sot.Progress`.

    Returns:
        A handle, whose `undo()` removes the callback; also a context manager.

    Raises:
        TypeError: `callback` is not callable, or takes no argument, or needs several.
    """
    if not callable(callback):
        raise TypeError(f"{__package__}.on_progress() takes a callable, not {type(callback).__name__}")
    try:
        signature = inspect.signature(callback)
    except (ValueError, TypeError):
        return ProgressCallback(callback)  # Not every callable has a signature.
    try:
        signature.bind("progress")
    except TypeError:
        said = f"the callback is called with one argument, and {shown_as(callback)} takes {signature}"
        raise TypeError(f"{__package__}.on_progress(): {said}") from None
    return ProgressCallback(callback)
