"""A bytecode tracer for CPython that compiles the tensor operations of Paddle code into static programs.

    import sot
    fast = sot.symbolic_translate(fn)

This module checks the tracer's requirements before the compiled part is loaded, and has the public names.
"""

from . import _requirements

if _requirements.is_run_as_command():
    from . import _command

    _command.before_import()
_requirements.check()

from . import _sot  # First: it serves the modules that are not files of this package.
from . import _face, psdb, register
from ._controls import mark_dynamic, mark_static
from ._face import (
    BreakList,
    Explanation,
    GraphBreakError,
    Progress,
    RecompileError,
    Record,
    Stats,
    __version__,
    break_on,
    config,
    disable,
    explain,
    is_compiling,
    on_progress,
    report,
    reset,
    set_stance,
    stats,
    symbolic_translate,
)
from ._install import Installation, install, uninstall
from ._install import install_if_asked as _install_if_asked
from ._verify_error import VerifyError

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

_face.start(_install_if_asked, ranks=["PADDLE_TRAINER_ID"])
