"""The stance: what happens to calls that no translation fits."""

from __future__ import annotations

import functools
import inspect
from types import TracebackType
from typing import Any, Callable, List, Optional, Type, TypeVar

from . import _sot
from ._names import nearest
from ._registration import shown_as

_F = TypeVar("_F", bound=Callable[..., Any])

# Names of stances in `torch.compiler.set_stance` that differ from ours.
_OTHER_NAMES = {"force_eager": "eager"}
STANCES = ("default", "eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile")


class set_stance:
    """Say what happens to a call that no translation fits. Holds for all threads, from now on.

    Called as a function, it holds until another stance is set. As a context manager it holds for the block, as a
    decorator for each call of the function.

    - `"default"`: the call is translated.
    - `"eager"`, also `"force_eager"`: nothing is translated, and no translation runs. The program's own code runs.
    - `"eager_on_recompile"`: the call runs in CPython. Existing translations that fit are used.
    - `"fail_on_recompile"`: the call raises `sot.RecompileError`, which names the guards that failed.
    - `"eager_then_compile"`: the first call of each function runs in CPython, the second is translated. Sizes of
      tensor arguments that differ between the two calls are left open.

    Args:
        stance: one of these names.

    Raises:
        ValueError: there is no such stance.
        TypeError: `stance` is no text.
    """

    def __init__(self, stance: str) -> None:
        if not isinstance(stance, str):
            raise TypeError(f"{__package__}.set_stance(): stance is one of {', '.join(map(repr, STANCES))}, not {shown_as(stance)}")
        stance = _OTHER_NAMES.get(stance, stance)
        if stance not in STANCES:
            raise ValueError(f"{__package__}.set_stance(): there is no stance {shown_as(stance)}{nearest(stance, STANCES)}")
        self.stance = stance
        # The stances that `__exit__` goes back to: a stack, because the object may be entered again while it is
        # entered.
        self._before: List[str] = [_sot._take_stance(stance)]
        # True until the object is entered or decorates a function: `__init__` has taken the stance for this use.
        self._is_new = True

    def __enter__(self) -> None:
        if self._is_new:
            self._is_new = False
            _sot._take_stance(self.stance)
        else:
            self._before.append(_sot._take_stance(self.stance))

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        _sot._take_stance(self._before.pop())

    def __call__(self, function: _F) -> _F:
        # The stance holds for the decorated function, not for the code that follows: undo what `__init__` did.
        if self._is_new:
            self._is_new = False
            _sot._take_stance(self._before.pop())
        stance = self.stance
        wrong = _not_decorated(function)
        if wrong is not None:
            raise TypeError(f"{__package__}.set_stance() decorates functions and methods; {wrong}")
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise TypeError(f"{__package__}.set_stance() decorates functions; in a generator or coroutine use a `with` block")

        @functools.wraps(function)
        def with_stance(*args: Any, **kwargs: Any) -> Any:
            before = _sot._take_stance(stance)
            try:
                return function(*args, **kwargs)
            finally:
                _sot._take_stance(before)

        return with_stance  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"<{__package__}.set_stance({self.stance!r})>"


def _not_decorated(object: Any) -> Optional[str]:
    """Return why a stance does not decorate an object; `None` if it does."""
    if isinstance(object, (staticmethod, classmethod, property)):
        name = type(object).__name__
        return f"{shown_as(object)} is a {name}: put @{name} above"
    if isinstance(object, type):
        return f"{shown_as(object)} is a class: decorate its methods"
    if not callable(object):
        return f"{shown_as(object)} is neither"
    # A wrapper would hide what else the object has, such as the parameters of a model.
    if not isinstance(object, (functools.partial, _sot.Translated)) and not hasattr(object, "__name__"):
        return f"{shown_as(object)} is another callable: call it in a `with` block"
    return None
