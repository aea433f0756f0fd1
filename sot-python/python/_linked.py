"""`python -m sot plugins`: what is linked into this build."""

from __future__ import annotations

from typing import Dict, List, Tuple

from . import _sot

_TITLES = {
    "backend": "backends",
    "opcode": "opcodes",
    "opcode override": "overrides of opcodes",
    "kind": "kinds of variables",
    "kind override": "overrides of kinds",
    "builtin": "builtins",
    "builtin override": "overrides of builtins",
    "observer": "observers",
}

# What there is one of, or what is looked for by its name, is named even where the rest is counted.
_NAMED = ("backend", "opcode override", "kind override", "builtin override", "observer")


def text(every: bool) -> str:
    """What is linked in, by crate: counted, or each registration with its place."""
    lines = []
    registrations = _sot._registrations()
    for registry, title in _TITLES.items():
        found = [entry for entry in registrations if entry[0] == registry]
        if not found and registry in _NAMED:
            continue
        lines.append(f"{len(found)} {title}")
        by_crate: Dict[str, List[Tuple[str, str, int]]] = {}
        for _, name, crate, version, file, line in found:
            by_crate.setdefault(f"{crate} {version}", []).append((name, file, line))
        for crate, entries in sorted(by_crate.items()):
            names = f": {', '.join(name for name, _, _ in entries)}" if registry in _NAMED else ""
            lines.append(f"  {len(entries)} of {crate}{names}")
            if every:
                lines += [f"    {name}  {file}:{line}" for name, file, line in entries]
    return "\n".join(lines)
