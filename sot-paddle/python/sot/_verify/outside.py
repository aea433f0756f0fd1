"""What a run must not do if it is to be taken back, and what of the process a run changes, such as the random state."""

from __future__ import annotations

import contextlib
import io
import random
import signal
import sys
import threading
import warnings
from typing import Any, Iterator, List, Optional, Set

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


# Packages whose threads look at nothing of the program's: those of a notebook's kernel, of progress bars, and of writers of
# events, which have them as bytes.
_APART = frozenset({"ipykernel", "IPython", "tensorboard", "tensorboardX", "tornado", "tqdm", "visualdl", "zmq"})


def is_apart(thread: threading.Thread) -> bool:
    """Whether a thread is of a package that looks at nothing of the program's."""
    # What a thread runs is its class's method, or a function that it was given.
    defined = [getattr(type(thread), "run", None), getattr(thread, "_target", None)]
    modules = [getattr(function, "__module__", None) for function in defined]
    return any(isinstance(module, str) and module.partition(".")[0] in _APART for module in modules)


class NotVerifiable(BaseException):
    """Why a call cannot be run twice; ends the run that is taken back."""


class _Watch(threading.local):
    is_on = False
    seen: Optional[str] = None


_watch = _Watch()
_is_hooked = False


def keep_watch() -> None:
    """Have the interpreter tell of what reaches outside; it cannot be told to stop."""
    global _is_hooked
    if not _is_hooked:
        _is_hooked = True
        sys.addaudithook(_on_event)


def _on_event(event: str, args: Any) -> None:
    if not _watch.is_on:
        return
    if event == "open":
        path, mode, flags = args
        # Reading may be done twice: modules are imported so.
        if isinstance(flags, int) and not flags & 3 and (mode is None or not set(mode) & set("wax+")):
            return
        _refuse(f"I/O: open({path!r})" if isinstance(path, str) else "I/O: open")
    elif event in _EVENTS or event.startswith(_PREFIXES):
        _refuse(f"I/O: {event}")


def _refuse(reason: str) -> None:
    _watch.seen = reason
    raise NotVerifiable(reason)


def refuse_if_watched(reason: str) -> None:
    """What cannot be taken back is about to happen: ends the run that is to be."""
    if _watch.is_on:
        _refuse(reason)


class _NoInput(io.TextIOBase):
    def _refuse(self, *_: Any) -> Any:
        _refuse("I/O: standard input")

    read = readline = readlines = __next__ = fileno = _refuse


@contextlib.contextmanager
def kept_inside() -> Iterator[None]:
    """What runs in here and reaches outside ends with `NotVerifiable`; what it prints is lost."""
    streams = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = _NoInput(), io.StringIO(), io.StringIO()
    _watch.seen = None
    _watch.is_on = True
    try:
        # Warnings are lost, too. The end of this makes them new again, so that the second run shows them.
        with warnings.catch_warnings(record=True):
            yield
    finally:
        _watch.is_on = False
        sys.stdin, sys.stdout, sys.stderr = streams
    if _watch.seen is not None:
        # The program may have caught it.
        raise NotVerifiable(_watch.seen)


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """What the tracer itself writes is no act of the run that is taken back."""
    before, _watch.is_on = _watch.is_on, False
    try:
        yield
    finally:
        _watch.is_on = before


class World:
    """What programs change of the process: random numbers, the default type, the grad mode, handlers of signals."""

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
        """Set it back; as often as is needed."""
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
            # There is no handler to set where it is none of Python's.
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        # Drawing changes what was set.
        self._paddle = _paddle_random_state()


def _parameter_names() -> Set[str]:
    """The names of parameters, of which Paddle allows none twice."""
    names: Set[str] = getattr(getattr(unique_name, "dygraph_parameter_name_checker", None), "_name_set", set())
    return names


def _paddle_random_state() -> List[Any]:
    state: List[Any] = paddle.get_rng_state()
    return state


def _set_paddle_random_state(state: List[Any]) -> None:
    paddle.set_rng_state(state)


def numbers_to_come() -> Any:
    """What tells random states apart: the numbers that would be drawn next."""
    world = World()
    with paddle.no_grad():
        drawn = paddle.rand([2], dtype="float64").numpy().tolist()
    numbers = {"paddle": drawn, "numpy": numpy.random.random_sample(2).tolist(), "random": random.random()}
    world.restore()
    return numbers
