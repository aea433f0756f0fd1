"""The state before a call: copies of all tensors that the call reaches, and how its writes are taken back."""

from __future__ import annotations

import contextlib
import copy
import functools
import types
from typing import Any, Callable, Dict, Iterator, List, Tuple

import paddle

from .outside import NotVerifiable
from .state import Walk, dict_of, is_a
from .writes import replace_parts, restores_of


class Snapshot:
    """The state, now, of all objects that a call reaches."""

    def __init__(self, roots: Dict[str, Any], strict: bool = True) -> None:
        walk = Walk(strict)
        for name, root in roots.items():
            walk.visit(name, root)
        self._paths = {key: path for key, (path, _) in walk.found.items()}
        spaces = list(walk.spaces.values())
        self._objects = [found for _, found in walk.found.values()] + spaces
        self._restores: List[Callable[[], None]] = []
        self.tensors = [found for found in self._objects if is_a(found, paddle.Tensor)]
        self._copies: Dict[int, Any] = {}
        # Objects that were rebuilt with copies of tensors, by the original's id: one for each, because the program may
        # compare with `is`.
        self._rebuilt: Dict[int, Tuple[Any, Any]] = {}
        self.backward = _Backward()
        if strict:
            _refuse_shared_memory(self.tensors)
            self._pristine = {id(tensor): _kept(tensor) for tensor in self.tensors}
        for found in self._objects:
            self._restores += restores_of(found)

    def restore(self) -> None:
        """Take back all writes except those to tensors."""
        for restore in self._restores:
            restore()

    def put_copies(self) -> List[Tuple[str, Any]]:
        """Put copies of the tensors into the objects. Return the copies that can have a gradient."""
        self.backward = _Backward()
        self._copies, self._rebuilt = {}, {}
        for tensor in self.tensors:
            self._copies[id(tensor)] = self._copy(tensor)
        self._states = {key: _backward_state(copied) for key, copied in self._copies.items()}
        # Only objects that hold tensors are rebuilt.
        for found in self._objects:
            replace_parts(found, self.copied)
        return [
            (self._paths[id(tensor)], self._copies[id(tensor)])
            for tensor in self.tensors
            if not tensor.stop_gradient
        ]

    def inputs(self) -> List[Tuple[str, Any]]:
        """Return the original tensors that can have a gradient."""
        return [(self._paths[id(tensor)], tensor) for tensor in self.tensors if not tensor.stop_gradient]

    def writes_with_gradients(self) -> bool:
        """Return whether the run on copies wrote a gradient, or what a backward pass reads. That cannot be taken
        back."""
        return any(
            _backward_state(self._copies[key]) != state or _has_other_gradient(self._copies[key], self._pristine[key][1])
            for key, state in self._states.items()
        )

    def restore_tensors(self) -> None:
        """Take back the writes to tensors."""
        for tensor in self.tensors:
            # Kernels write to running statistics without counting a version, so the values are compared.
            kept = self._pristine[id(tensor)][0].numpy()
            if tensor.numpy().tobytes() != kept.tobytes():
                tensor.get_tensor().set(kept, paddle.framework._current_expected_place())

    def copied(self, found: Any) -> Any:
        """Return the object that stands for `found` in the run on copies."""
        if is_a(found, paddle.Tensor):
            return self._copies.get(id(found), found)
        if id(found) not in self._rebuilt:
            new = self._with_copies(found)
            if new is found:
                return found
            self._rebuilt[id(found)] = found, new
        return self._rebuilt[id(found)][1]

    def _with_copies(self, found: Any) -> Any:
        if is_a(found, tuple):
            items = [self.copied(item) for item in tuple.__iter__(found)]
            if all(new is old for new, old in zip(items, tuple.__iter__(found))):
                return found
            result: Any = tuple.__new__(type(found), items)
            if dict_of(found):
                result.__dict__.update(dict_of(found))
            return result
        if is_a(found, types.MethodType):
            owner = self.copied(found.__self__)
            return found if owner is found.__self__ else types.MethodType(found.__func__, owner)
        if type(found) is functools.partial:
            args, keywords = self.copied(found.args), {name: self.copied(arg) for name, arg in found.keywords.items()}
            if args is found.args and all(keywords[name] is arg for name, arg in found.keywords.items()):
                return found
            return functools.partial(found.func, *args, **keywords)
        return found

    def _copy(self, tensor: Any) -> Any:
        kept, grad = self._pristine[id(tensor)]
        with paddle.no_grad():
            if isinstance(tensor, _parameter_type()):
                result = copy.deepcopy(kept)
            else:
                result = _laid_out_alike(kept)
        if not tensor.is_leaf and not tensor.stop_gradient:
            result.stop_gradient = False
            result.register_hook(self.backward.note_beyond)
            self.backward.copies_results = True
            with paddle.set_grad_enabled(True):
                result = _assigned(result)
        else:
            result.stop_gradient = tensor.stop_gradient
            if grad is not None and not tensor.grad.stop_gradient and result.is_leaf and not result.stop_gradient:
                # A gradient that is set directly loses its `stop_gradient`.
                paddle.autograd.backward([result], [grad])
                grad = None
            if not tensor.stop_gradient:
                result.register_hook(self.backward.note)
        result.name = tensor.name
        result.persistable = tensor.persistable
        if grad is not None:
            result.grad = grad.clone()
        result.__dict__.update(tensor.__dict__)
        return result


def _assigned(tensor: Any) -> Any:
    """Return a tensor of the same class that is computed from `tensor`: an operation may have written a parameter."""
    if not isinstance(tensor, _parameter_type()):
        return paddle.assign(tensor)
    result = copy.deepcopy(tensor)
    result.stop_gradient = True
    paddle._C_ops.assign_out_(tensor, result)
    return result


def _backward_state(tensor: Any) -> Tuple[bool, bool, int]:
    return tensor.is_leaf, tensor.stop_gradient, 0 if tensor.stop_gradient else tensor.inplace_version


def _has_other_gradient(tensor: Any, kept: Any) -> bool:
    grad = tensor.grad if tensor.is_leaf else kept
    if grad is None or kept is None:
        return grad is not kept
    return bool(grad.numpy().tobytes() != kept.numpy().tobytes())


class _Backward:
    """Notes whether a backward pass ran, and whether it reached tensors computed before the call.

    Hooks hold this object instead of the copies, because the copies hold the hooks.
    """

    ran = False
    went_beyond = False
    #: True if a tensor computed before the call was copied. The copy has lost the way to what it was computed from.
    copies_results = False

    @contextlib.contextmanager
    def noting_partial_passes(self) -> Iterator[None]:
        """Note calls of `paddle.grad` in the block that may have to go that way."""
        eager: Any = paddle.base.core.eager
        original = eager.run_partial_grad

        def run_partial_grad(*args: Any) -> Any:
            if self.copies_results:
                self.note_beyond(None)
            return original(*args)

        eager.run_partial_grad = run_partial_grad
        try:
            yield
        finally:
            eager.run_partial_grad = original

    def note(self, grad: Any) -> None:
        self.ran = True

    def note_beyond(self, grad: Any) -> None:
        self.ran = self.went_beyond = True


def _parameter_type() -> Any:
    return paddle.base.framework.EagerParamBase


def _kept(tensor: Any) -> Tuple[Any, Any]:
    """Return copies of a tensor and of its gradient."""
    if not tensor.is_dense() or not tensor._is_initialized():
        raise NotVerifiable("a tensor that is not dense")
    if type(tensor) not in (paddle.Tensor, _parameter_type()):
        # The copy would have Paddle's class, not the subclass.
        raise NotVerifiable(f"an object cannot be copied: {type(tensor).__module__}.{type(tensor).__qualname__}")
    if tensor.grad is not None and not tensor.grad.is_dense():
        # Paddle's `clone` reads it as a dense tensor, past the end of its memory.
        raise NotVerifiable("a gradient that is not dense")
    with paddle.no_grad():
        kept = copy.deepcopy(tensor) if isinstance(tensor, _parameter_type()) else _laid_out_alike(tensor.detach())
        grad = None if tensor.grad is None else tensor.grad.detach().clone()
    return kept, grad


def _laid_out_alike(tensor: Any) -> Any:
    """Return a copy with the same memory layout, if the tensor is a transposed one."""
    if not hasattr(tensor, "strides") or tensor.is_contiguous():
        return tensor.clone()
    strides = tensor.strides
    order = sorted(range(tensor.ndim), key=lambda axis: -strides[axis])
    return tensor.transpose(order).clone().transpose([order.index(axis) for axis in range(tensor.ndim)])


def _refuse_shared_memory(tensors: List[Any]) -> None:
    spans = []
    # A gradient that the call is given shares its memory with no other tensor once both are copied.
    grads = [tensor.grad for tensor in tensors if tensor.is_leaf and tensor.grad is not None]
    for tensor in [*tensors, *grads]:
        if tensor.is_dense() and tensor._is_initialized() and tensor.size:
            start = tensor.data_ptr()
            spans.append((start, start + tensor.size * tensor.element_size()))
    spans.sort()
    if any(before[1] > after[0] for before, after in zip(spans, spans[1:])):
        raise NotVerifiable("tensors that share memory")
