"""`sot.explain`: what the tracer made of one call, graph by graph and break by break."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, field, fields
from typing import Any, Callable, Iterator

from . import _report_files, _sot
from ._counts import counted
from ._registration import shown_as


@dataclass(frozen=True)
class Record:
    """What one translation made of one code object."""

    name: str
    filename: str
    line: int
    outcome: str
    """`translated`, or `fallback` if the frame was left to CPython."""
    sir: str = ""
    """The statements of the subgraph, as text; empty if there is none."""
    statements: int = 0
    """Number of operations of the subgraph: its statements, and those of the StatementIRs that it calls."""
    guards: tuple[str, ...] = ()
    reason: str | None = None
    """Why the frame was left to CPython, or why the graph ended before the code object did."""
    reason_line: int | None = None
    reason_id: str | None = None
    """The stable id of the reason; docs/graph-breaks.md lists them."""
    kind: str | None = None
    """The kind of break: DDCF, UNSPS, CDBL or UNIMP; FRAME if the reason concerns the frame as a whole."""
    hint: str | None = None
    """What to do about the break or fallback."""
    page: str | None = None
    """Address of a page about the reason, if the plug-in that defines the reason names one."""
    report: str | None = None
    """Kind, id, reason, the stack with source and carets, and what to do: the text of a `GraphBreakError`."""
    stack: tuple[tuple[str, int, str, tuple[int, int] | None], ...] = ()
    """Where it happened, innermost call first: file, line, function, and the columns of the expression where known."""

    @classmethod
    def _from(cls, raw: dict[str, Any]) -> Record:
        known = {f.name: raw[f.name] for f in fields(cls) if f.name in raw}
        known["guards"] = tuple(known.get("guards", ()))
        known["stack"] = tuple(known.get("stack", ()))
        return cls(**known)

    @property
    def is_break(self) -> bool:
        """True if the translated code ends in a graph break."""
        return self.outcome == "translated" and self.reason is not None

    @property
    def is_fallback(self) -> bool:
        """True if the frame was left to CPython."""
        return self.outcome == "fallback"

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.filename}:{self.line}): {self.outcome}"]
        if self.reason is not None:
            what = "left to CPython" if self.is_fallback else "graph break"
            first, *rest = (self.report or self.reason).splitlines()
            lines.append(f"  {what} at line {self.reason_line or self.line}: {first}")
            lines += [f"  {line}" for line in rest]
        if self.statements:
            lines.append(f"  {counted(self.statements, 'statement')}:")
            lines += _indented(self.sir)
        if self.guards:
            lines.append(f"  {counted(len(self.guards), 'guard')}:")
            lines += _indented("\n".join(self.guards))
        return "\n".join(lines)


@dataclass(frozen=True)
class Explanation:
    """The explanation of one call: its result, and a record for each code object that was translated for it."""

    result: Any
    records: tuple[Record, ...]
    data: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The records with everything else that a report shows; docs/report-schema.json describes it."""

    def save(self, path: _report_files.Path) -> None:
        """Write a report: a page if `path` ends in `.html`, its data if it ends in `.json`."""
        _report_files.write(path, self.data)

    @property
    def subgraphs(self) -> int:
        """Number of subgraphs of the call."""
        return sum(1 for record in self.records if record.statements)

    @property
    def statements(self) -> int:
        """Number of statements in all subgraphs."""
        return sum(record.statements for record in self.records)

    @property
    def guards(self) -> int:
        """Number of guards of all translations."""
        return sum(len(record.guards) for record in self.records)

    @property
    def breaks(self) -> tuple[Record, ...]:
        """The translations that end in a graph break."""
        return tuple(record for record in self.records if record.is_break)

    @property
    def fallbacks(self) -> tuple[Record, ...]:
        """The frames left to CPython."""
        return tuple(record for record in self.records if record.is_fallback)

    def __str__(self) -> str:
        summary = ", ".join(
            [
                counted(self.subgraphs, "subgraph"),
                counted(self.statements, "statement"),
                counted(self.guards, "guard"),
                counted(len(self.breaks), "break"),
                counted(len(self.fallbacks), "fallback"),
            ]
        )
        return "\n\n".join([summary, *map(str, self.records)])


def explain(fn: Callable[..., Any]) -> Callable[..., Explanation]:
    """Return a function that calls `fn` translated, and returns an `Explanation` of the call.

    The function forgets all translations first, because what is translated already would leave nothing to report.
    """

    if not callable(fn):
        raise TypeError(f"{__package__}.explain(): fn is a function or another callable, not {shown_as(fn)}")

    @functools.wraps(fn, updated=())
    def explained(*args: Any, **kwargs: Any) -> Explanation:
        with _attributes_kept(fn):
            translated = _sot.symbolic_translate(fn)
            _sot.reset()
            before, collected = _sot.record_translations(True), _report_files.collect(True)
            first = _sot.report_upcoming()
            try:
                _sot.take_records()
                result = translated(*args, **kwargs)
                records = tuple(map(Record._from, _sot.take_records()))
                name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
                return Explanation(result, records, _report_files.data(first, f"explain({name})"))
            finally:
                _sot.record_translations(before)
                _report_files.collect(collected)
                if not collected:
                    _sot.report_forget(first)

    return explained


@contextlib.contextmanager
def _attributes_kept(fn: Any) -> Iterator[None]:
    """Keep the method of a model that calls of the model run: translating the model replaces it, explaining must not."""
    attributes = getattr(fn, "__dict__", {})
    before = dict(attributes)
    try:
        yield
    finally:
        for name, value in list(attributes.items()):
            if isinstance(value, _sot.Translated) and before.get(name) is not value:
                if name in before:
                    attributes[name] = before[name]
                else:
                    del attributes[name]


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.splitlines()]
