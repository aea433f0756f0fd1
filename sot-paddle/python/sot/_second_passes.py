"""What makes a backward pass through gradients that come from a program an error: Paddle would leave out what flows through that
program (`sot-paddle/src/backend/second_passes.rs`)."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import paddle
from paddle.autograd import PyLayer

from . import _sot


def refuse_backward(
    gradients: list[Optional[paddle.Tensor]], outputs: Sequence[paddle.Tensor], weights: Sequence[Optional[paddle.Tensor]]
) -> list[Optional[paddle.Tensor]]:
    """The gradients, of which none can be gone through to anything that the outputs or their weights come from."""
    sources = [*outputs, *(weight for weight in weights if weight is not None)]
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
