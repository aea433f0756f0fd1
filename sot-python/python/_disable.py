"""Functions and blocks of a program that run without the tracer."""

from __future__ import annotations

from typing import Any

from . import _sot
from ._registration import register, shown_as


def disable(function: Any = None, *, recursive: bool = True) -> Any:
    """Leave a function to CPython, and return it. With `recursive`, also the functions that it calls.

    Without a function, return a decorator with these options, which is also a context manager: in its block no frame
    of the thread is translated.
    """
    if not isinstance(recursive, bool):
        raise TypeError(f"{__package__}.disable(): recursive is True or False, not {shown_as(recursive)}")
    if function is None:
        return _sot.DisabledBlock(recursive)
    register("disable", function, below=recursive)
    return function
