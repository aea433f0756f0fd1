"""The public names that the package of every backend has, and what is done when such a package is imported."""

from __future__ import annotations

from typing import Callable, Iterable

from . import _config, _plugins, psdb, register
from ._breaks import BreakList, break_on
from ._compiling import is_compiling
from ._config import config
from ._counts import Stats, stats
from ._disable import disable
from ._progress import Progress, on_progress
from ._report import Explanation, Record, explain
from ._report_files import begin_if_asked, rank_variables, report
from ._sot import GraphBreakError, RecompileError, __version__, reset, symbolic_translate
from ._stances import set_stance

__all__ = [
    "BreakList",
    "Explanation",
    "GraphBreakError",
    "Progress",
    "RecompileError",
    "Record",
    "Stats",
    "__version__",
    "break_on",
    "config",
    "disable",
    "explain",
    "is_compiling",
    "on_progress",
    "psdb",
    "register",
    "report",
    "reset",
    "set_stance",
    "stats",
    "symbolic_translate",
]


def start(install: Callable[[], None] = lambda: None, ranks: Iterable[str] = ()) -> None:
    """Apply the environment variables and load plug-ins.

    `install` installs the tracer in the framework if asked. `ranks` are the environment variables in which the
    framework's launcher names the rank of a process.
    """
    rank_variables[:0] = ranks
    _config.start()
    install()
    begin_if_asked()
    _plugins.load()
