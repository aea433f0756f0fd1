"""Second backward passes: through a backward pass, which gives second gradients, or once more through the same graph. Paddle's
programs have neither. To a second gradient the backward pass of one is a constant, and what flows through it is left out without
a word; once it has run, its memory is freed or another run's.

A graph with gradients is therefore called operation by operation when it first runs, until a backward pass has come, and is a
program after that. Here the backward passes that keep the graph are looked at: graphs they go through by then stay as they are.
If one goes through a program, all graphs with gradients are called operation by operation from then on, and a second pass
through that program is an error.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, Sequence

import paddle
from paddle.autograd import PyLayer
from paddle.base import core

from . import _sot

_ERROR = (
    "sot: a second backward pass goes through a program, which Paddle cannot do. From now on sot calls graphs with gradients "
    "operation by operation instead: make the forward pass again and it works. To have it so from the start, make the second pass "
    "(create_graph=True or retain_graph=True) in the first training step, or set MIN_GRAPH_SIZE=1000000. "
    "(What paddle.jit.to_static makes with full_graph=True, and what has no_grad or auto_cast blocks inside a translated function, "
    "remain programs: leave them untranslated.)"
)

# How Paddle 3.3 and 3.0 call the gradient of a program.
_OF_PROGRAMS = ("Dy2StGradNode", "GradNodeBase")

# Addresses of gradient nodes. One that is gone may be another one's: then a graph is called one by one without need.
_noted: set[int] = set()
_taken: set[int] = set()
# What Paddle's core has for `backward` and for `grad`.
_run_backward: Optional[Callable[..., None]] = None
_run_partial_grad: Optional[Callable[..., list[Optional[paddle.Tensor]]]] = None


def watch() -> None:
    """Look at backward passes from here on, whatever starts them."""
    global _run_backward, _run_partial_grad
    if _run_backward is None:
        _run_backward, core.eager.run_backward = core.eager.run_backward, _backward
        _run_partial_grad, core.eager.run_partial_grad = core.eager.run_partial_grad, _grad


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

    def is_gone_through_again(self) -> bool:
        """Whether second passes may go through one of the results."""
        _noted.difference_update(self._nodes)
        return not _taken.isdisjoint(self._nodes)


def _backward(tensors: Sequence[paddle.Tensor], weights: Any, retain_graph: bool, *rest: Any) -> None:
    """In the place of `run_backward`."""
    assert _run_backward is not None
    if retain_graph:
        _look_at(tensors)
    try:
        _run_backward(tensors, weights, retain_graph, *rest)
    except RuntimeError as error:
        if _sot._second_passes_are_everywhere() and _look_at(tensors):
            raise RuntimeError(_ERROR) from error
        raise


def _grad(
    outputs: Sequence[paddle.Tensor],
    inputs: Sequence[paddle.Tensor],
    weights: Sequence[Optional[paddle.Tensor]],
    retain_graph: bool,
    create_graph: bool,
    *rest: Any,
) -> list[Optional[paddle.Tensor]]:
    """In the place of `run_partial_grad`."""
    assert _run_partial_grad is not None
    through_program = (retain_graph or create_graph) and _look_at(outputs)
    gradients = _run_partial_grad(outputs, inputs, weights, retain_graph, create_graph, *rest)
    if through_program and create_graph:
        _refuse_backward(gradients, [*outputs, *(weight for weight in weights if weight is not None)])
    return gradients


def _look_at(outputs: Sequence[paddle.Tensor]) -> bool:
    """Walk the backward pass of `outputs`, taking down the noted nodes in it; whether there is a program among them."""
    pending = [output.grad_fn for output in outputs if not output.stop_gradient]
    seen: set[int] = set()
    through_program = False
    while pending:
        node = pending.pop()
        if node is None or node.node_ptr() in seen:
            continue
        seen.add(node.node_ptr())
        through_program = through_program or node.name() in _OF_PROGRAMS
        pending.extend(node.next_functions)
    _taken.update(seen & _noted)
    if through_program:
        _sot._second_passes_everywhere()
    return through_program


def _refuse_backward(gradients: list[Optional[paddle.Tensor]], sources: Sequence[paddle.Tensor]) -> None:
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
