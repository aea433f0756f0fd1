"""The nearest right name for a mistyped one."""

from __future__ import annotations

from typing import Iterable, Optional


def near(name: str, known: Iterable[str], likeness: float = 0.6) -> Optional[str]:
    """Return the known name that was probably meant, or `None`."""
    import difflib  # Imported only when a name is wrong.

    folded = {right.lower().strip("_"): right for right in known}
    found = difflib.get_close_matches(name.lower().strip("_"), folded, n=1, cutoff=likeness)
    return folded[found[0]] if found else None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: the nearest name, or all known names."""
    known = list(known)
    right = near(name, known)
    return f"; did you mean {right!r}?" if right else f"; there are {', '.join(map(repr, known))}"
