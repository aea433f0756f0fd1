"""How the writes to one object are taken back, and how copies of tensors are put into it."""

from __future__ import annotations

import collections
import copy
import functools
import random
import types
from typing import Any, Callable, Dict, List

import numpy
import paddle

from .. import _sot
from .state import (
    MISSING, Names, attributes_of_class, dict_of, file_of_class, has_state, is_a, is_programs, slot, slots_of, state_of,
)  # fmt: skip


def restores_of(found: Any) -> List[Callable[[], None]]:
    """Return the functions that take back writes to an object; none if it cannot be written to."""
    if is_a(found, (paddle.Tensor, types.MethodType, types.ModuleType, functools.partial, _sot.Translated)):
        return []
    if is_a(found, Names):
        return [functools.partial(_restore_names, found, {n: found.namespace.get(n, MISSING) for n in found.names})]
    if is_a(found, types.CellType):
        try:
            return [functools.partial(setattr, found, "cell_contents", found.cell_contents)]
        except ValueError:
            return [functools.partial(_empty, found)]
    if is_a(found, type):
        if is_programs(file_of_class(found)):
            return [functools.partial(_restore_class, found, attributes_of_class(found))]
        return []
    if has_state(found):
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
    attributes = dict_of(found)
    if attributes is not None:
        restores.append(functools.partial(_restore_dict, attributes, dict(attributes)))
    for _, member in slots_of(found):
        restores.append(functools.partial(_restore_slot, found, member, slot(member, found)))
    return restores


def _restore_names(space: Names, values: Dict[str, Any]) -> None:
    for name, value in values.items():
        if value is MISSING:
            space.namespace.pop(name, None)
        elif space.namespace.get(name, MISSING) is not value:
            space.namespace[name] = value


def _empty(cell: Any) -> None:
    try:
        del cell.cell_contents
    except ValueError:
        pass


def _restore_class(kind: type, values: Dict[str, Any]) -> None:
    now = attributes_of_class(kind)
    for name in now:
        if name not in values:
            type.__delattr__(kind, name)
    for name, value in values.items():
        if now.get(name, MISSING) is not value:
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
    if len(found) != len(values) or any(a is not b for a, b in zip(found, values)):
        found.clear()
        (found.update if is_a(found, set) else found.extend)(values)


def _restore_array(found: Any, values: Any) -> None:
    if found.shape != values.shape:
        found.shape = values.shape
    if found.tobytes() != values.tobytes():
        numpy.copyto(found, values, casting="no")


def _restore_slot(found: Any, member: Any, value: Any) -> None:
    now = slot(member, found)
    if value is MISSING and now is not MISSING:
        member.__delete__(found)
    elif now is not value:
        member.__set__(found, value)


def replace_parts(found: Any, new_of: Callable[[Any], Any]) -> None:
    """Replace the parts of an object by what stands for them."""

    def put(pairs: Any, write: Callable[[Any, Any], None]) -> None:
        for key, value in list(pairs):
            new = new_of(value)
            if new is not value:
                write(key, new)

    kinds_with_no_place = (paddle.Tensor, types.MethodType, types.ModuleType, functools.partial, _sot.Translated, tuple)
    if is_a(found, kinds_with_no_place):
        return
    if is_a(found, Names):
        put([(n, found.namespace[n]) for n in found.names if n in found.namespace], found.namespace.__setitem__)
    elif is_a(found, types.CellType):
        try:
            put([("cell_contents", found.cell_contents)], functools.partial(setattr, found))
        except ValueError:
            pass
    elif is_a(found, type):
        if is_programs(file_of_class(found)):
            put(attributes_of_class(found).items(), functools.partial(type.__setattr__, found))
    elif is_a(found, types.FunctionType):
        put(found.__dict__.items(), found.__dict__.__setitem__)
    elif not has_state(found):
        if is_a(found, dict):
            keys = [new_of(key) for key in dict.keys(found)]
            if any(new is not key for new, key in zip(keys, dict.keys(found))):
                _restore_dict(found, dict(zip(keys, list(dict.values(found)))))
            put(dict.items(found), functools.partial(dict.__setitem__, found))
        elif is_a(found, list):
            put(enumerate(list.__iter__(found)), functools.partial(list.__setitem__, found))
        elif is_a(found, collections.deque):
            put(enumerate(found), functools.partial(collections.deque.__setitem__, found))
        elif is_a(found, set) and any(is_a(item, paddle.Tensor) for item in found):
            items = [new_of(item) for item in found]
            found.clear()
            found.update(items)
        attributes = dict_of(found)
        if attributes is not None:
            put(attributes.items(), attributes.__setitem__)
        for _, member in slots_of(found):
            value = slot(member, found)
            if value is not MISSING:
                put([("", value)], lambda _, new, member=member: member.__set__(found, new))  # type: ignore[misc]


def _set_state(found: Any, state: Any) -> None:
    if is_a(found, random.Random):
        found.setstate(state)
    elif is_a(found, numpy.random.RandomState):
        found.set_state(state)
    else:
        found.bit_generator.state = copy.deepcopy(state)
