"""The summary of a process: what the index of a run lists, and compares between the processes."""

from __future__ import annotations

import hashlib
from typing import Any

_HARMLESS = ("nothing-to-compile", "raises")
"""Reasons of fallbacks that are no limit of the tracer."""
_TYPES = {
    "title": str,
    "created": str,
    "seconds": float,
    "functions": list,
    **dict.fromkeys(("translations", "graphs", "breaks", "fallbacks", "recompiles", "hits"), int),
}


def of(run: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of a report's data."""
    translations = run["translations"]
    return {
        "title": run["title"],
        "process": run["process"],
        "created": run["created"],
        "translations": sum(1 for translation in translations if translation["attempts"]),
        "graphs": sum(translation["graph_count"] for translation in translations),
        "breaks": sum(map(_is_break, translations)),
        "fallbacks": sum(map(_is_fallback, translations)),
        "recompiles": sum(1 for translation in translations if translation["earlier"] and translation["attempts"]),
        "hits": run["counts"]["hits"],
        "seconds": float(sum(map(_seconds_of, translations))),
        "functions": _functions(translations),
    }


def is_whole(summary: Any) -> bool:
    """Return whether an object is a summary."""
    return isinstance(summary, dict) and all(isinstance(summary.get(name), kind) for name, kind in _TYPES.items())


def _functions(translations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each function what the processes of a run should have in common."""
    functions: dict[tuple[Any, ...], dict[str, Any]] = {}
    for translation in translations:
        resume = translation["resume"]["line"] if translation["resume"] else None
        place = {**{name: translation[name] for name in ("function", "file", "line")}, "resume": resume}
        fresh = {**place, "first": translation["id"], "translations": 0, "breaks": 0, "fallbacks": 0, "graphs": []}
        found = functions.setdefault(tuple(place.values()), fresh)
        found["translations"] += bool(translation["attempts"])
        found["breaks"] += _is_break(translation)
        found["fallbacks"] += _is_fallback(translation)
        graphs = translation["graphs"]
        found["graphs"] += [{"statements": len(graph["statements"]), "digest": _digest(graph)} for graph in graphs]
    return list(functions.values())


def _digest(graph: dict[str, Any]) -> str:
    """Return a text that graphs with the same operations have in common, on tensors of the same shapes and types."""
    kinds = {value["name"]: f"{value['shape']} {value['dtype']}" for value in graph["values"]}
    inputs = [kinds.get(name) for name in graph["inputs"]]
    operations = [(at["callee"], [kinds.get(name) for name in at["outputs"]]) for at in graph["statements"]]
    return hashlib.sha256(repr((inputs, operations)).encode()).hexdigest()[:16]


def _is_break(translation: dict[str, Any]) -> bool:
    return translation["outcome"] == "translated" and translation["reason"] is not None


def _is_fallback(translation: dict[str, Any]) -> bool:
    """Return whether a limit of the tracer has left the frame to CPython."""
    reason = translation["reason"]
    return translation["outcome"] == "fallback" and reason is not None and reason["id"] not in _HARMLESS


def _seconds_of(translation: dict[str, Any]) -> float:
    """Return the seconds that a translation took, with abandoned attempts and later compilations, as the page does."""
    thrown_away = [attempt["seconds"] for attempt in translation["attempts"] if not attempt["stood"]]
    later = [compiled["seconds"] for compiled in translation["compiled_later"]]
    return float(sum(translation["seconds"].values()) + sum(thrown_away) + sum(later))
