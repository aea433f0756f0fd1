"""`sot.stats`: counters of what the tracer did so far."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from . import _sot


@dataclass(frozen=True)
class Stats:
    """Counts since the start or the last `reset()`. Reasons carry the source location that they apply to."""

    translations: int = 0
    """Translations of code objects: a code object counts once for each set of guards."""
    hits: int = 0
    """Calls that ran translated code, because the guards of an entry held."""
    misses: int = 0
    """Calls for which the guards of no entry held, so that a translation was tried."""
    graphs: int = 0
    """Subgraphs built."""
    replayed: int = 0
    """Subgraphs that are called operation by operation, because they are smaller than `MIN_GRAPH_SIZE`."""
    graph_errors: int = 0
    """Runs of subgraphs that raised. Each of these frames ran again in CPython, where the operation raises in its
    place."""
    panics: int = 0
    """Panics of the tracer or of a plug-in, in translations and guards; the frames were left to CPython."""
    breaks: dict[str, int] = field(default_factory=dict)
    """Graph breaks by reason."""
    fallbacks: dict[str, int] = field(default_factory=dict)
    """Frames left to CPython by reason."""
    verified: int = 0
    """Calls that verify mode compared with the program's own run."""
    differences: int = 0
    """Verified calls whose result or effects differ from the program's own run."""
    not_verified: dict[str, int] = field(default_factory=dict)
    """Calls that verify mode could not compare, by reason."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time spent by phase."""

    @property
    def reasons(self) -> dict[str, int]:
        """Breaks and fallbacks by the stable id of their reason, at all source locations together."""
        counts: dict[str, int] = {}
        for placed in (self.breaks, self.fallbacks):
            for reason, count in placed.items():
                reason_id = reason.partition(":")[0]
                counts[reason_id] = counts.get(reason_id, 0) + count
        return counts

    def __str__(self) -> str:
        counts = [
            counted(self.translations, "translation"),
            counted(self.hits, "hit"),
            counted(self.misses, "miss", "misses"),
            counted(self.graphs, "graph"),
            f"{self.replayed} replayed",
        ]
        lines = [", ".join(counts)]
        if self.graph_errors:
            runs = counted(self.graph_errors, "run of a graph", "runs of graphs")
            frames = _frames(self.graph_errors)
            lines.append(f"{runs} raised: {frames} ran again in CPython (SOT_LOGS=breaks shows why)")
        if self.panics:
            was = "was" if self.panics == 1 else "were"
            lines.append(f"{counted(self.panics, 'panic')}: {_frames(self.panics)} {was} left to CPython")
        lines += _reasons("break", self.breaks)
        lines += _reasons("fallback", self.fallbacks)
        if self.verified or self.not_verified:
            differ = counted(self.differences, "differs", "differ")
            lines.append(f"{counted(self.verified, 'call')} verified, {differ}")
        if self.not_verified:
            lines += _reasons("call not verified", self.not_verified, "calls not verified")
        if self.seconds:
            spent = ", ".join(f"{phase} {seconds * 1e3:.1f} ms" for phase, seconds in self.seconds.items())
            lines.append(f"time: {spent}")
        return "\n".join(lines)


def stats() -> Stats:
    """Return the counts so far."""
    counted = _sot.stats()
    return Stats(**{f.name: counted[f.name] for f in fields(Stats) if f.name in counted})


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, for people."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _frames(number: int) -> str:
    return "the frame" if number == 1 else "the frames"


def _reasons(noun: str, counts: dict[str, int], plural: str = "") -> list[str]:
    if not counts:
        return [f"no {plural or noun + 's'}"]
    often_first = sorted(counts.items(), key=lambda item: -item[1])
    return [f"{counted(sum(counts.values()), noun, plural)}:"] + [f"  {count} × {reason}" for reason, count in often_first]
