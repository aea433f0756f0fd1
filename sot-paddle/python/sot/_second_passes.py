"""Second backward passes where a program stands in the way (`sot-paddle/src/backend/second_passes`).

To a second gradient the backward pass of a program is a constant. So where gradients that are to have gradients come through programs,
they are made anew: up to the programs, and from there through their statements, called one by one, the latest program first.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np
import paddle
from paddle.autograd import PyLayer

from . import _sot

Gradients = List[Optional[paddle.Tensor]]
# The number of a run (greater for later ones), what calls its statements again, a result's index, the gradient that came to it.
Met = Tuple[int, Callable[[], Optional[Dict[int, paddle.Tensor]]], int, paddle.Tensor]


class _NotTheSame(Exception):
    """What a program did cannot be done again."""


def copy(inputs: Iterable[paddle.Tensor], parameters: Iterable[paddle.Tensor], copies: Dict[int, paddle.Tensor]) -> None:
    """Copies those tensors, by identity, of which there is no copy yet."""
    for tensor in (*inputs, *parameters):
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor.detach().clone()


def again(
    work: Callable[[], Any],
    inputs: Iterable[paddle.Tensor],
    parameters: Iterable[paddle.Tensor],
    copies: Dict[int, paddle.Tensor],
) -> Any:
    """What `work` gives. `None` if the tensors are no longer what they were, or if it writes to them or draws random numbers:
    then it leaves those as they were."""

    def changed() -> list[paddle.Tensor]:
        return [tensor for tensor in tensors if tensor.numpy().tobytes() != copies[id(tensor)].numpy().tobytes()]

    tensors = [*inputs, *parameters]
    if changed():
        return None
    random_state = paddle.get_rng_state()
    results = work()
    draws = _next_numbers() != _next_numbers(random_state)
    paddle.set_rng_state(random_state)
    written = changed()
    for tensor in written:
        tensor.set_value(copies[id(tensor)])
    return None if draws or written else results


def _next_numbers(state: Any = None) -> list[float]:
    if state is not None:
        paddle.set_rng_state(state)
    return paddle.rand([4]).tolist()


def nought(gradient: Optional[paddle.Tensor]) -> Optional[paddle.Tensor]:
    """What goes on from a program in the place of a gradient."""
    return None if _is_undefined(gradient) else paddle.zeros_like(gradient).detach()


def varying(gradient: Optional[paddle.Tensor]) -> Optional[paddle.Tensor]:
    """The gradient, not as a constant."""
    if not _is_undefined(gradient) and gradient.stop_gradient:
        gradient = gradient.detach()
        gradient.stop_gradient = False
    return gradient


def _is_undefined(gradient: Optional[paddle.Tensor]) -> bool:
    return gradient is None or not gradient._is_initialized()


def differentiable(
    up_to_programs: Callable[..., Tuple[Gradients, List[Met]]],
    arguments: Tuple[Sequence[paddle.Tensor], Sequence[paddle.Tensor], Sequence[Optional[paddle.Tensor]]],
    gradients: Gradients,
) -> Gradients:
    """The gradients, with gradients of their own. If that cannot be, none can be gone through to anything that the outputs or their
    weights come from. `up_to_programs` is like `paddle.grad`, and gives in addition what comes to programs, which goes no further."""
    outputs, inputs, weights = arguments
    try:
        made = _through_statements(up_to_programs, outputs, inputs, weights)
        return [None if known is None else _checked(known, found) for known, found in zip(gradients, made)]
    except _NotTheSame:
        return _refuse_backward(gradients, [*outputs, *(weight for weight in weights if weight is not None)])


def _through_statements(
    up_to_programs: Callable[..., Tuple[Gradients, List[Met]]],
    outputs: Sequence[paddle.Tensor],
    inputs: Sequence[paddle.Tensor],
    weights: Sequence[Optional[paddle.Tensor]],
) -> Gradients:
    # Of each run that is still to come, what calls its statements, and by result the gradient that came to it.
    pending: Dict[int, Tuple[Callable[[], Any], Dict[int, paddle.Tensor]]] = {}
    sums: Gradients = [None] * len(inputs)
    while True:
        parts, met = up_to_programs(outputs, inputs, weights)
        sums = [_sum(so_far, part) for so_far, part in zip(sums, parts)]
        for number, call, at, gradient in met:
            came = pending.setdefault(number, (call, {}))[1]
            came[at] = _sum(came.get(at), gradient)
        if not pending:
            return sums
        call, came = pending.pop(max(pending))
        came = {at: gradient for at, gradient in came.items() if gradient is not None}
        results = call()
        if results is None or any(at not in results or results[at].stop_gradient for at in came):
            raise _NotTheSame
        outputs, weights = [results[at] for at in came], [varying(gradient) for gradient in came.values()]


def _sum(one: Optional[paddle.Tensor], other: Optional[paddle.Tensor]) -> Optional[paddle.Tensor]:
    if _is_undefined(one) or _is_undefined(other):
        return other if _is_undefined(one) else one
    return one + other


def _checked(known: paddle.Tensor, found: Optional[paddle.Tensor]) -> paddle.Tensor:
    """What was found, if it has the values that are known."""
    if found is None:
        raise _NotTheSame
    wide = "complex128" if known.is_complex() else "float64"
    expected, actual = (tensor.detach().cast(wide).numpy() for tensor in (known, found))
    tolerance = 1e-2 if known.element_size() < 4 else 1e-4
    if not np.allclose(actual, expected, tolerance, tolerance * np.abs(expected).max(initial=0), equal_nan=True):
        raise _NotTheSame
    return found


def _refuse_backward(gradients: Gradients, sources: Sequence[paddle.Tensor]) -> Gradients:
    """The gradients, of which none can be gone through to anything that comes from `sources`."""
    at = [index for index, gradient in enumerate(gradients) if gradient is not None and not gradient.stop_gradient]
    given = _Given([gradients[index] for index in at])
    for index, gradient in zip(at, _NotAgain.apply(given, *sources) if at else ()):
        gradients[index] = gradient
    return gradients


class _Given:
    """Keeps tensors from being arguments to Paddle's eyes, whose history would count."""

    def __init__(self, tensors: list[paddle.Tensor]) -> None:
        self.tensors = tensors


class _NotAgain(PyLayer):
    """Its tensors as they are, without a gradient."""

    @staticmethod
    def forward(ctx: Any, given: _Given, *sources: paddle.Tensor) -> tuple[paddle.Tensor, ...]:
        return tuple(tensor.detach() for tensor in given.tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: paddle.Tensor) -> Any:
        _sot._refuse_pass()
