"""Hooks that come to results of a program when it has run (`sot-paddle/src/backend/run/second_passes/late_hooks.rs`).

A program is one node of the backward pass: Paddle has a hook on one of its results see what comes from outside, and not what comes from results
that are computed from that one. So when a pass has come to all results, the graph's statements are called one by one, the hooks are put on what
these give, and a pass of their own goes through them. Where that has changed a gradient, the program is given the difference.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import numpy as np
import paddle

from . import _sot
from ._second_passes import Gradients, is_close, is_undefined, nought, varying

Hook = Callable[[paddle.Tensor], Optional[paddle.Tensor]]
Tensors = Dict[int, paddle.Tensor]
# Of a result that is made from another one: the index of that, and what makes it.
Made = Tuple[int, Callable[[paddle.Tensor], Optional[paddle.Tensor]]]
# What calls statements.
Call = Callable[..., Optional[Tensors]]

# While gradients are made in parts, the hooks that have been called.
hooks_called: Optional[Set[Hook]] = None

# Those that a pass may be for, though nothing outside needs the results that they are on.
_waiting: weakref.WeakSet[LateHooks] = weakref.WeakSet()


def watch() -> None:
    """From here on the tensors are known that hooks are put on, or whose gradients are to be kept."""
    register, retain = paddle.Tensor.register_hook, paddle.Tensor.retain_grads

    @functools.wraps(register)
    def register_hook(self: paddle.Tensor, hook: Hook) -> Any:
        hook = _once(hook)
        late = _sot._late_hooks(self)
        if late is None or self.stop_gradient:
            return register(self, hook)
        return late[0].put(late[1], self, hook)

    @functools.wraps(retain)
    def retain_grads(self: paddle.Tensor) -> Any:
        late = _sot._late_hooks(self)
        # Without grad mode it does nothing.
        if late is None or self.stop_gradient or not paddle.is_grad_enabled():
            return retain(self)
        late[0].put(late[1], self, functools.partial(_keep, weakref.ref(self)))

    paddle.Tensor.register_hook, paddle.Tensor.retain_grads = register_hook, retain_grads


def _once(hook: Hook) -> Hook:
    """The hook, but not where gradients are made that are made again. Where they come in parts, which are more than one, it would see neither the whole
    nor change it."""

    def call(gradient: paddle.Tensor) -> Optional[paddle.Tensor]:
        if _sot._is_muted():
            return None
        if hooks_called is not None:
            if call in hooks_called:
                _sot._refuse_hook()
            hooks_called.add(call)
        return hook(gradient)

    return call


def _keep(result: weakref.ref[paddle.Tensor], gradient: paddle.Tensor) -> None:
    tensor = result()
    if tensor is not None and gradient is not None:
        tensor._copy_gradient_from(gradient)


def apart(call: Call, inputs: Iterable[Any], parameters: Iterable[paddle.Tensor]) -> Optional[Tensors]:
    """What statements give for leaves in the memory of what they were given: a pass through them goes no further, and meets no hook
    of these."""
    leaves: Dict[int, paddle.Tensor] = {}
    themselves = []
    for parameter in parameters:
        if not parameter.stop_gradient:
            itself = paddle.empty([0])
            itself.reconstruct_from_(parameter)
            themselves.append((parameter, itself))
    try:
        for parameter, itself in themselves:
            parameter.reconstruct_from_(_leaf(itself))
        return call(*(leaves.setdefault(id(given), _leaf(given)) for given in inputs))
    finally:
        for parameter, itself in themselves:
            parameter.reconstruct_from_(itself)


def _leaf(given: Any) -> Any:
    if not isinstance(given, paddle.Tensor) or given.stop_gradient:
        return given
    leaf = given.detach()
    leaf.stop_gradient = False
    return leaf


def with_roots(outputs: Sequence[paddle.Tensor], weights: Gradients) -> Tuple[List[paddle.Tensor], Gradients]:
    """Outputs of a pass and their weights, and beside them all results that have a hook and that others are computed from which it comes
    to, with a weight that changes nothing. So there is a gradient for what a hook changes to be added to."""
    roots = [root for hooks in list(_waiting) for root in hooks.roots()]
    outputs = list(outputs)
    weights = list(weights) or [None] * len(outputs)
    reached = _nodes(output.grad_fn for output in outputs) if roots else set()
    for root in roots:
        if _program(root) in reached:
            with paddle.enable_grad():
                outputs.append(paddle.assign(root))
            weights.append(paddle.full_like(root, -0.0).detach())
    return outputs, weights


def _nodes(nodes: Iterable[Any]) -> Set[Any]:
    """Those of the backward pass that are behind these. (Paddle never frees what it shows of them; all this is done for few runs.)"""
    reached: Set[Any] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node is not None and node not in reached:
            reached.add(node)
            pending.extend(node.next_functions)
    return reached


def _program(result: paddle.Tensor) -> Any:
    """The node of the program that it comes from."""
    node = result.grad_fn
    while node.name() not in ("Dy2StGradNode", "GradNodeBase") and node.next_functions:
        node = node.next_functions[0]
    return node


def _changes_nothing(gradient: paddle.Tensor) -> bool:
    """Whether it is what `with_roots` gives."""
    numbers = gradient.cast("float32").numpy()
    return not numbers.any() and bool(np.signbit(numbers).all())


class LateHooks:
    """The hooks on the results of one run. Those on results in `through` are to see what comes from others."""

    def __init__(
        self,
        through: Iterable[int],
        made: Dict[int, Made],
        prepare: Callable[[], Iterable[Tuple[int, paddle.Tensor]]],
        again: Callable[[], Optional[Tensors]],
        take_aside: Callable[[int, paddle.Tensor], None],
    ) -> None:
        self._through = frozenset(through)
        self._made = made
        self._prepare = prepare
        self._again = again
        self._take_aside = take_aside
        self._prepared = False
        self._hooks: List[Tuple[int, Hook]] = []
        # How often results have stood for the program's, and of the last call of a hook the pass and which of these it was on: 0 for the program's.
        self._stand_ins = 0
        self._called: Tuple[int, int] = (0, 0)
        # The results that have a hook of ours.
        self._watched: Set[int] = set()
        # Results in `through` that have hooks, until a pass lets go of the graph.
        self._roots: Tensors = {}
        # What these were.
        self._values: Tensors = {}
        # Of the pass that is going on: what has come, and what is to go on to the program instead, once that is made.
        self._pass: Optional[int] = None
        self._came: Tensors = {}
        self._instead: Optional[Tensors] = None

    def put(self, at: int, result: paddle.Tensor, hook: Hook) -> Handle:
        """Puts a hook on the result."""
        if at in self._through or self._made:
            self.hold_back()
        if at in self._through:
            _waiting.add(self)
            self._roots[at] = result
            self._values[at] = result.detach().clone()
        self._watch(at, result)
        entry = (at, hook)
        self._hooks.append(entry)
        return Handle(self._hooks, entry)

    def hold_back(self) -> None:
        """Has results that are made from others keep what comes to them until the program's turn."""
        if not self._prepared:
            self._prepared = True
            for key, made in self._prepare():
                self._watch(key, made)

    def roots(self) -> List[paddle.Tensor]:
        """The results that a hook is on and that others are computed from."""
        hooked = {at for at, _ in self._hooks}
        return [result for at, result in self._roots.items() if at in hooked]

    def _watch(self, at: int, result: paddle.Tensor) -> None:
        if at not in self._watched:
            self._watched.add(at)
            result._register_grad_hook(functools.partial(self._call, at))

    def take_down(self, pass_: int, is_last: bool, at: int, gradient: paddle.Tensor) -> None:
        """A pass comes to a result with a gradient. It does to all results of the program before a hook of these is called, and to those that
        are made from them before that."""
        if self._pass != pass_:
            self._pass, self._came, self._instead = pass_, {}, None
        if is_last:
            self._roots = {}
            _waiting.discard(self)
        if not is_undefined(gradient):
            self._came[at] = gradient

    def _call(self, at: int, gradient: Optional[paddle.Tensor]) -> Optional[paddle.Tensor]:
        """What goes on from a result."""
        if _sot._stops_at_programs():
            # The hooks are on what statements give then.
            if at not in self._made:
                return None
            self._take_aside(at, gradient)
            # The view's own node comes before the program's.
            return varying(nought(gradient))
        if _sot._is_muted():
            return None
        if not self._prepared:
            # Paddle calls hooks on all results of a node that a pass comes to, with `None` on those that it does not come through.
            for result, hook in list(self._hooks):
                if result == at:
                    changed = self._call_whole(0, hook, gradient)
                    gradient = gradient if changed is None else changed
            return gradient
        if at in self._made:
            self.take_down(_sot._pass(), False, at, gradient)
            return nought(gradient)
        return self.instead(at)

    def put_on(self, results: Optional[Tensors]) -> None:
        """Puts the hooks on what the statements have given, for a pass that is to go through these instead."""
        self._stand_ins += 1
        if results is None:
            return
        for at, hook in self._hooks:
            if at not in results or results[at].stop_gradient:
                _sot._refuse_hook()
            results[at]._register_grad_hook(functools.partial(self._call_whole, self._stand_ins, hook))

    def _call_whole(self, place: int, hook: Hook, gradient: Optional[paddle.Tensor]) -> Optional[paddle.Tensor]:
        """Calls a hook on a result, or on what stands for it. A pass that comes to both, as passes for second gradients may, brings parts to each."""
        if is_undefined(gradient) or _sot._is_muted():
            return None
        called, self._called = self._called, (_sot._pass(), place)
        if called[0] == self._called[0] and called != self._called:
            _sot._refuse_hook()
        return hook(gradient)

    def instead(self, at: int) -> Optional[paddle.Tensor]:
        """What is to go on from a result of the program."""
        if self._instead is None:
            self._instead = self._called_on_statements()
        return self._instead.get(at)

    def _called_on_statements(self) -> Tensors:
        """Calls the hooks, and gives what is to go on where that is not what has come."""
        results = self._again()
        called, self._called = self._called, (_sot._pass(), 0)
        if called[0] == self._called[0] and called != self._called:
            _sot._refuse_hook()
        hooked = sorted({at for at, _ in self._hooks})
        if results is None or any(at not in results or results[at].stop_gradient for at in hooked):
            _sot._refuse_hook()
        if not all(is_close(value, results[at]) for at, value in self._values.items()):
            _sot._refuse_hook()
        came = {at: gradient for at, gradient in self._came.items() if at not in self._through or not _changes_nothing(gradient)}
        for at in [at for at in came if at not in results or results[at].stop_gradient]:
            # What others are made from need not be a result itself: nothing but those has a gradient for it.
            if bool((came.pop(at) != 0).any()):
                _sot._refuse_hook()
        before: Tensors = {}
        behind: Tensors = {}
        for at in hooked:
            results[at]._register_grad_hook(functools.partial(before.__setitem__, at))
        for at, hook in list(self._hooks):
            results[at]._register_grad_hook(hook)
        for at in hooked:
            results[at]._register_grad_hook(functools.partial(behind.__setitem__, at))
        if came:
            # Copies: Paddle 3.0 fails where a pass begins at a node that it also comes to.
            with paddle.enable_grad():
                outputs = [paddle.assign(results[at]) for at in came]
            paddle.autograd.backward(outputs, list(came.values()))
        return self._put_together({at: _difference(before[at], behind[at]) for at in behind})

    def _put_together(self, differences: Dict[int, Optional[paddle.Tensor]]) -> Tensors:
        """What is to go on instead."""
        instead: Tensors = {}

        def add(at: int, part: Optional[paddle.Tensor]) -> None:
            if part is not None:
                so_far = instead.get(at, self._came.get(at))
                if so_far is None:
                    # Paddle has no hook put a gradient where there is none.
                    _sot._refuse_hook()
                instead[at] = so_far + part

        for at, (root, make) in self._made.items():
            part, difference = self._came.get(at), differences.pop(at, None)
            if difference is not None:
                part = difference if part is None else part + difference
            if part is not None and root in self._came:
                add(root, _by_source(make, self._came[root], part))
            elif part is not None:
                _sot._refuse_hook()
        for at, difference in differences.items():
            add(at, difference)
        return instead


def _difference(before: paddle.Tensor, behind: paddle.Tensor) -> Optional[paddle.Tensor]:
    """What a gradient has become more than it was. `None` if that is nothing."""
    if before.numpy().tobytes() == behind.numpy().tobytes():
        return None
    return paddle.where(behind == before, paddle.zeros_like(before), behind - before)


def _by_source(make: Callable[[paddle.Tensor], Optional[paddle.Tensor]], like: paddle.Tensor, gradient: paddle.Tensor) -> paddle.Tensor:
    """The gradient by what `make` is given, which is like another tensor."""
    source = paddle.zeros_like(like).detach()
    source.stop_gradient = False
    with paddle.enable_grad():
        made = make(source)
    if made is None:
        _sot._refuse_hook()
    paddle.autograd.backward([made], [gradient])
    return source.grad


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
