"""`is_compiling`. A module of its own, because the tracer looks the function up while it starts."""

from __future__ import annotations


def is_compiling() -> bool:
    """Return whether the calling code is translated: always `True` in translated code, `False` in eager mode."""
    return False
