"""Plug-ins in Python: what installed distributions offer under an entry-point group is called once.

The group of the package `sot` is `sot.plugins`; another backend's package has one of its own.
"""

from __future__ import annotations

import warnings
from typing import Any

GROUP = f"{__package__}.plugins"

called: list[tuple[str, str, str, str | None]] = []
"""The entry points that were called: distribution and version, name, the function, and why it cannot be used."""


def load() -> None:
    """Call every entry point. One that fails is a warning, which names the distribution."""
    for distribution, entry in _entry_points():
        told = (distribution, entry.name, entry.value)
        try:
            entry.load()()
            called.append((*told, None))
        except Exception as error:
            called.append((*told, f"{type(error).__name__}: {error}"))
            text = f"the plug-in {entry.name!r} of {distribution} cannot be used: {type(error).__name__}: {error}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)


def _entry_points() -> list[tuple[str, Any]]:
    from importlib import metadata

    found: dict[tuple[str, str], tuple[str, Any]] = {}
    for path in metadata.distributions():
        try:
            # Most offer nothing of ours, and need not be parsed: that takes longer than all the rest of the import.
            if GROUP not in (path.read_text("entry_points.txt") or ""):
                continue
            name = f"{path.metadata['Name']} {path.version}"
            entries = [entry for entry in path.entry_points if entry.group == GROUP]
        except Exception:  # Broken metadata is not ours to report.
            continue
        for entry in entries:
            # Of a distribution that is found twice the first one counts, as for imports.
            found.setdefault((path.metadata["Name"], entry.name), (name, entry))
    return list(found.values())
