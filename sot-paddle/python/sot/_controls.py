"""Controls by the names that users of `torch.compile` know: the stance, and marks of sizes."""

from __future__ import annotations

import functools
import inspect
from types import TracebackType
from typing import Any, Callable, List, Optional, Type, TypeVar

import paddle

from . import _sot
from ._names import nearest

_F = TypeVar("_F", bound=Callable[..., Any])

STANCES = ("default", "eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile")


class set_stance:
    """Say what becomes of a call that no translation fits; of all threads, from now on.

    As a function: until another stance is taken. As a context manager or decorator: for the block, or for each call.

    - `"default"`: it is translated.
    - `"eager"`: nothing is translated, and no translation runs: the program's own code does.
    - `"eager_on_recompile"`: it runs in CPython. Translations that are there and fit are used.
    - `"fail_on_recompile"`: `sot.RecompileError`, which names the guards that failed.
    - `"eager_then_compile"`: the first call of each function runs in CPython, the second is translated; sizes of tensor
      arguments that differ between the two are left open.

    Args:
        stance: one of these names.

    Raises:
        ValueError: there is no such stance.
    """

    def __init__(self, stance: str) -> None:
        if stance not in STANCES:
            raise ValueError(f"sot.set_stance(): there is no stance {stance!r}{nearest(str(stance), STANCES)}")
        self.stance = stance
        # What to go back to: by `__exit__`, a stack, as the object may be entered again while it is entered.
        self._before: List[str] = [_sot._take_stance(stance)]
        self._is_entered = False

    def __enter__(self) -> None:
        if not self._is_entered:
            # The first time the stance has been taken already.
            self._is_entered = True
            _sot._take_stance(self.stance)
        else:
            self._before.append(_sot._take_stance(self.stance))

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        _sot._take_stance(self._before.pop())

    def __call__(self, function: _F) -> _F:
        # What is decorated is meant, and not what follows.
        _sot._take_stance(self._before.pop())
        stance = self.stance
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise TypeError("sot.set_stance() decorates functions; in a generator or coroutine use a `with` block")

        @functools.wraps(function)
        def with_stance(*args: Any, **kwargs: Any) -> Any:
            before = _sot._take_stance(stance)
            try:
                return function(*args, **kwargs)
            finally:
                _sot._take_stance(before)

        return with_stance  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"<sot.set_stance({self.stance!r})>"


def mark_dynamic(t: paddle.Tensor, dim: int, *, min: Optional[int] = None, max: Optional[int] = None) -> None:
    """Leave the size of a dimension open from the first translation on that is given this tensor.

    One translation then serves all sizes from 2 on, or from `min` to `max`. A tensor of a size beyond is translated for
    anew. Where the program needs the size itself, it is assumed all the same. The mark belongs to the tensor object and
    is not handed on to results.

    Args:
        t: a tensor that is passed to translated code; no parameter, as sizes of parameters are always assumed.
        dim: the dimension; below zero it counts from the end.
        min: the least size that the translation is for.
        max: the greatest size that the translation is for.

    Raises:
        TypeError: `t` is no tensor, or a number is no `int`.
        ValueError: a parameter, or a size that is not from `min` to `max`.
        IndexError: there is no such dimension.
    """
    axis = _axis(t, dim, "mark_dynamic")
    for name, bound in (("min", min), ("max", max)):
        if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool)):
            raise TypeError(f"sot.mark_dynamic(): {name} is an int or None, not {bound!r}")
    least, most = (0 if min is None else min), (_GREATEST if max is None else max)
    size = t.shape[axis]
    if not least <= size <= most:
        raise ValueError(
            f"sot.mark_dynamic(): the size of dimension {dim} is {size}, which is not from min={min} to max={max}"
        )
    if isinstance(t, _parameter_types()):
        raise ValueError("sot.mark_dynamic(): the sizes of a parameter are always assumed")
    _marks(t, _STATIC, [other for other in _marked(t, _STATIC) if other != axis])
    _marks(t, _DYNAMIC, sorted({*_marked(t, _DYNAMIC), axis}))
    ranges = [found for found in _marked(t, _RANGES) if found[0] != axis]
    if (min, max) != (None, None):
        ranges.append((axis, least, most))
    _marks(t, _RANGES, ranges)


def mark_static(t: paddle.Tensor, dim: Optional[int] = None) -> None:
    """Assume the size of a dimension, or of all: another size is another translation, however often it differs.

    Args:
        t: a tensor that is passed to translated code.
        dim: the dimension; below zero it counts from the end; `None` means all.

    Raises:
        TypeError: `t` is no tensor, or `dim` no `int`.
        IndexError: there is no such dimension.
    """
    if dim is None:
        _of_tensor(t, "mark_static")
        axes = set(range(len(t.shape)))
    else:
        axes = {_axis(t, dim, "mark_static")}
    _marks(t, _DYNAMIC, [other for other in _marked(t, _DYNAMIC) if other not in axes])
    _marks(t, _RANGES, [found for found in _marked(t, _RANGES) if found[0] not in axes])
    _marks(t, _STATIC, sorted({*_marked(t, _STATIC), *axes}))


# Paddle's own name, which `paddle.jit.marker.dynamic_dims` sets.
_DYNAMIC = "__sot_dynamic_dims"
_STATIC = "__sot_static_dims"
_RANGES = "__sot_dim_ranges"
_GREATEST = 2**63 - 1


def _marked(t: paddle.Tensor, name: str) -> List[Any]:
    return list(getattr(t, name, ()))


def _marks(t: paddle.Tensor, name: str, marks: List[Any]) -> None:
    if marks or hasattr(t, name):
        setattr(t, name, tuple(marks))


def _of_tensor(t: Any, function: str) -> None:
    if not isinstance(t, paddle.Tensor):
        raise TypeError(f"sot.{function}() takes a paddle.Tensor, not {type(t).__name__}")


def _axis(t: paddle.Tensor, dim: int, function: str) -> int:
    _of_tensor(t, function)
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise TypeError(f"sot.{function}(): dim is an int, not {dim!r}")
    rank = len(t.shape)
    if not -rank <= dim < rank:
        raise IndexError(f"sot.{function}(): a tensor with {rank} dimensions has no dimension {dim}")
    return dim % rank


def _parameter_types() -> Any:
    return paddle.base.framework.EagerParamBase
