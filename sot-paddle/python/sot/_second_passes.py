"""Second backward passes: through a backward pass, which gives second gradients, or once more through the same graph. Paddle's
programs have neither. To a second gradient the backward pass of one is a constant, and what flows through it is left out without
a word; once it has run, its memory is freed or another run's. A program is one node of the backward pass: two passes through results that
have nothing in common, and that eager mode keeps apart, are a second pass to it.

A graph with gradients is therefore called operation by operation when it first runs, until a backward pass has come, and is a
program after that. Hooks on the results of each run tell which passes go through it: graphs that two go through by then, or one that keeps
the graph for another, stay as they are. Where a program is gone through again, that is an error, and all graphs with gradients are
called operation by operation from then on.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence

import paddle
from paddle.autograd import PyLayer
from paddle.base import core

from . import _sot

_ERROR = (
    "sot: a second backward pass goes through a program, which Paddle cannot do. From now on sot calls graphs with gradients "
    "operation by operation instead: make the forward pass again and it works. To have it so from the start, make the second pass "
    "(create_graph=True, retain_graph=True, or through another result of the same function) in the first training step, or set "
    "MIN_GRAPH_SIZE=1000000. (Where a call is given what is neither a tensor nor a constant, the graph remains a program: leave such "
    "functions untranslated.)"
)

# What Paddle says where a second `backward` comes to a program, before any hook: in 3.3, and in 3.0.
_GONE_THROUGH = ("TensorWrappers of Dy2StGradNode do not exist", "TensorWrappers of GradNodeBase do not exist")

# What Paddle's core has for `backward` and for `grad`.
_run_backward: Optional[Callable[..., None]] = None
_run_partial_grad: Optional[Callable[..., list[Optional[paddle.Tensor]]]] = None


class _Running(threading.local):
    """The backward passes that are running in a thread, the innermost last."""

    def __init__(self) -> None:
        self.passes: list[_Pass] = []


class _Pass:
    """One backward pass."""

    def __init__(self, keeps: bool) -> None:
        # Whether it keeps the graph for another one.
        self.keeps = keeps
        # Whether it went through a program, or was stopped before it.
        self.through_program = False
        self.stopped = False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While it runs. There are others inside of it where recomputed parts and Python's own gradients ask for them."""
        _running.passes.append(self)
        try:
            yield
        except Exception as error:
            self.stopped = self.stopped or any(text in str(error) for text in _GONE_THROUGH)
            if self.stopped:
                raise RuntimeError(_ERROR) from error
            raise
        finally:
            _running.passes.pop()
            if self.stopped or (self.through_program and self.keeps):
                _sot._second_passes_everywhere()


_running = _Running()


def watch() -> None:
    """Look at backward passes from here on, whatever starts them."""
    global _run_backward, _run_partial_grad
    if _run_backward is None:
        _run_backward, core.eager.run_backward = core.eager.run_backward, _backward
        _run_partial_grad, core.eager.run_partial_grad = core.eager.run_partial_grad, _grad


def _backward(tensors: Sequence[paddle.Tensor], weights: Any, retain_graph: bool, *rest: Any) -> None:
    """In the place of `run_backward`."""
    assert _run_backward is not None
    with _Pass(retain_graph).running():
        _run_backward(tensors, weights, retain_graph, *rest)


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
    this = _Pass(retain_graph or create_graph)
    with this.running():
        gradients = _run_partial_grad(outputs, inputs, weights, retain_graph, create_graph, *rest)
    if this.through_program and create_graph:
        _refuse_backward(gradients, [*outputs, *(weight for weight in weights if weight is not None)])
    return gradients


class Trial:
    """The first runs of a graph, operation by operation: up to a backward pass, or to the third run if none comes."""

    def __init__(self) -> None:
        # Of each run, the backward passes that have gone through it.
        self._runs: list[set[Optional[_Pass]]] = []

    def note(self, results: Iterable[paddle.Tensor]) -> None:
        """Take down what goes through the results of a run."""
        passes: set[Optional[_Pass]] = set()
        self._runs.append(passes)
        _hook(results, passes.add)

    def is_over(self) -> bool:
        """Whether it can be told how to run from here on."""
        return any(self._runs) or len(self._runs) >= 3

    def is_gone_through_again(self) -> bool:
        """Whether second passes may go through one of the runs."""
        return any(len(passes) > 1 or any(one and one.keeps for one in passes) for passes in self._runs)


def note_run(results: Iterable[paddle.Tensor]) -> None:
    """Let only one backward pass go through a run of a program."""
    first: list[Optional[_Pass]] = []

    def on_pass(this: Optional[_Pass]) -> None:
        if this is not None:
            this.through_program = True
        if not first:
            first.append(this)
        elif this is not first[0]:
            if this is not None:
                this.stopped = True
            raise RuntimeError(_ERROR)

    _hook(results, on_pass)


def _hook(results: Iterable[paddle.Tensor], on_pass: Callable[[Optional[_Pass]], None]) -> None:
    """Call `on_pass` whenever a backward pass comes to one of the results."""

    def hook(gradient: paddle.Tensor) -> None:
        on_pass(_running.passes[-1] if _running.passes else None)

    for result in results:
        if not result.stop_gradient and not result.is_leaf:
            result.register_hook(hook)


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
        if _running.passes:
            _running.passes[-1].stopped = True
        raise RuntimeError(_ERROR)
