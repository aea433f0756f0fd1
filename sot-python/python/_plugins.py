"""Plug-ins in Python: functions that installed distributions name in an entry-point group. Each is called once.

The group of the package `sot` is `sot.plugins`; the package of another backend has a group of its own.
"""

from __future__ import annotations

import warnings
from typing import Any

from ._registration import all_or_none

GROUP = f"{__package__}.plugins"

called: list[tuple[str, str, str, str | None]] = []
"""The entry points that were called: distribution and version, name, function, and the error if there was one."""


def load() -> None:
    """Call every entry point. If one fails, undo what it has registered, warn, and name its distribution."""
    for distribution, entry in _entry_points():
        told = (distribution, entry.name, entry.value)
        try:
            with all_or_none():
                entry.load()()
            called.append((*told, None))
        except (Exception, SystemExit) as error:
            called.append((*told, f"{type(error).__name__}: {error}"))
            text = f"the plug-in {entry.name!r} of {distribution} cannot be used: {type(error).__name__}: {error}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)


def _entry_points() -> list[tuple[str, Any]]:
    from importlib import metadata

    found: dict[tuple[str, str], tuple[str, Any]] = {}
    for path in metadata.distributions():
        try:
            # Most distributions have no plug-in of ours. They are not parsed: parsing takes longer than the rest of
            # the import.
            if GROUP not in (path.read_text("entry_points.txt") or ""):
                continue
            name = f"{path.metadata['Name']} {path.version}"
            entries = [entry for entry in path.entry_points if entry.group == GROUP]
        except Exception:  # Broken metadata of a distribution is not reported here.
            continue
        for entry in entries:
            # If a distribution is found twice, the first one counts, as it does for imports.
            found.setdefault((path.metadata["Name"], entry.name), (name, entry))
    return list(found.values())
