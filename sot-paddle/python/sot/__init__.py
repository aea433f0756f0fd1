"""A bytecode tracer for CPython that takes the tensor work of Paddle code out into static programs.

    import sot
    fast = sot.symbolic_translate(fn)

This module checks what the tracer needs before the compiled part is loaded, and holds the public names.
"""

from . import _requirements

_requirements.check()

from . import psdb
from ._breaks import BreakList, break_on
from ._counts import Stats, stats
from ._install import Installation, install, install_if_asked, uninstall
from ._report import Explanation, Record, explain
from ._report_files import begin_if_asked, report
from ._sot import GraphBreakError, __version__, reset, symbolic_translate

__all__ = [
    "BreakList",
    "Explanation",
    "GraphBreakError",
    "Installation",
    "Record",
    "Stats",
    "__version__",
    "break_on",
    "explain",
    "install",
    "psdb",
    "report",
    "reset",
    "stats",
    "symbolic_translate",
    "uninstall",
]

install_if_asked()
begin_if_asked()
