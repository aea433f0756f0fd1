"""Hooks that come to results of a program when it has run (`sot-paddle/src/backend/second_passes/late_hooks.rs`).

A program is one node of the backward pass: Paddle has a hook on one of its results see what comes from outside, and not what comes from results
that are computed from that one. So when a pass has come to all results, the graph's statements are called one by one, the hooks are put on what
these give, and a pass of their own goes through them. Where that has changed a gradient, the program is given the difference.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import paddle

from . import _sot
from ._second_passes import is_undefined

Hook = Callable[[paddle.Tensor], Optional[paddle.Tensor]]
# By index, what stands for a program's results, if it can be made; and the tensors that gradients go on to.
Again = Callable[[], Tuple[Optional[Dict[int, paddle.Tensor]], Sequence[paddle.Tensor]]]


def watch() -> None:
    """From here on the tensors are known that hooks are put on, or whose gradients are to be kept."""
    register, retain = paddle.Tensor.register_hook, paddle.Tensor.retain_grads

    @functools.wraps(register)
    def register_hook(self: paddle.Tensor, hook: Hook) -> Any:
        late = _sot._late_hooks(self)
        if late is None or self.stop_gradient:
            return register(self, hook)
        return late[0].put(late[1], self, hook)

    @functools.wraps(retain)
    def retain_grads(self: paddle.Tensor) -> None:
        late = _sot._late_hooks(self)
        if late is None or self.stop_gradient:
            return retain(self)
        late[0].put(late[1], self, functools.partial(_keep, weakref.ref(self)))

    paddle.Tensor.register_hook, paddle.Tensor.retain_grads = register_hook, retain_grads


def _keep(result: weakref.ref[paddle.Tensor], gradient: paddle.Tensor) -> None:
    tensor = result()
    if tensor is not None and gradient is not None:
        tensor._copy_gradient_from(gradient)


class LateHooks:
    """The hooks on the results of one run. Those on results in `through` are to see what comes from others."""

    def __init__(self, through: List[int], prepare: Callable[[], None], again: Again) -> None:
        self._through = through
        self._prepare = prepare
        self._again = again
        self._prepared = False
        self._hooks: List[Tuple[int, Hook]] = []
        # The results that have a hook of ours.
        self._watched: Set[int] = set()
        # Of the pass that is going on: what has come, and what is to go on to the program instead, once that is made.
        self._came: Dict[int, paddle.Tensor] = {}
        self._instead: Optional[Dict[int, paddle.Tensor]] = None

    def put(self, at: int, result: paddle.Tensor, hook: Hook) -> Handle:
        """Puts a hook on the result."""
        if at in self._through and not self._prepared:
            self._prepare()
            self._prepared = True
        if at not in self._watched:
            self._watched.add(at)
            result._register_grad_hook(functools.partial(self._call, at))
        entry = (at, hook)
        self._hooks.append(entry)
        return Handle(self._hooks, entry)

    def take_down(self, is_new: bool, at: int, gradient: paddle.Tensor) -> None:
        """A pass comes to a result with a gradient. It does to all results before a hook of these is called."""
        if is_new:
            self._came, self._instead = {}, None
        if not is_undefined(gradient):
            self._came[at] = gradient

    def _call(self, at: int, gradient: Optional[paddle.Tensor]) -> Optional[paddle.Tensor]:
        """What goes on from a result."""
        if self._prepared:
            if self._instead is None:
                self._instead = self._called_on_statements()
            return self._instead.get(at)
        for result, hook in list(self._hooks):
            if result == at:
                changed = hook(gradient)
                gradient = gradient if changed is None else changed
        return gradient

    def _called_on_statements(self) -> Dict[int, paddle.Tensor]:
        """Calls the hooks, and gives what is to go on where they have changed something."""
        results, sources = self._again()
        hooked = sorted({at for at, _ in self._hooks})
        if results is None or any(at not in results or results[at].stop_gradient for at in (*self._came, *hooked)):
            _sot._refuse_hook()
        before: Dict[int, paddle.Tensor] = {}
        behind: Dict[int, paddle.Tensor] = {}
        for at in hooked:
            results[at]._register_grad_hook(functools.partial(before.__setitem__, at))
        for at, hook in self._hooks:
            results[at]._register_grad_hook(hook)
        for at in hooked:
            results[at]._register_grad_hook(functools.partial(behind.__setitem__, at))
        outputs, weights = [results[at] for at in self._came], list(self._came.values())
        _sot._plain_grad(outputs, list(sources), weights, allow_unused=True)
        instead = {}
        for at in behind:
            difference = behind[at] - before[at]
            if bool((difference != 0).any()):
                if at not in self._came:
                    # Paddle has no hook put a gradient where there is none.
                    _sot._refuse_hook()
                instead[at] = self._came[at] + difference
        return instead


class Handle:
    """Takes the hook away again, as what Paddle's `register_hook` gives does."""

    def __init__(self, hooks: List[Tuple[int, Hook]], entry: Tuple[int, Hook]) -> None:
        self._hooks, self._entry = hooks, entry

    def remove(self) -> bool:
        """Whether the hook was there."""
        at = next((at for at, entry in enumerate(self._hooks) if entry is self._entry), None)
        if at is not None:
            del self._hooks[at]
        return at is not None
