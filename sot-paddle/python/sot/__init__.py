"""A bytecode tracer for CPython that takes the tensor work of Paddle code out into static programs.

    import sot
    fast = sot.symbolic_translate(fn)

This module checks what the tracer needs before the compiled part is loaded, and holds the public names.
"""

from . import _plugins, _requirements

if _requirements.is_run_as_command():
    from . import _command

    _command.before_import()
_requirements.check()

from . import _config, psdb, register
from ._breaks import BreakList, break_on
from ._compiling import is_compiling
from ._config import config
from ._controls import mark_dynamic, mark_static, set_stance
from ._counts import Stats, stats
from ._disable import disable
from ._install import Installation, install, install_if_asked, uninstall
from ._progress import Progress, on_progress
from ._report import Explanation, Record, explain
from ._report_files import begin_if_asked, report
from ._verify.tell import VerifyError
from ._sot import GraphBreakError, RecompileError, __version__, reset, symbolic_translate

__all__ = [
    "BreakList",
    "Explanation",
    "GraphBreakError",
    "Installation",
    "Progress",
    "RecompileError",
    "Record",
    "Stats",
    "VerifyError",
    "__version__",
    "break_on",
    "config",
    "disable",
    "explain",
    "install",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "on_progress",
    "psdb",
    "register",
    "report",
    "reset",
    "set_stance",
    "stats",
    "symbolic_translate",
    "uninstall",
]

_config.start()
install_if_asked()
begin_if_asked()
_plugins.load()
