"""The nearest right name for a mistyped one."""

from __future__ import annotations

from typing import Iterable, Optional


def near(name: str, known: Iterable[str], likeness: float = 0.6) -> Optional[str]:
    """The known name that was probably meant."""
    import difflib  # Only where something is wrong.

    folded = {right.lower().strip("_"): right for right in known}
    found = difflib.get_close_matches(name.lower().strip("_"), folded, n=1, cutoff=likeness)
    return folded[found[0]] if found else None


def nearest(name: str, known: Iterable[str]) -> str:
    """For the end of an error message: the nearest name, or all there are."""
    known = list(known)
    right = near(name, known)
    return f"; did you mean {right!r}?" if right else f"; there are {', '.join(map(repr, known))}"
