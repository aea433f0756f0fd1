"""The objects that a call reaches, and the parts of each.

Only `Walk.parts` decides what the parts of an object are. An object that it does not know ends in `NotVerifiable`.
"""

from __future__ import annotations

import collections
import copy
import functools
import operator
import random
import struct
import sys
import sysconfig
import types
import weakref
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import numpy
import paddle

from .. import _sot
from . import loaders
from .outside import NotVerifiable

MOST_OBJECTS = 100_000
"""Maximum number of objects that a verified call may reach."""

MISSING = object()
_HEAP_TYPE = 1 << 9
_ATOMS = (
    type(None), bool, int, float, complex, str, bytes, range, slice, type(Ellipsis), type(NotImplemented),
    types.CodeType,
    types.BuiltinFunctionType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.MethodWrapperType,
    property, staticmethod, classmethod,
    weakref.ref, numpy.dtype, numpy.generic, numpy.ufunc, type(paddle.float32), paddle.CPUPlace, paddle.CUDAPlace,
)  # fmt: skip
# Built-in bases whose parts `Walk.parts` and `items_of` know.
_BASES = (
    object, list, dict, set, frozenset, tuple, collections.deque, collections.OrderedDict, collections.defaultdict,
    int, float, complex, str, bytes, bytearray, numpy.ndarray, BaseException,
    # The contents of these never change, or are not compared.
    operator.itemgetter, operator.attrgetter, operator.methodcaller, functools._lru_cache_wrapper,
)  # fmt: skip
# Modules whose objects belong to the interpreter, and which programs do not look into.
_SHARED = (
    "logging", "threading", "_thread", "re", "contextvars", "_contextvars", "inspect", "typing", "abc", "enum", "ast",
)  # fmt: skip
# Paddle's static programs and similar objects, which eager code carries along.
_PADDLES_OWN = ("paddle.base.libpaddle", "paddle.base.framework", "paddle.base.unique_name")
_LIBRARY = sysconfig.get_path("stdlib")
_OWN = tuple(
    str(Path(path).resolve()) for path in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")} if path
) + (str(Path(__file__).resolve().parents[1]),)


@functools.lru_cache(maxsize=None)
def is_programs(file: str) -> bool:
    """Return whether a file belongs to the program, and not to an installed package."""
    if "site-packages" in file or "dist-packages" in file:
        return False
    return not file.startswith(_OWN) and not str(Path(file).resolve()).startswith(_OWN)


def is_programs_module(module: types.ModuleType) -> bool:
    """Return whether a module belongs to the program: by its file, or if it and its package have none."""
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return is_programs(file)
    package = str(getattr(module, "__name__", "")).partition(".")[0]
    return package == "__main__" or (package == module.__name__ and package not in sys.builtin_module_names)


def is_a(found: Any, kinds: Any) -> bool:
    """Like `isinstance`, without calling a `__class__` or `__getattribute__` of the program."""
    return issubclass(type(found), kinds)


class Names:
    """The names of a namespace that code of the program mentions."""

    def __init__(self, namespace: Dict[str, Any]) -> None:
        self.namespace = namespace
        self.names: Dict[str, None] = {}


class Walk:
    """All objects that were met, in order, each once, with a path that leads to it."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.found: Dict[int, Tuple[str, Any]] = {}
        self.spaces: Dict[int, Names] = {}
        self.codes: Set[int] = set()
        self.names: Dict[str, None] = {}
        """The names that the code met so far mentions."""
        self.modules: List[types.ModuleType] = []
        """The modules of the program that were met."""
        self.opaque: Dict[int, str] = {}

    def visit(self, path: str, root: Any) -> None:
        """Add an object and everything that it holds."""
        waiting = [(path, root)]
        while waiting:
            path, found = waiting.pop()
            if is_a(found, _ATOMS) and type(found) in _ATOMS or id(found) in self.found or loaders.is_known(found):
                continue
            self.found[id(found)] = (path, found)
            if len(self.found) > MOST_OBJECTS:
                raise NotVerifiable(f"more than {MOST_OBJECTS} objects are reached")
            waiting.extend(reversed([(path + suffix, part) for suffix, part in self.parts(found)]))

    def parts(self, found: Any) -> Iterator[Tuple[str, Any]]:
        """Yield the parts of an object, each with the suffix of its path."""
        if is_a(found, paddle.Tensor):
            return
        if is_a(found, Names):
            for name in found.names:
                if name in found.namespace:
                    yield f"global {name}", found.namespace[name]
        elif is_a(found, types.ModuleType):
            if is_programs_module(found):
                self.modules.append(found)
                yield from self._of_names(vars(found), list(self.names))
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
            if is_programs(file_of_class(found)):
                yield from ((f".{name}", value) for name, value in attributes_of_class(found).items())
                for base in found.__mro__:
                    for value in list(vars(base).values()):
                        yield "", _function_of(value)
        elif has_state(found) or is_a(found, _ATOMS):
            pass
        elif self._is_known(found):
            yield from items_of(found)
            yield from ((f".{name}", value) for name, value in attributes_of(found).items())
            yield "", type(found)

    def _is_known(self, found: Any) -> bool:
        kind = type(found)
        module = getattr(kind, "__module__", None) or ""
        if isinstance(module, str) and (module.split(".")[0] in _SHARED or module.startswith(_PADDLES_OWN)):
            return False
        for base in kind.__mro__:
            if is_of_c(base) and base not in _BASES and not issubclass(base, BaseException):
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
        self.names.update(dict.fromkeys(names))
        yield from self._of_names(namespace, names)
        # The names that the code mentions may be attributes of modules that were met.
        for module in self.modules:
            yield from self._of_names(vars(module), names)

    def _of_names(self, namespace: Dict[str, Any], names: List[str]) -> Iterator[Tuple[str, Any]]:
        space = self.spaces.setdefault(id(namespace), Names(namespace))
        for name in names:
            if name not in space.names:
                space.names[name] = None
                if name in namespace:
                    yield f"global {name}", namespace[name]


def is_of_c(kind: type) -> bool:
    """Return whether objects of a class have memory that only C code reads, beyond the slots that it declares."""
    if not kind.__flags__ & _HEAP_TYPE or kind.__base__ is None:
        return True
    own = vars(kind)
    slots = sum(isinstance(member, types.MemberDescriptorType) for member in own.values())
    slots += ("__dict__" in own) + ("__weakref__" in own)
    return kind.__basicsize__ - kind.__base__.__basicsize__ > slots * struct.calcsize("P")


def file_of_class(kind: type) -> str:
    module = sys.modules.get(getattr(kind, "__module__", "") or "")
    if module is None or not kind.__flags__ & _HEAP_TYPE:
        return _LIBRARY
    return getattr(module, "__file__", None) or ("<string>" if module.__name__ == "__main__" else _LIBRARY)


def _function_of(value: Any) -> Any:
    """Return the function in a class's attribute: a method, or the getter of a property."""
    for name in ("__func__", "fget", "func"):
        if not is_a(value, types.FunctionType):
            value = getattr(value, name, value) if is_a(value, (staticmethod, classmethod, property)) else value
    return value if is_a(value, types.FunctionType) else None


def attributes_of_class(kind: type) -> Dict[str, Any]:
    """Return the attributes of a class that are data."""
    return {
        name: value
        for name, value in list(vars(kind).items())
        if not (name.startswith("__") and name.endswith("__"))
        and name not in ("_abc_impl", "_abc_cache")
        and not is_a(value, (types.FunctionType, staticmethod, classmethod, property, type))
        and not hasattr(type(value), "__get__")
    }


def items_of(found: Any) -> Iterator[Tuple[str, Any]]:
    if is_a(found, (list, tuple, collections.deque)):
        base = list if is_a(found, list) else tuple if is_a(found, tuple) else collections.deque
        yield from ((f"[{index}]", item) for index, item in enumerate(base.__iter__(found)))
    elif is_a(found, dict):
        for key, value in list(dict.items(found)):
            yield f"[{text_of(key)}]", value
            if not is_a(key, _ATOMS):
                yield f".<key {text_of(key)}>", key
    elif is_a(found, (set, frozenset)):
        for item in list(found):
            if not is_a(item, _ATOMS):
                yield ".<item>", item
    elif is_a(found, numpy.ndarray) and found.dtype.hasobject:
        raise NotVerifiable("an object cannot be copied: numpy.ndarray of objects")
    elif is_a(found, BaseException):
        yield ".args", found.args


def text_of(key: Any) -> str:
    return repr(key) if is_a(key, _ATOMS) else f"<{type(key).__name__}>"


def dict_of(found: Any) -> Optional[Dict[str, Any]]:
    try:
        attributes = object.__getattribute__(found, "__dict__")
    except AttributeError:
        return None
    return attributes if type(attributes) is dict else None


def slots_of(found: Any) -> Iterator[Tuple[str, Any]]:
    for kind in type(found).__mro__:
        if kind.__flags__ & _HEAP_TYPE:
            for name, member in vars(kind).items():
                if isinstance(member, types.MemberDescriptorType):
                    yield name, member


def attributes_of(found: Any) -> Dict[str, Any]:
    result = dict(dict_of(found) or {})
    for name, member in slots_of(found):
        value = slot(member, found)
        if value is not MISSING:
            result[name] = value
    return result


def slot(member: Any, found: Any) -> Any:
    try:
        return member.__get__(found, type(found))
    except AttributeError:
        return MISSING


def has_state(found: Any) -> bool:
    return is_a(found, (random.Random, numpy.random.RandomState, numpy.random.Generator))


def state_of(found: Any) -> Any:
    """Return the state of a random number generator."""
    if is_a(found, random.Random):
        return found.getstate()
    if is_a(found, numpy.random.RandomState):
        return found.get_state(legacy=False)
    return copy.deepcopy(found.bit_generator.state)
