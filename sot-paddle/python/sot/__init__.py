"""A bytecode tracer for CPython that takes the tensor work of Paddle code out into static programs.

    import sot
    fast = sot.symbolic_translate(fn)

This module checks what the tracer needs before the compiled part is loaded, and holds the public names.
"""

from . import _plugins, _requirements

_requirements.check()

from . import psdb, register
from ._breaks import BreakList, break_on
from ._disable import disable
from ._install import Installation, install, install_if_asked, uninstall
from ._report import Explanation, Record, Stats, explain, stats
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
    "disable",
    "explain",
    "install",
    "psdb",
    "register",
    "reset",
    "stats",
    "symbolic_translate",
    "uninstall",
]

install_if_asked()
_plugins.load()
