"""Functions by which programs of the toy framework control the tracer. The bodies run outside of translated code."""

import builtins


def breakgraph():
    """Break the graph."""


def fallback(recursive=False):
    """Leave the frame to CPython."""


def in_sot():
    """True if the caller is translated code."""
    return False


def assert_true(input):
    """Assert a condition that is known while tracing."""
    assert input


def print(*args, **kwargs):
    """Print without breaking the graph."""
    builtins.print("[Dygraph]", *args, **kwargs)


def breakpoint():
    """Leave the frame to CPython and enter the debugger there."""
    builtins.breakpoint()
