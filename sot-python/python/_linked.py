"""`python -m sot plugins`: the linked registrations of this build, and the installed plug-ins in Python."""

from __future__ import annotations

from typing import Dict, List, Tuple

from . import _plugins, _sot
from ._counts import counted

_TITLES = {
    "backend": ("backend", "backends"),
    "opcode": ("opcode", "opcodes"),
    "opcode override": ("override of an opcode", "overrides of opcodes"),
    "kind": ("kind of variable", "kinds of variables"),
    "kind override": ("override of a kind", "overrides of kinds"),
    "builtin": ("builtin", "builtins"),
    "builtin override": ("override of a builtin", "overrides of builtins"),
    "observer": ("observer", "observers"),
    "reason": ("reason", "reasons"),
}

# Registries whose entries are always named: they have few entries, or entries that are looked for by name.
_NAMED = ("backend", "opcode override", "kind override", "builtin override", "observer", "reason")


def text(every: bool) -> str:
    """Return the registrations by crate: their number, or with `every`, each with its source location."""
    lines = []
    registrations = _sot._registrations()
    for registry, title in _TITLES.items():
        found = [entry for entry in registrations if entry[0] == registry]
        if not found and registry in _NAMED:
            continue
        lines.append(counted(len(found), *title))
        by_crate: Dict[str, List[Tuple[str, str, int]]] = {}
        for _, name, crate, version, file, line in found:
            by_crate.setdefault(f"{crate} {version}", []).append((name, file, line))
        for crate, entries in sorted(by_crate.items()):
            names = f": {', '.join(name for name, _, _ in entries)}" if registry in _NAMED else ""
            lines.append(f"  {len(entries)} of {crate}{names}")
            if every:
                lines += [f"    {name}  {file}:{line}" for name, file, line in entries]
    if _plugins.called:
        plugins = counted(len(_plugins.called), "plug-in in Python", "plug-ins in Python")
        lines.append(f"{plugins}, by the entry-point group {_plugins.GROUP}")
        for distribution, name, function, why in sorted(_plugins.called):
            lines.append(f"  {name} of {distribution}: {function}" + (f" cannot be used: {why}" if why else ""))
    return "\n".join(lines)
