"""Maps of the package `immutables` as containers of tensors: reading, `set` and `delete` stay in the graph.

A map is written in C, so that without these registrations each call of one ends the graph. What it holds is taken apart by its
keys; keys are assumed, values may be tensors. Views (`items()`) and `update` end the graph, as without the registrations.
"""

from typing import Any, Iterable, List, Tuple

import immutables
import sot

__all__ = ["register", "registered"]

registered: List[Any] = []


def register() -> None:
    """Registers the maps with sot. `import sot` calls it, as the entry point `sot.plugins` says."""
    registered[:] = [sot.register.container(immutables.Map, _flatten, _unflatten)]


def _flatten(held: "immutables.Map[Any, Any]") -> Tuple[List[Any], Tuple[Any, ...]]:
    keys = tuple(held)
    return [held[key] for key in keys], keys


def _unflatten(keys: Tuple[Any, ...], values: Iterable[Any]) -> "immutables.Map[Any, Any]":
    return immutables.Map(zip(keys, values))
