"""Functions and stretches of a program that run without the tracer."""

from __future__ import annotations

from typing import Any

from . import _sot
from ._registration import register


def disable(function: Any = None, *, recursive: bool = True) -> Any:
    """Leave a function to CPython, with all that it calls or, not `recursive`, alone; give it back.

    Without a function: a decorator with options, and a context manager under which no frame of the thread is translated.
    """
    if function is None:
        return _sot.DisabledStretch(recursive)
    register("disable", function, below=recursive)
    return function
