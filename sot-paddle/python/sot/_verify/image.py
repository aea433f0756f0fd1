"""What a run left behind (an image), and the first difference between two images."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import numpy
import paddle
from paddle.base import layer_helper_base

from .. import _sot
from .outside import numbers_to_come
from .state import Walk, attributes_of, attributes_of_class, has_state, is_a, items_of, state_of, text_of

# Tolerance by element type, relative to the greatest element, because programs may round differently.
_TOLERANCE = {
    "float16": 1e-2, "bfloat16": 3e-2, "float32": 1e-4, "float64": 1e-7, "complex64": 1e-4, "complex128": 1e-7,
}  # fmt: skip

# Attributes in which Paddle's layers note calls, and their automatic names. Both differ between runs, as names of
# tensors do (a known divergence).
_PRIVATE = ("_built", "_full_name")


@dataclass(frozen=True)
class Difference:
    """A difference between two runs."""

    kind: str
    """`result`, `gradient`, `write`, `exception` or `random state`."""
    path: str
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.path} is {self.actual} translated, and {self.expected} in the program's own run"


@dataclass(frozen=True)
class _Elements:
    """The elements of a tensor or array."""

    dtype: str
    shape: Tuple[int, ...]
    values: Any

    def __str__(self) -> str:
        values = self.values.reshape(-1)
        shown = ", ".join(f"{value:.6g}" if value.dtype.kind == "f" else str(value) for value in values[:6])
        return f"{self.dtype}{list(self.shape)} [{shown}{', ...' if values.size > 6 else ''}]"


_Entry = Tuple[str, str, Any]
_ByPlace = Dict[Tuple[str, str], Any]

# Begins the entry of a part that is an object met before.
_SAME = "the object at"


class Image:
    """An image of a run: the objects reached from the roots, the result, its gradients, the exception, random
    numbers."""

    def __init__(
        self, roots: Dict[str, Any], result: Any, error: Optional[BaseException]
    ) -> None:
        self.error = None if error is None else (type(error).__name__, _message(error))
        self.random = numbers_to_come()
        self.entries: List[_Entry] = []
        walk = Walk(strict=False)
        for name, root in [*roots.items(), ("result", result)]:
            kind, met = ("result" if name == "result" else "write"), len(walk.found)
            walk.visit(name, root)
            self.entries += self._entry(kind, name, root, walk)
            for path, found in list(walk.found.values())[met:]:
                self._add(kind, path, found, walk)
        for space in walk.spaces.values():
            for name in space.names:
                self.entries += self._entry("write", f"global {name}", space.namespace.get(name), walk)

    def _add(self, kind: str, path: str, found: Any, walk: Walk) -> None:
        """Add the entries of an object and of its parts."""
        if is_a(found, paddle.Tensor):
            self.entries += _of_tensor(kind, path, found)
            return
        if id(found) in walk.opaque:
            self.entries.append((kind, path, ("an object", type(found).__qualname__)))
            return
        self.entries.append((kind, f"type({path})", type(found).__qualname__))
        if is_a(found, numpy.ndarray) and not found.dtype.hasobject:
            self.entries.append((kind, path, _Elements(str(found.dtype), found.shape, found.copy())))
        elif has_state(found):
            self.entries.append((kind, f"{path}.state", repr(state_of(found))))
        elif is_a(found, (set, frozenset)):
            self.entries.append((kind, path, sorted(map(text_of, found))))
        elif is_a(found, (dict, list, tuple)):
            if is_a(found, dict):
                self.entries.append((kind, f"{path}.keys()", list(map(text_of, dict.keys(found)))))
            else:
                self.entries.append((kind, f"len({path})", len(found)))
        elif is_a(found, bytearray):
            self.entries.append((kind, path, bytes(found)))
        for suffix, part in _children(found, walk):
            self.entries += self._entry(kind, path + suffix, part, walk)

    def _entry(self, kind: str, path: str, part: Any, walk: Walk) -> List[_Entry]:
        """Return the entry of a part without looking into it: a plain value, or the path of an object met before."""
        if is_a(part, (bool, int, str, bytes, type(None))) and type(part).__module__ == "builtins":
            return [(kind, path, (type(part).__name__, part))]
        if type(part) in (float, complex):
            return [(kind, path, _Elements(type(part).__name__, (), numpy.asarray(part)))]
        if type(part) is type(paddle.float32):
            return [(kind, path, str(part))]
        if is_a(part, tuple) or is_a(part, frozenset):
            return []
        known = walk.found.get(id(part))
        return [] if known is None or known[0] == path else [(kind, path, (_SAME, known[0]))]


def gradients(result: Any, inputs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """Return gradients of a result, for weights that differ from element to element. They use the result's graph up.

    Returns none if the call reads results of other calls that have gradients, because that history belongs to the
    program.
    """
    outputs = [tensor for tensor in _tensors_in(result) if not tensor.stop_gradient and tensor.is_floating_point()]
    if not outputs or not inputs or not all(tensor.is_leaf for _, tensor in inputs):
        return {}
    with paddle.set_grad_enabled(True):
        weights = [_gradient_for(output) for output in outputs]
        asked = [tensor for _, tensor in inputs]
        found = _sot._rehearse_pass(paddle.grad, outputs, asked, weights, allow_unused=True)
    return {name: None if grad is None else _elements(grad) for (name, _), grad in zip(inputs, found)}


def gradient_difference(expected: Dict[str, Any], actual: Dict[str, Any]) -> Optional[Difference]:
    """Return the first difference between gradients."""
    for name, grad in expected.items():
        if not _is_same(grad, actual.get(name)):
            path = f"the gradient of the result with respect to {name}"
            return Difference("gradient", path, _shown(grad), _shown(actual.get(name)))
    return None


def _tensors_in(result: Any) -> List[Any]:
    walk = Walk(strict=False)
    walk.visit("result", result)
    return [found for _, found in walk.found.values() if is_a(found, paddle.Tensor)]


def _children(found: Any, walk: Walk) -> List[Tuple[str, Any]]:
    """Return the parts of an object that are compared: as `Walk.parts`, but parts met before are included."""
    if is_a(found, type):
        return [(f".{name}", value) for name, value in attributes_of_class(found).items()]
    if is_a(found, types.ModuleType):
        return []  # Its names are compared as those of a namespace.
    if is_a(found, (types.FunctionType, types.CellType, types.MethodType)):
        return list(Walk(strict=False).parts(found))
    if is_a(found, layer_helper_base.LayerHelperBase):
        return []  # The helper of a layer has the layer's automatic name.
    private = _PRIVATE if is_a(found, paddle.nn.Layer) else ()
    attributes = [(f".{name}", value) for name, value in attributes_of(found).items() if name not in private]
    return [*items_of(found), *attributes]


def _message(error: BaseException) -> str:
    # Paddle's messages include the stack of its C++ code, which is left out.
    lines = [line for line in str(error).splitlines() if line.strip() and not line.lstrip()[:1].isdigit()]
    # C++ prints the sign of a NaN, which depends on the order of operations.
    return lines[0].replace("-nan", "nan") if lines else ""


def _of_tensor(kind: str, path: str, tensor: Any) -> List[_Entry]:
    entries: List[_Entry] = [
        (kind, f"type({path})", type(tensor).__name__),
        (kind, f"{path}.stop_gradient", tensor.stop_gradient),
    ]
    if tensor.is_dense() and tensor._is_initialized():
        entries.append((kind, path, _elements(tensor)))
    grad = tensor.grad if tensor.is_leaf else None
    entries.append(("gradient", f"{path}.grad", None if grad is None else _elements(grad)))
    return entries


def _elements(tensor: Any) -> _Elements:
    values = tensor.detach()
    if str(values.dtype).endswith("bfloat16"):
        values = values.astype("float32")
    return _Elements(str(tensor.dtype).rpartition(".")[2], tuple(tensor.shape), values.numpy().copy())


def _gradient_for(output: Any) -> Any:
    with paddle.no_grad():
        values = numpy.cos(numpy.arange(output.size, dtype="float64")).reshape(output.shape)
        return paddle.to_tensor(values, dtype="float32", place=output.place).astype(output.dtype)


def first_difference(expected: Image, actual: Image) -> Optional[Difference]:
    """Return the first difference of the second run from the first run."""
    if expected.error != actual.error:
        return Difference("exception", "what the call does", _raised(expected.error), _raised(actual.error))
    wanted, got = _by_place(expected.entries), _by_place(actual.entries)
    for place in [*wanted, *(place for place in got if place not in wanted)]:
        a, b = wanted.get(place), got.get(place)
        if not _is_same(a, b):
            return _difference_at(place, wanted, got)
    if expected.random != actual.random:
        for name, numbers in expected.random.items():
            if numbers != actual.random[name]:
                return Difference("random state", f"the next number of {name}", str(numbers), str(actual.random[name]))
    return None


def _difference_at(place: Tuple[str, str], wanted: _ByPlace, got: _ByPlace) -> Difference:
    """Return the difference at a place, which may be a place of one run only."""
    kind, path = place
    if path.startswith("type(") and not (place in wanted and place in got):
        path = path[len("type(") : -1]
    return Difference(kind, path, _told(kind, path, wanted, got), _told(kind, path, got, wanted))


def _told(kind: str, path: str, entries: _ByPlace, others: _ByPlace) -> str:
    """Describe what a run has at a path that differs in the other run."""
    value, other, its_type = entries.get((kind, path)), others.get((kind, path)), entries.get((kind, f"type({path})"))
    if its_type is not None and isinstance(other, tuple) and other[0] == _SAME:
        return "an object of its own"
    if (kind, path) in entries:
        return _shown(value)
    return "not there" if its_type is None else str(its_type)


def _by_place(entries: List[_Entry]) -> _ByPlace:
    found: _ByPlace = {}
    for kind, path, value in sorted(entries, key=lambda entry: entry[0] != "result"):
        found.setdefault((kind, path), value)
    return found


def _raised(error: Optional[Tuple[str, str]]) -> str:
    return "no exception" if error is None else f"{error[0]}({error[1]!r})"


def _shown(value: Any) -> str:
    if is_a(value, tuple) and len(value) == 2:
        return f"{value[0]} {value[1]!r}"
    return str(value) if is_a(value, _Elements) else repr(value)


def _is_same(a: Any, b: Any) -> bool:
    if not (isinstance(a, _Elements) and isinstance(b, _Elements)):
        return type(a) is type(b) and bool(a == b)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    if a.values.dtype.kind not in "fc":
        return bool((a.values == b.values).all())
    if not a.values.size:
        return True
    tolerance = _TOLERANCE.get(a.dtype, 1e-6)
    finite = a.values[numpy.isfinite(a.values)] if a.values.shape else a.values
    wide = finite.astype("complex128" if a.values.dtype.kind == "c" else "float64")
    scale = float(numpy.abs(wide).max()) if wide.size else 0.0
    if not numpy.isfinite(scale):
        scale = 0.0
    return bool(numpy.allclose(b.values, a.values, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
