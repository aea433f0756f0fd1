"""Verify mode (`SOT_VERIFY=1`): runs each call of a translated function twice, natively and translated, and compares.

The program's own run comes first. It gets the program's objects, with copies of the tensors in their places. Its
writes are taken back before the translated run, whose result the program gets. `state` walks objects, `snapshot` and
`writes` take writes back, `image` records what a run left behind, and `outside` keeps the first run from doing what
cannot be taken back.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import types
from typing import Any, Dict, Iterator, List, Optional, Tuple

from paddle import distributed

from .. import _sot
from . import loaders
from .image import Difference, Image, first_difference, gradient_difference, gradients
from .outside import NotVerifiable, World, is_apart, kept_inside, keep_watch
from .snapshot import Snapshot
from .tell import tell

__all__ = ["switch"]

_is_on = False


def switch(on: bool) -> None:
    """Switch verify mode on or off."""
    global _is_on
    if on == _is_on:
        return
    _is_on = on
    if on:
        keep_watch()
        loaders.set_up()
        # The details that a report of a difference shows are collected during translation.
        _sot.report_details(True)
    _sot._set_verifier(_code_for if on else None)


def _code_for(
    code: types.CodeType,
    namespace: Dict[str, Any],
    function: Optional[types.FunctionType],
    cells: Tuple[Any, ...],
    slots: List[Any],
) -> Optional[types.CodeType]:
    """Return the code to run in the place of a frame: one call, which runs the frame's function twice."""
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None
    if function is None:
        function = types.FunctionType(code, namespace, code.co_name, None, cells)
    names = ", ".join(f"a{index}" for index in range(len(slots)))
    scope: Dict[str, Any] = {}
    exec(f"def frame({names}):\n    return {_CALL!r}.run()", scope)
    stub: types.CodeType = scope["frame"].__code__
    call = _Call(function, slots)
    # The call is a constant of the code, so that no name of the program can affect it.
    constants: Any = tuple(call if constant == _CALL else constant for constant in stub.co_consts)
    # Tracebacks show the stub as part of verify mode, above the program's own frame.
    return stub.replace(co_consts=constants, co_name=code.co_name, co_filename=__file__)


_CALL = "the call that is verified"


class _Call:
    """One call of a function, with its arguments in the order of the parameters."""

    def __init__(self, function: types.FunctionType, slots: List[Any]) -> None:
        self.function = function
        code = function.__code__
        self.roots: Dict[str, Any] = dict(zip(code.co_varnames, slots))
        positional, named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        self.args = tuple(slots[:positional])
        self.kwargs = dict(zip(code.co_varnames[positional:named], slots[positional:named]))
        if code.co_flags & inspect.CO_VARARGS:
            self.args += tuple(slots[named])
        if code.co_flags & inspect.CO_VARKEYWORDS:
            self.kwargs.update(slots[-1])
        self.roots[""] = function
        self._gradients: Dict[str, Any] = {}

    def run(self) -> Any:
        """Run the call twice, count and report the comparison, and return or raise what the translated run did."""
        try:
            return self._run_both()
        finally:
            loaders.gate.release()

    def _run_both(self) -> Any:
        try:
            with _quiet():
                before, world = self._begin()
                expected = self._original(before, world)
        except NotVerifiable as reason:
            loaders.gate.release()
            _sot._count_verified(False, str(reason))
            return _sot._call_verified(self.function, *self.args, **self.kwargs)
        difference = self._gradient_difference(before, world)
        call = _sot._call_uncounted if self._gradients else _sot._call_verified
        outcome: _Outcome = _Outcome.of(lambda: call(self.function, *self.args, **self.kwargs))
        try:
            if isinstance(outcome.error, (_sot.GraphBreakError, _sot.RecompileError)):
                raise NotVerifiable(f"the tracer raises {type(outcome.error).__name__}, as it was asked to")
            if loaders.gate.was_left:
                raise NotVerifiable("I/O: a DataLoader is read")
            with _quiet():
                actual = Image(self.roots, outcome.value, outcome.error)
                difference = first_difference(expected, actual) or difference
                if difference is not None and not self._is_repeatable(before, world, outcome, expected):
                    raise NotVerifiable("two runs of the program itself differ")
            _sot._count_verified(difference is not None, None)
        except NotVerifiable as reason:
            difference = None
            _sot._count_verified(False, str(reason))
        except Exception as error:
            difference = None
            _sot._count_verified(False, f"verify mode failed: {type(error).__name__}: {error}")
        if difference is not None:
            tell(self.function, difference)
        return outcome.take()

    def _begin(self) -> Tuple[Snapshot, World]:
        waiting = loaders.threads() | {threading.current_thread()}
        if any(not is_apart(thread) for thread in threading.enumerate() if thread not in waiting):
            raise NotVerifiable("other threads run")
        if distributed.is_initialized() and distributed.get_world_size() > 1:
            raise NotVerifiable("other processes take part")
        if not loaders.gate.hold():
            loaders.forget()
            raise NotVerifiable("other threads run")
        try:
            return Snapshot(self.roots), World()
        except Exception as error:
            raise NotVerifiable(f"verify mode failed: {type(error).__name__}: {error}") from error

    def _original(self, before: Snapshot, world: World) -> Image:
        """Run the program's own function on copies, and return the image of the run. All its writes are undone."""
        try:
            inputs = before.put_copies()
            args, kwargs = before.copied(self.args), {name: before.copied(kwarg) for name, kwarg in self.kwargs.items()}
            roots = {name: before.copied(root) for name, root in self.roots.items()}
            with kept_inside(), before.backward.noting_partial_passes():
                outcome = _Outcome.of(lambda: self.function(*args, **kwargs))
            if before.backward.went_beyond:
                raise NotVerifiable("backward goes beyond the call")
            image = Image(roots, outcome.value, outcome.error)
            self._gradients = {}
            if outcome.error is None and not before.backward.ran and not before.writes_with_gradients():
                with contextlib.suppress(Exception):
                    self._gradients = gradients(outcome.value, inputs)
                if before.writes_with_gradients():
                    # Computing gradients writes `.grad` if recomputed parts have a backward pass of their own.
                    self._gradients = {}
            return image
        except Exception as error:
            raise NotVerifiable(f"verify mode failed: {type(error).__name__}: {error}") from error
        finally:
            before.restore()
            world.restore()

    def _gradient_difference(self, before: Snapshot, world: World) -> Optional[Difference]:
        """Return where the gradients of the translated run differ. The gradients come from an additional run that is
        undone, because computing gradients uses up the graph of a run."""
        expected = self._gradients
        if not expected:
            return None
        try:
            with kept_inside():
                result = _sot._call_rehearsed(self.function, *self.args, **self.kwargs)
            with _quiet():
                return gradient_difference(expected, gradients(result, before.inputs()))
        except (NotVerifiable, Exception):
            # An error in the additional run also shows in the run that is kept.
            return None
        finally:
            with _quiet():
                before.restore()
                before.restore_tensors()
                world.restore()

    def _is_repeatable(self, before: Snapshot, world: World, outcome: _Outcome, expected: Image) -> bool:
        """Return whether a second run of the program itself does the same as the first one."""
        now, world_now = Snapshot({**self.roots, "result": outcome.value}, strict=False), World()
        before.restore()
        world.restore()
        try:
            return first_difference(expected, self._original(before, world)) is None
        finally:
            now.restore()
            world_now.restore()


class _Outcome:
    """The return value or the exception of a call."""

    def __init__(self, value: Any, error: Optional[BaseException]) -> None:
        self.value = value
        self.error = error

    @classmethod
    def of(cls, call: Any) -> _Outcome:
        try:
            return cls(call(), None)
        except NotVerifiable:
            raise
        except BaseException as error:
            return cls(None, error)

    def take(self) -> Any:
        """Return the value, or raise the exception."""
        if self.error is None:
            return self.value
        try:
            raise self.error
        finally:
            self.error = None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Translate nothing in this thread, not even in calls of translated functions."""
    with _sot.DisabledBlock(True):
        yield
