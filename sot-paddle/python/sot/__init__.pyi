from typing import Any, Callable, TypeVar, overload

from . import psdb as psdb
from . import register as register
from ._breaks import BreakList as BreakList
from ._breaks import break_on as break_on
from ._compiling import is_compiling as is_compiling
from ._config import config as config
from ._controls import mark_dynamic as mark_dynamic
from ._controls import mark_static as mark_static
from ._counts import Stats as Stats
from ._counts import stats as stats
from ._install import Installation as Installation
from ._install import install as install
from ._install import uninstall as uninstall
from ._progress import Progress as Progress
from ._progress import on_progress as on_progress
from ._report import Explanation as Explanation
from ._report import Record as Record
from ._report import explain as explain
from ._report_files import report as report
from ._verify_error import VerifyError as VerifyError
from ._sot import DisabledBlock as _DisabledBlock
from ._stances import set_stance as set_stance

_F = TypeVar("_F", bound=Callable[..., Any])

__version__: str

@overload
def symbolic_translate(fn_: _F, /, *, fullgraph: bool = ..., dynamic: bool | None = ..., training: Any = ..., backend: Any = ..., build_strategy: Any = ...) -> _F:
    """Translate a function, a bound method, a callable object or a model. The result is called like the original.

    A model is returned itself, with its `forward` translated. Without `fn_`, a decorator is returned.

    Args:
        fn_: a Python function, a bound method, an object with a `__call__` in Python, a `functools.partial` of one of
            these, or a model of the framework.
        fullgraph: a function that cannot become one graph raises `GraphBreakError` instead of running in parts.
        dynamic: `True`: all sizes of tensor arguments are left open from the first translation on. `False`: none ever
            is. `None`: `SOT_ALLOW_DYNAMIC_SHAPE` decides.
        backend: a function that makes the callable of each graph, or the name of one that `register.backend` has
            registered. Names of the framework's own compilers are accepted, and ignored.
        training: accepted for programs that pass it to the framework's own function, and ignored.
        build_strategy: the same.

    Raises:
        TypeError: `fn_` has no Python code: it is a class, a C function, or not callable.
        ValueError: no backend has this name.
    """

@overload
def symbolic_translate(fn_: None = ..., /, *, fullgraph: bool = ..., dynamic: bool | None = ..., training: Any = ..., backend: Any = ..., build_strategy: Any = ...) -> Callable[[_F], _F]:
    """With options alone: return a decorator."""

@overload
def disable(function: _F, *, recursive: bool = ...) -> _F:
    """Leave a function to CPython, and return it. With `recursive`, also the functions that it calls."""

@overload
def disable(function: None = ..., *, recursive: bool = ...) -> _DisabledBlock:
    """Without a function: return a decorator and context manager: its block runs without the tracer in this thread."""

class GraphBreakError(RuntimeError):
    """A function translated with `fullgraph=True` cannot become one graph; says where, why and what to do."""

class RecompileError(RuntimeError):
    """No translation fits a call, and the stance `fail_on_recompile` forbids another one; says which guards failed."""

def reset() -> None:
    """Forget every translation and set the counters to zero."""
