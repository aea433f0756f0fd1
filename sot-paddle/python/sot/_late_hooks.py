"""Hooks that are registered on results after a program has run
(`sot-paddle/src/backend/run/second_passes/late_hooks.rs`).

A program is one node of the backward pass. Paddle calls a hook on one of its results with the gradient from outside,
without the gradient from results that are computed from that one. So when a pass has reached all results, the graph's
statements are called one by one, the hooks are put on their results, and a pass of its own goes through these. If a
hook has changed a gradient there, the program is given the difference.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import numpy as np
import paddle

from . import _sot
from ._second_passes import Gradients, is_close, is_undefined, varying, zeros_like

Hook = Callable[[paddle.Tensor], Optional[paddle.Tensor]]
Tensors = Dict[int, paddle.Tensor]
# For a result that is derived from another result: the index of that result, and the function that makes it.
Derived = Tuple[int, Callable[[paddle.Tensor], Optional[paddle.Tensor]]]
# A function that calls statements.
Call = Callable[..., Optional[Tensors]]

# The hooks that have been called while gradients are computed in parts; else `None`.
hooks_called: Optional[Set[Hook]] = None

# Objects with hooks that a pass must call, even if no output outside depends on the hooked results.
_with_roots: weakref.WeakSet[LateHooks] = weakref.WeakSet()


def watch() -> None:
    """Replace `register_hook` and `retain_grads` of tensors, so that late hooks are noticed from now on."""
    register, retain = paddle.Tensor.register_hook, paddle.Tensor.retain_grads

    @functools.wraps(register)
    def register_hook(self: paddle.Tensor, hook: Hook) -> Any:
        hook = _unless_muted(hook)
        late = _sot._late_hooks(self)
        if late is None or self.stop_gradient:
            return register(self, hook)
        return late[0].register(late[1], self, hook)

    @functools.wraps(retain)
    def retain_grads(self: paddle.Tensor) -> Any:
        late = _sot._late_hooks(self)
        # Without grad mode it does nothing.
        if late is None or self.stop_gradient or not paddle.is_grad_enabled():
            return retain(self)
        late[0].register(late[1], self, functools.partial(_retain_gradient, weakref.ref(self)))

    paddle.Tensor.register_hook, paddle.Tensor.retain_grads = register_hook, retain_grads


def _unless_muted(hook: Hook) -> Hook:
    """Wrap a hook so that it is not called while gradients are computed that will be computed again. If the gradient
    arrives in several parts, the hook could neither see nor change the whole, and the pass is refused."""

    def call(gradient: paddle.Tensor) -> Optional[paddle.Tensor]:
        if _sot._is_muted():
            return None
        if hooks_called is not None:
            if call in hooks_called:
                _sot._refuse_hook()
            hooks_called.add(call)
        return hook(gradient)

    return call


def _retain_gradient(result: weakref.ref[paddle.Tensor], gradient: paddle.Tensor) -> None:
    tensor = result()
    if tensor is not None and gradient is not None:
        tensor._copy_gradient_from(gradient)


def call_on_leaves(call: Call, inputs: Iterable[Any], parameters: Iterable[paddle.Tensor]) -> Optional[Tensors]:
    """Call statements on leaves that share the memory of the inputs and parameters. A pass through the results ends at
    the leaves, and meets no hook of the inputs."""
    leaves: Dict[int, paddle.Tensor] = {}
    shared = []
    for parameter in parameters:
        if not parameter.stop_gradient:
            copy = paddle.empty([0])
            copy.reconstruct_from_(parameter)
            shared.append((parameter, copy))
    try:
        for parameter, copy in shared:
            parameter.reconstruct_from_(_leaf(copy))
        return call(*(leaves.setdefault(id(given), _leaf(given)) for given in inputs))
    finally:
        for parameter, copy in shared:
            parameter.reconstruct_from_(copy)


def _leaf(given: Any) -> Any:
    if not isinstance(given, paddle.Tensor) or given.stop_gradient:
        return given
    leaf = given.detach()
    leaf.stop_gradient = False
    return leaf


def add_hooked_roots(outputs: Sequence[paddle.Tensor], weights: Gradients) -> Tuple[List[paddle.Tensor], Gradients]:
    """Return the outputs of a pass and their weights, with more outputs added: all results that the pass reaches, that
    have a hook, and that other results are computed from. Their weight changes nothing, but gives them a gradient, to
    which the change by a hook can be added."""
    roots = [root for hooks in list(_with_roots) for root in hooks.roots()]
    outputs = list(outputs)
    weights = list(weights) or [None] * len(outputs)
    reached = _nodes(output.grad_fn for output in outputs) if roots else set()
    for root in roots:
        if _node_of_program(root) in reached:
            with paddle.enable_grad():
                outputs.append(paddle.assign(root))
            weights.append(paddle.full_like(root, -0.0).detach())
    return outputs, weights


def _nodes(nodes: Iterable[Any]) -> Set[Any]:
    """Return the nodes of the backward pass that are reached from these. (Paddle never frees the Python objects of
    nodes, but only few runs need this.)"""
    reached: Set[Any] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node is not None and node not in reached:
            reached.add(node)
            pending.extend(node.next_functions)
    return reached


def _node_of_program(result: paddle.Tensor) -> Any:
    """Return the node of the program that a result comes from."""
    node = result.grad_fn
    while node.name() not in ("Dy2StGradNode", "GradNodeBase") and node.next_functions:
        node = node.next_functions[0]
    return node


def _changes_nothing(gradient: paddle.Tensor) -> bool:
    """Return whether a gradient is the weight that `add_hooked_roots` adds: all -0.0."""
    numbers = gradient.cast("float32").numpy()
    return not numbers.any() and bool(np.signbit(numbers).all())


class LateHooks:
    """The hooks on the results of one run. Hooks on results in `carriers` also see the gradients of other results."""

    def __init__(
        self,
        carriers: Iterable[int],
        derived: Dict[int, Derived],
        prepare: Callable[[], Iterable[Tuple[int, paddle.Tensor]]],
        call_again: Callable[[], Optional[Tensors]],
        set_aside: Callable[[int, paddle.Tensor], None],
    ) -> None:
        self._carriers = frozenset(carriers)
        self._derived = derived
        self._prepare = prepare
        self._call_again = call_again
        self._set_aside = set_aside
        self._prepared = False
        self._hooks: List[Tuple[int, Hook]] = []
        # `_stand_ins`: number of times that statements were called for results. `_called`: the pass in which a hook
        # was called last, and for which of these times; 0 for the program's own results.
        self._stand_ins = 0
        self._called: Tuple[int, int] = (0, 0)
        # The results that have a hook of this class.
        self._watched: Set[int] = set()
        # Results in `carriers` that have hooks, until a pass releases the graph.
        self._roots: Tensors = {}
        # Their values when the hook was registered.
        self._values: Tensors = {}
        # For the running pass: gradients that have arrived, and the gradients to pass on to the program instead, once
        # these are computed.
        self._recorded_pass: Optional[int] = None
        self._arrived: Tensors = {}
        self._replacements: Optional[Tensors] = None

    def register(self, at: int, result: paddle.Tensor, hook: Hook) -> Handle:
        """Register a hook on a result."""
        if at in self._carriers or self._derived:
            self.defer_derived()
        if at in self._carriers:
            _with_roots.add(self)
            self._roots[at] = result
            self._values[at] = result.detach().clone()
        self._watch(at, result)
        entry = (at, hook)
        self._hooks.append(entry)
        return Handle(self._hooks, entry)

    def defer_derived(self) -> None:
        """Make results that are derived from others keep their gradients until the pass has reached the program."""
        if not self._prepared:
            self._prepared = True
            for key, made in self._prepare():
                self._watch(key, made)

    def roots(self) -> List[paddle.Tensor]:
        """Return the results that have a hook and that other results are computed from."""
        hooked = {at for at, _ in self._hooks}
        return [result for at, result in self._roots.items() if at in hooked]

    def _watch(self, at: int, result: paddle.Tensor) -> None:
        if at not in self._watched:
            self._watched.add(at)
            result._register_grad_hook(functools.partial(self._call, at))

    def record_arrival(self, pass_: int, is_last: bool, at: int, gradient: paddle.Tensor) -> None:
        """Record the gradient with which a pass reaches a result. This happens for all results of the program before a
        hook of this class is called on them, and for derived results before that."""
        if self._recorded_pass != pass_:
            self._recorded_pass, self._arrived, self._replacements = pass_, {}, None
        if is_last:
            self._roots = {}
            _with_roots.discard(self)
        if not is_undefined(gradient):
            self._arrived[at] = gradient

    def _call(self, at: int, gradient: Optional[paddle.Tensor]) -> Optional[paddle.Tensor]:
        """Return the gradient that goes on from a result, or `None` to leave it."""
        if _sot._stops_at_programs():
            # In such a pass the hooks are on the results of the statements.
            if at not in self._derived:
                return None
            self._set_aside(at, gradient)
            # The node of the view comes before that of the program, so the gradient must not be a constant.
            return varying(zeros_like(gradient))
        if _sot._is_muted():
            return None
        if not self._prepared:
            # When a pass reaches a node, Paddle calls the hooks on all of its results, with `None` for results that
            # the pass does not come through.
            for result, hook in list(self._hooks):
                if result == at:
                    changed = self._call_hook(0, hook, gradient)
                    gradient = gradient if changed is None else changed
            return gradient
        if at in self._derived:
            self.record_arrival(_sot._pass(), False, at, gradient)
            return zeros_like(gradient)
        return self.replacement(at)

    def register_on_statements(self, results: Optional[Tensors]) -> None:
        """Register the hooks on the results of the statements, for a pass that goes through the statements instead of
        the program."""
        self._stand_ins += 1
        if results is None:
            return
        for at, hook in self._hooks:
            if at not in results or results[at].stop_gradient:
                _sot._refuse_hook()
            results[at]._register_grad_hook(functools.partial(self._call_hook, self._stand_ins, hook))

    def _call_hook(self, call: int, hook: Hook, gradient: Optional[paddle.Tensor]) -> Optional[paddle.Tensor]:
        """Call a hook on a result, or on a tensor that stands for it. A pass that reaches both, as a pass for second
        gradients may, brings a part to each, and is refused."""
        if is_undefined(gradient) or _sot._is_muted():
            return None
        called, self._called = self._called, (_sot._pass(), call)
        if called[0] == self._called[0] and called != self._called:
            _sot._refuse_hook()
        return hook(gradient)

    def replacement(self, at: int) -> Optional[paddle.Tensor]:
        """Return the gradient that replaces the arrived one at a result of the program, or `None`."""
        if self._replacements is None:
            self._replacements = self._call_on_statements()
        return self._replacements.get(at)

    def _call_on_statements(self) -> Tensors:
        """Call the hooks on the results of the statements. Return the gradients that differ from the arrived ones."""
        results = self._call_again()
        called, self._called = self._called, (_sot._pass(), 0)
        if called[0] == self._called[0] and called != self._called:
            _sot._refuse_hook()
        hooked = sorted({at for at, _ in self._hooks})
        if results is None or any(at not in results or results[at].stop_gradient for at in hooked):
            _sot._refuse_hook()
        if not all(is_close(value, results[at]) for at, value in self._values.items()):
            _sot._refuse_hook()
        arrived = {
            at: gradient
            for at, gradient in self._arrived.items()
            if at not in self._carriers or not _changes_nothing(gradient)
        }
        for at in [at for at in arrived if at not in results or results[at].stop_gradient]:
            # A tensor that views are made from may be no result itself; then it has no gradient but that of the views.
            if bool((arrived.pop(at) != 0).any()):
                _sot._refuse_hook()
        before: Tensors = {}
        after: Tensors = {}
        for at in hooked:
            results[at]._register_grad_hook(functools.partial(before.__setitem__, at))
        for at, hook in list(self._hooks):
            results[at]._register_grad_hook(hook)
        for at in hooked:
            results[at]._register_grad_hook(functools.partial(after.__setitem__, at))
        if arrived:
            # Copies: Paddle 3.0 fails if a pass begins at a node that it also reaches.
            with paddle.enable_grad():
                outputs = [paddle.assign(results[at]) for at in arrived]
            paddle.autograd.backward(outputs, list(arrived.values()))
        return self._add_differences({at: _difference(before[at], after[at]) for at in after})

    def _add_differences(self, differences: Dict[int, Optional[paddle.Tensor]]) -> Tensors:
        """Add the differences to the gradients that have arrived."""
        replacements: Tensors = {}

        def add(at: int, part: Optional[paddle.Tensor]) -> None:
            if part is not None:
                so_far = replacements.get(at, self._arrived.get(at))
                if so_far is None:
                    # Paddle lets no hook set a gradient where there is none.
                    _sot._refuse_hook()
                replacements[at] = so_far + part

        for at, (root, make) in self._derived.items():
            part, difference = self._arrived.get(at), differences.pop(at, None)
            if difference is not None:
                part = difference if part is None else part + difference
            if part is not None and root in self._arrived:
                add(root, _gradient_of_source(make, self._arrived[root], part))
            elif part is not None:
                _sot._refuse_hook()
        for at, difference in differences.items():
            add(at, difference)
        return replacements


def _difference(before: paddle.Tensor, after: paddle.Tensor) -> Optional[paddle.Tensor]:
    """Return by how much a gradient has changed; `None` if it has not."""
    if before.numpy().tobytes() == after.numpy().tobytes():
        return None
    return paddle.where(after == before, paddle.zeros_like(before), after - before)


def _gradient_of_source(
    make: Callable[[paddle.Tensor], Optional[paddle.Tensor]], like: paddle.Tensor, gradient: paddle.Tensor
) -> paddle.Tensor:
    """Return the gradient with respect to the argument of `make`, which has the shape of `like`."""
    source = paddle.zeros_like(like).detach()
    source.stop_gradient = False
    with paddle.enable_grad():
        made = make(source)
    if made is None:
        _sot._refuse_hook()
    paddle.autograd.backward([made], [gradient])
    return source.grad


class Handle:
    """Removes a hook, like the handle of Paddle's `register_hook`."""

    def __init__(self, hooks: List[Tuple[int, Hook]], entry: Tuple[int, Hook]) -> None:
        self._hooks, self._entry = hooks, entry

    def remove(self) -> bool:
        """Remove the hook. Return whether it was still there."""
        at = next((at for at, entry in enumerate(self._hooks) if entry is self._entry), None)
        if at is not None:
            del self._hooks[at]
        return at is not None
