"""`python -m sot plugins`: what is linked into this build."""

from __future__ import annotations

import re
from typing import Dict, List, Tuple

from . import _sot

_TITLES = {"backend": "backends", "opcode": "opcodes", "kind": "kinds of variables", "builtin": "builtins"}

# Where cargo keeps crates: a registry, with name and version, or a checkout.
_REGISTRY = re.compile(r"/registry/src/[^/]+/(?P<name>.+)-(?P<version>\d[^/]*)/")
_CHECKOUT = re.compile(r"/git/checkouts/(?P<name>[^/]+)-[0-9a-f]+/(?P<version>[0-9a-f]+)/")


def crate_of(file: str) -> str:
    """The crate that a file of a registration belongs to, with its version where the path says it."""
    for pattern in (_REGISTRY, _CHECKOUT):
        found = pattern.search(file)
        if found:
            return f"{found['name']} {found['version']}"
    folder = file.split("/src/")[0].split("/tests/")[0]
    name = folder.rsplit("/", 1)[-1]
    return f"{name} {_sot.__version__}" if name.startswith("sot-") and not file.startswith("/") else name


def text(every: bool) -> str:
    """What is linked in, by crate: counted, or each registration with its place."""
    lines = []
    registrations = _sot._registrations()
    for registry, title in _TITLES.items():
        found = [entry for entry in registrations if entry[0] == registry]
        lines.append(f"{len(found)} {title}")
        by_crate: Dict[str, List[Tuple[str, str, str, int]]] = {}
        for entry in found:
            by_crate.setdefault(crate_of(entry[2]), []).append(entry)
        for crate, entries in sorted(by_crate.items()):
            names = f": {', '.join(name for _, name, _, _ in entries)}" if registry == "backend" else ""
            lines.append(f"  {len(entries)} of {crate}{names}")
            if every:
                lines += [f"    {name}  {file}:{line}" for _, name, file, line in entries]
    return "\n".join(lines)
