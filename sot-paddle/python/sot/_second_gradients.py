"""Second gradients, which Paddle's programs do not have: the backward pass of one is a constant to the next, and what flows
through it is left out without a word.

A graph with gradients is therefore called operation by operation when it first runs, until a backward pass has come, and is a
program after that. Here `paddle.grad(..., create_graph=True)` is looked at: graphs it goes through by then stay as they are. If it goes
through a program, its gradients are as right as ever, a backward pass through them is an error, and all graphs with gradients
are called operation by operation from then on.
"""

from __future__ import annotations

from typing import Any, Iterable, Optional

import paddle
from paddle.autograd import PyLayer
from paddle.base import core

from . import _sot

_ERROR = (
    "sot: a second gradient is taken through a program, which Paddle cannot do. From now on sot calls graphs with gradients "
    "operation by operation instead: make the forward pass again and it works. To have it so from the start, take second "
    "gradients in the first training step, or set MIN_GRAPH_SIZE=1000000. "
    "(What paddle.jit.to_static makes with full_graph=True, or calls in no_grad and auto_cast blocks inside a translated "
    "function, remain programs: leave them untranslated.)"
)

# How Paddle 3.3 and 3.0 call the gradient of a program.
_OF_PROGRAMS = ("Dy2StGradNode", "GradNodeBase")

# Addresses of gradient nodes. One that is gone may be another one's: then a graph is called one by one without need.
_noted: set[int] = set()
_taken: set[int] = set()
_paddles_own: Optional[Any] = None


def watch() -> None:
    """Look at `paddle.grad` from here on, whatever name it is called by."""
    global _paddles_own
    if _paddles_own is None:
        _paddles_own = core.eager.run_partial_grad
        core.eager.run_partial_grad = _run_partial_grad


class Trial:
    """The first runs of a graph, operation by operation: up to a backward pass, or to the third run if none comes."""

    def __init__(self) -> None:
        self._nodes: set[int] = set()
        self._runs = 0
        self._differentiated = False

    def note(self, results: Iterable[paddle.Tensor]) -> None:
        """Take down what to know the results of a run by."""
        self._runs += 1
        for result in results:
            if not result.stop_gradient and not result.is_leaf:
                self._nodes.add(result.grad_fn.node_ptr())
                result.register_hook(self._on_backward)
        _noted.update(self._nodes)

    def _on_backward(self, gradient: paddle.Tensor) -> None:
        self._differentiated = True

    def is_over(self) -> bool:
        """Whether it can be told how to run from here on."""
        return self._differentiated or self._runs >= 3

    def went_through(self) -> bool:
        """Whether second gradients may have been taken through one of the results."""
        _noted.difference_update(self._nodes)
        return not _taken.isdisjoint(self._nodes)


def _run_partial_grad(
    outputs: list[paddle.Tensor],
    inputs: list[paddle.Tensor],
    grad_outputs: list[Optional[paddle.Tensor]],
    retain_graph: bool,
    create_graph: bool,
    *rest: Any,
) -> list[Optional[paddle.Tensor]]:
    """In the place of the function in Paddle's core that `paddle.grad` calls."""
    assert _paddles_own is not None
    through_program = create_graph and _goes_through_program(outputs)
    gradients = _paddles_own(outputs, inputs, grad_outputs, retain_graph, create_graph, *rest)
    if through_program:
        _sot._second_gradients_everywhere()
        _refuse_backward(gradients, [*outputs, *(weight for weight in grad_outputs if weight is not None)])
    return gradients


def _goes_through_program(outputs: list[paddle.Tensor]) -> bool:
    """Walk the backward pass of `outputs`, taking down the noted nodes in it."""
    pending = [output.grad_fn for output in outputs if not output.stop_gradient]
    seen: set[int] = set()
    found = False
    while pending:
        node = pending.pop()
        if node is None or node.node_ptr() in seen:
            continue
        seen.add(node.node_ptr())
        found = found or node.name() in _OF_PROGRAMS
        pending.extend(node.next_functions)
    _taken.update(seen & _noted)
    return found


def _refuse_backward(gradients: list[Optional[paddle.Tensor]], sources: list[paddle.Tensor]) -> None:
    """Let a backward pass through one of the gradients, to anything the sources come from, be an error."""
    at = [index for index, gradient in enumerate(gradients) if gradient is not None and not gradient.stop_gradient]
    given = _Given([gradients[index] for index in at])
    for index, gradient in zip(at, _NotAgain.apply(given, *sources) if at else ()):
        gradients[index] = gradient


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
        raise RuntimeError(_ERROR)
