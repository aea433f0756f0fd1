"""Maps of the package `immutables` as containers of tensors: reading, `set` and `delete` stay in the graph.

Maps are written in C, so without these registrations each call of a method breaks the graph. A map is flattened by its
keys: the keys are guarded, the values may be tensors. `items()` and `values()` are registered as containers, too.
`update` looks into its argument, so it is replaced by the equivalent calls of `set`.
"""

from typing import Any, Iterable, List, Tuple

import immutables
import sot

__all__ = ["register", "registered"]

registered: List[Any] = []


def register() -> None:
    """Registers the maps with sot; `import sot` calls it by the entry point `sot.plugins`."""
    empty: "immutables.Map[Any, Any]" = immutables.Map()
    registered[:] = [
        sot.register.container(immutables.Map, _flatten, _unflatten),
        sot.register.container(type(empty.items()), _flatten_items, _unflatten_items),
        sot.register.container(type(empty.values()), _flatten_values, _unflatten_values),
        sot.register.substitute(immutables.Map.update, _update),
    ]


def _flatten(held: "immutables.Map[Any, Any]") -> Tuple[List[Any], Tuple[Any, ...]]:
    keys = tuple(held)
    return [held[key] for key in keys], keys


def _unflatten(keys: Tuple[Any, ...], values: Iterable[Any]) -> "immutables.Map[Any, Any]":
    return immutables.Map(zip(keys, values))


def _flatten_items(view: Any) -> Tuple[List[Any], Tuple[Any, ...]]:
    items = list(view)
    return [value for _, value in items], tuple(key for key, _ in items)


def _unflatten_items(keys: Tuple[Any, ...], values: Iterable[Any]) -> Any:
    return _unflatten(keys, values).items()


def _flatten_values(view: Any) -> Tuple[List[Any], int]:
    return list(view), len(view)


def _unflatten_values(count: int, values: Iterable[Any]) -> Any:
    # The iteration order of a map depends on its keys.
    keys = tuple(immutables.Map((number, None) for number in range(count)))
    return _unflatten(keys, values).values()


def _update(held: "immutables.Map[Any, Any]", *args: Any, **kwargs: Any) -> "immutables.Map[Any, Any]":
    if len(args) > 1 or args and not isinstance(args[0], (dict, immutables.Map)):
        return immutables.Map.update(held, *args, **kwargs)
    for given in (*args, kwargs):
        for key in given:
            held = held.set(key, given[key])
    return held
