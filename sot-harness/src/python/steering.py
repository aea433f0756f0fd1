"""What programs of the toy framework say to the tracer. The bodies are what happens outside of translated code."""

import builtins


def breakgraph():
    """End the graph here."""


def fallback(recursive=False):
    """Leave the frame to CPython."""


def in_sot():
    """Whether translated code asks."""
    return False


def assert_true(input):
    """Assert what is known while tracing."""
    assert input


def print(*args, **kwargs):
    """Print without breaking the graph."""
    builtins.print("[Dygraph]", *args, **kwargs)


def breakpoint():
    """Leave the frame to CPython and enter the debugger in it."""
    builtins.breakpoint()
