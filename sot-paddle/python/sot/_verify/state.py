"""The objects that a call reaches: what each holds, how its writes are taken back, and copies of its tensors.

`parts` is the one place that says what an object holds. What it does not know ends in `NotVerifiable`.
"""

from __future__ import annotations

import collections
import copy
import functools
import random
import sys
import sysconfig
import types
import weakref
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

import numpy
import paddle

from .. import _sot
from .outside import NotVerifiable

MOST_OBJECTS = 100_000
"""A call that reaches more is not verified."""

_MISSING = object()
_HEAP_TYPE = 1 << 9
_ATOMS = (
    type(None), bool, int, float, complex, str, bytes, range, slice, type(Ellipsis), type(NotImplemented), types.CodeType,
    types.BuiltinFunctionType, types.ModuleType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.MethodWrapperType, property, staticmethod, classmethod,
    weakref.ref, numpy.dtype, numpy.generic, numpy.ufunc,
)  # fmt: skip
# Built-in bases of which `parts` and `_contents` know what they hold.
_BASES = (
    object, list, dict, set, frozenset, tuple, collections.deque, collections.OrderedDict, collections.defaultdict,
    int, float, complex, str, bytes, bytearray, numpy.ndarray, BaseException,
)  # fmt: skip
# What the interpreter shares and a program does not look into.
_SHARED = ("logging", "threading", "_thread", "re", "contextvars", "_contextvars", "inspect", "typing", "abc", "enum", "ast")
# Paddle's static programs and the like, which eager code carries along.
_PADDLES_OWN = ("paddle.base.libpaddle", "paddle.base.framework", "paddle.base.unique_name")
_LIBRARY = sysconfig.get_path("stdlib")
_OWN = tuple(
    str(Path(path).resolve()) for path in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")} if path
) + (str(Path(__file__).resolve().parents[1]),)


@functools.lru_cache(maxsize=None)
def is_programs(file: str) -> bool:
    """Whether a file is of the program, and not of an installed package."""
    if "site-packages" in file or "dist-packages" in file:
        return False
    return not file.startswith(_OWN) and not str(Path(file).resolve()).startswith(_OWN)


def is_a(found: Any, kinds: Any) -> bool:
    """`isinstance`, without asking a `__class__` or `__getattribute__` of the program's."""
    return issubclass(type(found), kinds)


class Names:
    """Those names of a namespace that code of the program mentions."""

    def __init__(self, namespace: Dict[str, Any]) -> None:
        self.namespace = namespace
        self.names: Dict[str, None] = {}


class Walk:
    """Objects in the order in which they are met, each once, with a path that leads there."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.found: Dict[int, Tuple[str, Any]] = {}
        self.spaces: Dict[int, Names] = {}
        self.codes: Set[int] = set()
        self.opaque: Dict[int, str] = {}

    def visit(self, path: str, root: Any) -> None:
        """Meet an object and all that it holds."""
        waiting = [(path, root)]
        while waiting:
            path, found = waiting.pop()
            if is_a(found, _ATOMS) and type(found) in _ATOMS or id(found) in self.found:
                continue
            self.found[id(found)] = (path, found)
            if len(self.found) > MOST_OBJECTS:
                raise NotVerifiable(f"more than {MOST_OBJECTS} objects are reached")
            waiting.extend(reversed([(path + suffix, part) for suffix, part in self.parts(found)]))

    def parts(self, found: Any) -> Iterator[Tuple[str, Any]]:
        """What an object holds, and how it is written behind the object."""
        if is_a(found, paddle.Tensor):
            return
        if is_a(found, Names):
            for name in found.names:
                if name in found.namespace:
                    yield f"global {name}", found.namespace[name]
        elif is_a(found, types.FunctionType):
            yield from self._parts_of_function(found)
        elif is_a(found, types.CellType):
            try:
                yield "", found.cell_contents
            except ValueError:
                pass
        elif is_a(found, types.MethodType):
            yield ".__self__", found.__self__
            yield "", found.__func__
        elif is_a(found, functools.partial):
            yield from (("", found.func), (".args", found.args), (".keywords", found.keywords))
        elif is_a(found, _sot.Translated):
            yield "", found.__wrapped__
        elif is_a(found, type):
            if is_programs(_file_of_class(found)):
                yield from ((f".{name}", value) for name, value in _attributes_of_class(found).items())
                for base in found.__mro__:
                    for value in list(vars(base).values()):
                        yield "", _function_of(value)
        elif _has_state(found) or is_a(found, _ATOMS):
            pass
        elif self._is_known(found):
            yield from _items(found)
            yield from ((f".{name}", value) for name, value in _attributes(found).items())
            yield "", type(found)

    def _is_known(self, found: Any) -> bool:
        kind = type(found)
        module = getattr(kind, "__module__", None) or ""
        if isinstance(module, str) and (module.split(".")[0] in _SHARED or module.startswith(_PADDLES_OWN)):
            return False
        for base in kind.__mro__:
            if not base.__flags__ & _HEAP_TYPE and base not in _BASES and not issubclass(base, BaseException):
                if self.strict:
                    raise NotVerifiable(f"an object cannot be copied: {kind.__module__}.{kind.__qualname__}")
                self.opaque[id(found)] = kind.__qualname__
                return False
        return True

    def _parts_of_function(self, function: types.FunctionType) -> Iterator[Tuple[str, Any]]:
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            yield f"<{name}>", cell
        for default in [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]:
            yield ".<default>", default
        for name, value in function.__dict__.items():
            yield f".{name}", value
        if is_programs(function.__code__.co_filename):
            yield from self._of_code(function.__code__, function.__globals__)

    def _of_code(self, code: types.CodeType, namespace: Dict[str, Any]) -> Iterator[Tuple[str, Any]]:
        if id(code) in self.codes:
            return
        self.codes.add(id(code))
        mentioned = [code]
        for found in mentioned:
            mentioned += [constant for constant in found.co_consts if isinstance(constant, types.CodeType)]
        names = [name for found in mentioned for name in found.co_names]
        yield from self._of_names(namespace, names)
        for name in names:
            module = namespace.get(name)
            if isinstance(module, types.ModuleType) and is_programs(getattr(module, "__file__", None) or _LIBRARY):
                yield from self._of_names(vars(module), names)

    def _of_names(self, namespace: Dict[str, Any], names: List[str]) -> Iterator[Tuple[str, Any]]:
        space = self.spaces.setdefault(id(namespace), Names(namespace))
        for name in names:
            if name not in space.names:
                space.names[name] = None
                if name in namespace:
                    yield f"global {name}", namespace[name]


def _file_of_class(kind: type) -> str:
    module = sys.modules.get(getattr(kind, "__module__", "") or "")
    if module is None or not kind.__flags__ & _HEAP_TYPE:
        return _LIBRARY
    return getattr(module, "__file__", None) or ("<string>" if module.__name__ == "__main__" else _LIBRARY)


def _function_of(value: Any) -> Any:
    """The function in what a class holds: a method, a property."""
    for name in ("__func__", "fget", "func"):
        if not is_a(value, types.FunctionType):
            value = getattr(value, name, value) if is_a(value, (staticmethod, classmethod, property)) else value
    return value if is_a(value, types.FunctionType) else None


def _attributes_of_class(kind: type) -> Dict[str, Any]:
    """The data among what a class holds."""
    return {
        name: value
        for name, value in list(vars(kind).items())
        if not (name.startswith("__") and name.endswith("__"))
        and name not in ("_abc_impl", "_abc_cache")
        and not is_a(value, (types.FunctionType, staticmethod, classmethod, property, type))
        and not hasattr(type(value), "__get__")
    }


def _items(found: Any) -> Iterator[Tuple[str, Any]]:
    if is_a(found, (list, tuple, collections.deque)):
        base = list if is_a(found, list) else tuple if is_a(found, tuple) else collections.deque
        yield from ((f"[{index}]", item) for index, item in enumerate(base.__iter__(found)))
    elif is_a(found, dict):
        for key, value in list(dict.items(found)):
            yield f"[{_text(key)}]", value
            if not is_a(key, _ATOMS):
                yield f".<key {_text(key)}>", key
    elif is_a(found, (set, frozenset)):
        for item in list(found):
            if not is_a(item, _ATOMS):
                yield ".<item>", item
    elif is_a(found, numpy.ndarray) and found.dtype.hasobject:
        raise NotVerifiable("an object cannot be copied: numpy.ndarray of objects")
    elif is_a(found, BaseException):
        yield ".args", found.args


def _text(key: Any) -> str:
    return repr(key) if is_a(key, _ATOMS) else f"<{type(key).__name__}>"


def _dict_of(found: Any) -> Optional[Dict[str, Any]]:
    try:
        attributes = object.__getattribute__(found, "__dict__")
    except AttributeError:
        return None
    return attributes if type(attributes) is dict else None


def _slots_of(found: Any) -> Iterator[Tuple[str, Any]]:
    for kind in type(found).__mro__:
        if kind.__flags__ & _HEAP_TYPE:
            for name, member in vars(kind).items():
                if isinstance(member, types.MemberDescriptorType):
                    yield name, member


def _attributes(found: Any) -> Dict[str, Any]:
    result = dict(_dict_of(found) or {})
    for name, member in _slots_of(found):
        value = _slot(member, found)
        if value is not _MISSING:
            result[name] = value
    return result


def _slot(member: Any, found: Any) -> Any:
    try:
        return member.__get__(found, type(found))
    except AttributeError:
        return _MISSING


def _has_state(found: Any) -> bool:
    return is_a(found, (random.Random, numpy.random.RandomState, numpy.random.Generator))


def state_of(found: Any) -> Any:
    """The state of a generator of random numbers."""
    if is_a(found, random.Random):
        return found.getstate()
    if is_a(found, numpy.random.RandomState):
        return found.get_state(legacy=False)
    return copy.deepcopy(found.bit_generator.state)


def _set_state(found: Any, state: Any) -> None:
    if is_a(found, random.Random):
        found.setstate(state)
    elif is_a(found, numpy.random.RandomState):
        found.set_state(state)
    else:
        found.bit_generator.state = copy.deepcopy(state)


class Snapshot:
    """All that a call reaches, as it is now."""

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
        self.backward = _Backward()
        if strict:
            _refuse_shared_memory(self.tensors)
            self._pristine = {id(tensor): _kept(tensor) for tensor in self.tensors}
        for found in self._objects:
            self._restores += _restores_of(found)

    def restore(self) -> None:
        """Take back all writes but those to tensors."""
        for restore in self._restores:
            restore()

    def put_copies(self) -> List[Tuple[str, Any]]:
        """Put copies of the tensors in their places; those that gradients are asked for."""
        self.backward = _Backward()
        self._copies = {}
        for tensor in self.tensors:
            self._copies[id(tensor)] = self._copy(tensor)
        self._states = {key: _backward_state(copied) for key, copied in self._copies.items()}
        # Nothing is rebuilt that holds no tensor.
        for found in self._objects:
            _replace(found, self.copied)
        return [
            (self._paths[id(tensor)], self._copies[id(tensor)])
            for tensor in self.tensors
            if not tensor.stop_gradient
        ]

    def inputs(self) -> List[Tuple[str, Any]]:
        """The tensors themselves that gradients are asked for."""
        return [(self._paths[id(tensor)], tensor) for tensor in self.tensors if not tensor.stop_gradient]

    def writes_with_gradients(self) -> bool:
        """Whether the run on copies wrote to a tensor what a backward pass sees, which cannot be taken back."""
        return any(_backward_state(self._copies[key]) != state for key, state in self._states.items())

    def restore_tensors(self) -> None:
        """Take back the writes to tensors."""
        for tensor in self.tensors:
            # Kernels write to running statistics without counting it.
            kept = self._pristine[id(tensor)][0].numpy()
            if tensor.numpy().tobytes() != kept.tobytes():
                tensor.get_tensor().set(kept, paddle.framework._current_expected_place())

    def copied(self, found: Any) -> Any:
        """What stands for an object in the run on copies."""
        if is_a(found, paddle.Tensor):
            return self._copies.get(id(found), found)
        if is_a(found, tuple):
            items = [self.copied(item) for item in tuple.__iter__(found)]
            if all(new is old for new, old in zip(items, tuple.__iter__(found))):
                return found
            result: Any = tuple.__new__(type(found), items)
            if _dict_of(found):
                result.__dict__.update(_dict_of(found))
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
                result = kept.clone()
        if not tensor.is_leaf and not tensor.stop_gradient:
            result.stop_gradient = False
            result.register_hook(self.backward.note_beyond)
            with paddle.set_grad_enabled(True):
                result = paddle.assign(result)
        else:
            result.stop_gradient = tensor.stop_gradient
            if not tensor.stop_gradient:
                result.register_hook(self.backward.note)
        result.name = tensor.name
        result.persistable = tensor.persistable
        if grad is not None:
            result.grad = grad.clone()
        result.__dict__.update(tensor.__dict__)
        return result


def _backward_state(tensor: Any) -> Tuple[bool, bool, int]:
    return tensor.is_leaf, tensor.stop_gradient, 0 if tensor.stop_gradient else tensor.inplace_version


class _Backward:
    """Whether a backward pass ran, and whether it reached what was computed before the call.

    Hooks hold this object, and not the copies, which hold the hooks.
    """

    ran = False
    went_beyond = False

    def note(self, grad: Any) -> None:
        self.ran = True

    def note_beyond(self, grad: Any) -> None:
        self.ran = self.went_beyond = True


def _parameter_type() -> Any:
    return paddle.base.framework.EagerParamBase


def _kept(tensor: Any) -> Tuple[Any, Any]:
    """A copy of a tensor's elements, and of its gradient's."""
    if not tensor.is_dense() or not tensor._is_initialized():
        raise NotVerifiable("a tensor that is not dense")
    with paddle.no_grad():
        kept = copy.deepcopy(tensor) if isinstance(tensor, _parameter_type()) else tensor.detach().clone()
        grad = None if tensor.grad is None else tensor.grad.detach().clone()
    return kept, grad


def _refuse_shared_memory(tensors: List[Any]) -> None:
    spans = []
    for tensor in tensors:
        if tensor.is_dense() and tensor._is_initialized() and tensor.size:
            start = tensor.data_ptr()
            spans.append((start, start + tensor.size * tensor.element_size()))
    spans.sort()
    if any(before[1] > after[0] for before, after in zip(spans, spans[1:])):
        raise NotVerifiable("tensors that share memory")


def _restores_of(found: Any) -> List[Callable[[], None]]:
    """What takes the writes to an object back, if any can be made."""
    if is_a(found, (paddle.Tensor, types.MethodType, functools.partial, _sot.Translated)):
        return []
    if is_a(found, Names):
        return [functools.partial(_restore_names, found, {n: found.namespace.get(n, _MISSING) for n in found.names})]
    if is_a(found, types.CellType):
        try:
            return [functools.partial(setattr, found, "cell_contents", found.cell_contents)]
        except ValueError:
            return [functools.partial(_empty, found)]
    if is_a(found, type):
        if is_programs(_file_of_class(found)):
            return [functools.partial(_restore_class, found, _attributes_of_class(found))]
        return []
    if _has_state(found):
        return [functools.partial(_set_state, found, state_of(found))]
    restores: List[Callable[[], None]] = []
    if is_a(found, dict):
        restores.append(functools.partial(_restore_dict, found, dict(dict.items(found))))
    elif is_a(found, list):
        restores.append(functools.partial(_restore_list, found, list.__getitem__(found, slice(None))))
    elif is_a(found, (set, collections.deque)):
        restores.append(functools.partial(_restore_items, found, list(found)))
    elif is_a(found, bytearray):
        restores.append(functools.partial(_restore_list, found, bytes(found)))
    elif is_a(found, numpy.ndarray):
        restores.append(functools.partial(_restore_array, found, found.copy()))
    attributes = _dict_of(found)
    if attributes is not None:
        restores.append(functools.partial(_restore_dict, attributes, dict(attributes)))
    for _, member in _slots_of(found):
        restores.append(functools.partial(_restore_slot, found, member, _slot(member, found)))
    return restores


def _restore_names(space: Names, values: Dict[str, Any]) -> None:
    for name, value in values.items():
        if value is _MISSING:
            space.namespace.pop(name, None)
        elif space.namespace.get(name, _MISSING) is not value:
            space.namespace[name] = value


def _empty(cell: Any) -> None:
    try:
        del cell.cell_contents
    except ValueError:
        pass


def _restore_class(kind: type, values: Dict[str, Any]) -> None:
    now = _attributes_of_class(kind)
    for name in now:
        if name not in values:
            type.__delattr__(kind, name)
    for name, value in values.items():
        if now.get(name, _MISSING) is not value:
            type.__setattr__(kind, name, value)


def _restore_dict(found: Any, values: Dict[Any, Any]) -> None:
    now = list(dict.items(found))
    if len(now) == len(values) and all(a is c and b is d for (a, b), (c, d) in zip(now, values.items())):
        return
    if [id(key) for key, _ in now] == list(map(id, values)):
        for key, value in values.items():
            dict.__setitem__(found, key, value)
        return
    dict.clear(found)
    if is_a(found, collections.OrderedDict):
        collections.OrderedDict.clear(found)
        for key, value in values.items():
            collections.OrderedDict.__setitem__(found, key, value)
    else:
        dict.update(found, values)


def _restore_list(found: Any, values: Any) -> None:
    base = list if is_a(found, list) else bytearray
    if len(found) != len(values) or any(a is not b for a, b in zip(found, values)):
        base.__setitem__(found, slice(None), values)


def _restore_items(found: Any, values: List[Any]) -> None:
    if list(found) != values or any(a is not b for a, b in zip(found, values)):
        found.clear()
        (found.update if is_a(found, set) else found.extend)(values)


def _restore_array(found: Any, values: Any) -> None:
    if found.shape != values.shape:
        found.shape = values.shape
    if found.tobytes() != values.tobytes():
        numpy.copyto(found, values, casting="no")


def _restore_slot(found: Any, member: Any, value: Any) -> None:
    now = _slot(member, found)
    if value is _MISSING and now is not _MISSING:
        member.__delete__(found)
    elif now is not value:
        member.__set__(found, value)


def _replace(found: Any, new_of: Callable[[Any], Any]) -> None:
    """Put what stands for its parts into an object."""

    def put(pairs: Any, write: Callable[[Any, Any], None]) -> None:
        for key, value in list(pairs):
            new = new_of(value)
            if new is not value:
                write(key, new)

    if is_a(found, (paddle.Tensor, types.MethodType, functools.partial, _sot.Translated, tuple)):
        return
    if is_a(found, Names):
        put([(n, found.namespace[n]) for n in found.names if n in found.namespace], found.namespace.__setitem__)
    elif is_a(found, types.CellType):
        try:
            put([("cell_contents", found.cell_contents)], functools.partial(setattr, found))
        except ValueError:
            pass
    elif is_a(found, type):
        if is_programs(_file_of_class(found)):
            put(_attributes_of_class(found).items(), functools.partial(type.__setattr__, found))
    elif is_a(found, types.FunctionType):
        put(found.__dict__.items(), found.__dict__.__setitem__)
    elif not _has_state(found):
        if is_a(found, dict):
            put(dict.items(found), functools.partial(dict.__setitem__, found))
        elif is_a(found, list):
            put(enumerate(list.__iter__(found)), functools.partial(list.__setitem__, found))
        elif is_a(found, collections.deque):
            put(enumerate(found), functools.partial(collections.deque.__setitem__, found))
        elif is_a(found, set) and any(is_a(item, paddle.Tensor) for item in found):
            items = [new_of(item) for item in found]
            found.clear()
            found.update(items)
        attributes = _dict_of(found)
        if attributes is not None:
            put(attributes.items(), attributes.__setitem__)
        for _, member in _slots_of(found):
            value = _slot(member, found)
            if value is not _MISSING:
                put([("", value)], lambda _, new, member=member: member.__set__(found, new))  # type: ignore[misc]
