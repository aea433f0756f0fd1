"""Ends a run before it does something that cannot be undone, and restores process state such as random numbers."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import random
import signal
import sys
import threading
import warnings
from typing import Any, Callable, Iterator, List, NoReturn, Optional, Set

import numpy
import paddle
from paddle.base import unique_name

_PREFIXES = ("subprocess.", "socket.", "shutil.", "ftplib.", "http.", "urllib.", "sqlite3.", "tempfile.", "pty.")
_EVENTS = frozenset(
    f"os.{name}"
    for name in (
        "chmod chown exec fork forkpty kill killpg link lockf mkdir posix_spawn putenv remove removexattr rename rmdir "
        "setxattr spawn startfile symlink system truncate unlink unsetenv utime"
    ).split()
) | {
    "builtins.breakpoint", "builtins.input", "fcntl.flock", "fcntl.ioctl", "signal.pthread_kill",
    "_thread.start_new_thread",
}  # fmt: skip


# Packages whose threads never touch the program's objects: notebook kernels, progress bars, and event writers, whose
# queues hold only their own messages.
_APART = frozenset({"ipykernel", "IPython", "tensorboard", "tensorboardX", "tornado", "tqdm", "visualdl", "zmq"})


def is_apart(thread: threading.Thread) -> bool:
    """Return whether a thread belongs to a package that never touches the program's objects."""
    # A thread runs a method of its class, or a function that it was given.
    defined = [getattr(type(thread), "run", None), getattr(thread, "_target", None)]
    modules = [getattr(function, "__module__", None) for function in defined]
    return any(isinstance(module, str) and module.partition(".")[0] in _APART for module in modules)


class NotVerifiable(BaseException):
    """The reason why a call cannot be run twice. Raising it ends the run on copies."""


class _Watch(threading.local):
    is_on = False
    seen: Optional[str] = None


_watch = _Watch()
_is_hooked = False


def keep_watch() -> None:
    """Add an audit hook that notices acts outside the process, such as writing files. Audit hooks cannot be removed."""
    global _is_hooked
    if not _is_hooked:
        _is_hooked = True
        sys.addaudithook(_on_event)
        # It raises no audit event.
        setattr(os, "_exit", _unless_watched(os._exit))


def _unless_watched(leave: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
    @functools.wraps(leave)
    def _exit(status: int) -> NoReturn:
        refuse_if_watched("it ends the process")
        leave(status)

    return _exit


def _on_event(event: str, args: Any) -> None:
    if not _watch.is_on:
        return
    if event == "open":
        path, mode, flags = args
        # Files may be read twice. Imports of modules read files, too.
        if isinstance(flags, int) and not flags & 3 and (mode is None or not set(mode) & set("wax+")):
            return
        _refuse(f"I/O: open({path!r})" if isinstance(path, str) else "I/O: open")
    elif event in _EVENTS or event.startswith(_PREFIXES):
        _refuse(f"I/O: {event}")


def _refuse(reason: str) -> None:
    _watch.seen = reason
    raise NotVerifiable(reason)


def refuse_if_watched(reason: str) -> None:
    """If the run on copies is under way, end it before an act that cannot be undone."""
    if _watch.is_on:
        _refuse(reason)


class _NoInput(io.TextIOBase):
    def _refuse(self, *_: Any) -> Any:
        _refuse("I/O: standard input")

    read = readline = readlines = __next__ = fileno = _refuse


@contextlib.contextmanager
def kept_inside() -> Iterator[None]:
    """Raise `NotVerifiable` in the block if its code acts outside the process. Its output is dropped."""
    streams = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = _NoInput(), io.StringIO(), io.StringIO()
    _watch.seen = None
    _watch.is_on = True
    try:
        # Warnings are dropped, too. Afterwards they count as new again, so that the second run shows them.
        with warnings.catch_warnings(record=True):
            yield
    finally:
        _watch.is_on = False
        sys.stdin, sys.stdout, sys.stderr = streams
    if _watch.seen is not None:
        # The program may have caught the exception.
        raise NotVerifiable(_watch.seen)


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """Allow the tracer itself to write files in the block: these writes are no acts of the run that is undone."""
    before, _watch.is_on = _watch.is_on, False
    try:
        yield
    finally:
        _watch.is_on = before


class World:
    """The process state that programs change: random numbers, the default type, the grad mode, signal handlers."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = numpy.random.get_state()
        self._grad = paddle.is_grad_enabled()
        self._dtype = paddle.get_default_dtype()
        self._paddle = _paddle_random_state()
        self._names = dict(unique_name.generator.ids)
        self._parameters = set(_parameter_names())
        self._handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}

    def restore(self) -> None:
        """Set the state back. May be called several times."""
        random.setstate(self._python)
        numpy.random.set_state(self._numpy)
        paddle.set_grad_enabled(self._grad)
        if paddle.get_default_dtype() != self._dtype:
            paddle.set_default_dtype(self._dtype)
        _set_paddle_random_state(self._paddle)
        unique_name.generator.ids.clear()
        unique_name.generator.ids.update(self._names)
        _parameter_names().intersection_update(self._parameters)
        for number, handler in self._handlers.items():
            # A handler that was not set from Python is `None`, and cannot be set again.
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        # Drawing numbers changes the state object that was set.
        self._paddle = _paddle_random_state()


def _parameter_names() -> Set[str]:
    """Return Paddle's set of the names of parameters, in which a name may occur only once."""
    names: Set[str] = getattr(getattr(unique_name, "dygraph_parameter_name_checker", None), "_name_set", set())
    return names


def _paddle_random_state() -> List[Any]:
    state: List[Any] = paddle.get_rng_state()
    return state


def _set_paddle_random_state(state: List[Any]) -> None:
    paddle.set_rng_state(state)


def numbers_to_come() -> Any:
    """Return the numbers that would be drawn next, which identify the random states."""
    world = World()
    with paddle.no_grad():
        drawn = paddle.rand([2], dtype="float64").numpy().tolist()
    numbers = {"paddle": drawn, "numpy": numpy.random.random_sample(2).tolist(), "random": random.random()}
    world.restore()
    return numbers
