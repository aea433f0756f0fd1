"""The timeline of translations in the Trace Event Format, which Perfetto and Chromium's own viewer show."""

from __future__ import annotations

from typing import Any, Iterable

_TRACK = 1
"""The number of the track: translations are made one at a time."""


def of(report: dict[str, Any]) -> dict[str, Any]:
    """Return the trace of a report's data: a slice for each translation, with slices for its attempts and phases."""
    pid, rank = report["process"]["pid"], report["process"]["rank"]
    name = report["title"] if rank is None else f"{report['title']}, rank {rank}"
    labels = [("process_name", name), ("thread_name", f"{__package__}: translations")]
    events = [{"ph": "M", "name": kind, "args": {"name": text}} for kind, text in labels]
    for translation in report["translations"]:
        events += _events(translation, report["process"]["began"])
    return joined([{"traceEvents": [{"pid": pid, "tid": _TRACK, **event} for event in events]}])


def joined(traces: Iterable[dict[str, Any] | None]) -> dict[str, Any]:
    """Return the traces of several processes as one; what is no trace is left out."""
    events = [event for trace in traces if isinstance(trace, dict) for event in trace.get("traceEvents", [])]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _events(translation: dict[str, Any], origin: float) -> list[dict[str, Any]]:
    title = translation["function"]
    if translation["resume"]:
        title += f", from line {translation['resume']['line']}"
    began, seconds = origin + translation["began"], translation["seconds"]
    final = sum(seconds.values())
    abandoned = [attempt for attempt in translation["attempts"] if not attempt["stood"]]
    first = began - sum(attempt["seconds"] for attempt in abandoned)
    events = [_slice(title, first, began + final - first, _arguments(translation))]
    for attempt in abandoned:
        why = attempt["abandoned"]["text"] if attempt["abandoned"] else "no reason is known"
        events.append(_slice("abandoned attempt", first, attempt["seconds"], {"why": why}))
        first += attempt["seconds"]
    simulated = seconds["simulate"] + seconds["build"]
    if translation["attempts"]:
        events.append(_slice("simulate", began, simulated, {"seconds building statements": seconds["build"]}))
        events.append(_slice("compile", began + simulated, seconds["compile"], {}))
    if translation["reason"]:
        kind = "graph break" if translation["outcome"] == "translated" else "fallback"
        moment = {"ph": "i", "s": "t", "name": kind, "ts": _microseconds(began + final)}
        events.append({**moment, "args": _reason(translation["reason"])})
    for later in translation["compiled_later"]:
        text = f"{title}: compile after the first runs"
        events.append(_slice(text, origin + later["began"], later["seconds"], {"translation": translation["id"]}))
    return events


def _slice(name: str, began: float, seconds: float, arguments: dict[str, Any]) -> dict[str, Any]:
    duration = _microseconds(seconds)
    kind = {"ph": "X", "cat": "translation", "name": name}
    return {**kind, "ts": _microseconds(began), "dur": duration, "args": arguments}


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 1)


def _arguments(translation: dict[str, Any]) -> dict[str, Any]:
    """Return what the viewer lists for a translation."""
    told = {
        "translation": translation["id"],
        "place": f"{translation['file']}:{translation['line']}",
        "outcome": translation["outcome"],
        "statements": translation["statements"],
        "graphs": translation["graph_count"],
        "guards": translation["guard_count"],
        "hits": translation["hits"],
    }
    for index, failed in enumerate(translation["recompiled"]):
        told[f"guard that failed {index + 1}"] = f"{failed['guard']}; seen: {failed['seen']}"
    return told


def _reason(reason: dict[str, Any]) -> dict[str, Any]:
    at = reason["stack"][0]
    place = f"{at['file']}:{at['line']}"
    return {"id": reason["id"], "reason": reason["text"], "place": place, "what to do": reason["remedy"]}
