"""Marks on sizes of Paddle's tensors, with the names that users of `torch.compile` know."""

from __future__ import annotations

import reprlib
from typing import Any, List, Optional, Sequence, Union

import paddle


def mark_dynamic(t: paddle.Tensor, dim: Union[int, Sequence[int]], *, min: Optional[int] = None, max: Optional[int] = None) -> None:
    """Leave the size of a dimension open, from the first translation that is given this tensor.

    One translation then serves all sizes from 2 on, or from `min` to `max`. A tensor with another size gets another
    translation. If the program needs the number itself, the translation specialises on it all the same. The mark
    belongs to the tensor object, and is not passed on to results.


    Args:
        t: a tensor that is passed to translated code, but no parameter: translations specialise on sizes of
        parameters.
        dim: the dimension, or several. A negative number counts from the end.
        min: the smallest size that the translation serves.
        max: the largest size that the translation serves.

    Raises:
        TypeError: `t` is no tensor, or `dim`, `min` or `max` is no `int`.
        ValueError: `t` is a parameter, or its size is not from `min` to `max`.
        IndexError: `t` has no such dimension.
    """
    if isinstance(dim, (list, tuple)):
        for one in dim:
            mark_dynamic(t, one, min=min, max=max)
        return
    axis = _axis(t, dim, "mark_dynamic")
    for name, bound in (("min", min), ("max", max)):
        if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool)):
            raise TypeError(f"sot.mark_dynamic(): {name} is an int or None, not {bound!r}")
    least, most = (0 if min is None else min), (_GREATEST if max is None else max)
    size = t.shape[axis]
    if least > most:
        raise ValueError(f"sot.mark_dynamic(): min={min} is greater than max={max}")
    if not least <= size <= most:
        wrong = f"less than min={min}" if size < least else f"greater than max={max}"
        raise ValueError(f"sot.mark_dynamic(): the size of dimension {dim} is {size}, which is {wrong}")
    if isinstance(t, _parameter_types()):
        raise ValueError("sot.mark_dynamic(): the sizes of a parameter are always assumed")
    _marks(t, _STATIC, [other for other in _marked(t, _STATIC) if other != axis])
    _marks(t, _DYNAMIC, sorted({*_marked(t, _DYNAMIC), axis}))
    ranges = [found for found in _marked(t, _RANGES) if found[0] != axis]
    if (min, max) != (None, None):
        ranges.append((axis, least, most))
    _marks(t, _RANGES, ranges)


def mark_static(t: paddle.Tensor, dim: Union[int, Sequence[int], None] = None) -> None:
    """Specialise on the size of a dimension, or of all: each other size is another translation, however often sizes
    differ.

    Args:
        t: a tensor that is passed to translated code.
        dim: the dimension, or several; `None` means all. A negative number counts from the end.

    Raises:
        TypeError: `t` is no tensor, or `dim` is no `int`.
        IndexError: `t` has no such dimension.
    """
    if dim is None:
        _of_tensor(t, "mark_static")
        axes = set(range(len(t.shape)))
    elif isinstance(dim, (list, tuple)):
        axes = {_axis(t, one, "mark_static") for one in dim}
    else:
        axes = {_axis(t, dim, "mark_static")}
    _marks(t, _DYNAMIC, [other for other in _marked(t, _DYNAMIC) if other not in axes])
    _marks(t, _RANGES, [found for found in _marked(t, _RANGES) if found[0] not in axes])
    _marks(t, _STATIC, sorted({*_marked(t, _STATIC), *axes}))


# Paddle's own attribute, which `paddle.jit.marker.dynamic_dims` sets.
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
        raise TypeError(f"sot.{function}() takes a paddle.Tensor, not {type(t).__name__}: t is {reprlib.repr(t)}")


def _axis(t: paddle.Tensor, dim: Any, function: str) -> int:
    _of_tensor(t, function)
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise TypeError(f"sot.{function}(): dim is an int or a list of them, not {dim!r}")
    rank = len(t.shape)
    if not -rank <= dim < rank:
        has = f"they are {-rank} to {rank - 1}" if rank else "it has none"
        raise IndexError(f"sot.{function}(): a tensor with {rank} dimensions has no dimension {dim}; {has}")
    return dim % rank


def _parameter_types() -> Any:
    return paddle.base.framework.EagerParamBase
