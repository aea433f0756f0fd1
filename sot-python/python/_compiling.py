"""Whether code is being translated. A module of its own: the tracer looks it up while it starts."""

from __future__ import annotations


def is_compiling() -> bool:
    """Whether the code that asks is being translated: constantly `True` in translated code, `False` in eager mode."""
    return False
