from typing import Any, Callable, TypeVar, overload

from . import psdb as psdb
from . import register as register
from ._breaks import BreakList as BreakList
from ._breaks import break_on as break_on
from ._install import Installation as Installation
from ._install import install as install
from ._install import uninstall as uninstall
from ._report import Explanation as Explanation
from ._report import Record as Record
from ._report import Stats as Stats
from ._report import explain as explain
from ._report import stats as stats
from ._sot import DisabledStretch as _DisabledStretch

_F = TypeVar("_F", bound=Callable[..., Any])

__version__: str

@overload
def symbolic_translate(fn: _F, *, fullgraph: bool = ..., training: Any = ..., backend: Any = ..., build_strategy: Any = ...) -> _F:
    """Translate a function, a bound method or a layer; the result is called as the original is.

    A layer is returned itself, with its `forward` translated. With `fullgraph`, what cannot be translated in one graph
    raises instead of running in parts.
    """

@overload
def symbolic_translate(fn: None = ..., *, fullgraph: bool = ..., training: Any = ..., backend: Any = ..., build_strategy: Any = ...) -> Callable[[_F], _F]:
    """With options alone: a decorator."""

@overload
def disable(function: _F, *, recursive: bool = ...) -> _F:
    """Leave a function to CPython, with all that it calls or, not `recursive`, alone; give it back."""

@overload
def disable(function: None = ..., *, recursive: bool = ...) -> _DisabledStretch:
    """Without a function: a decorator with options, and a context manager under which no frame of the thread is translated."""

class GraphBreakError(RuntimeError):
    """A function translated with `fullgraph=True` cannot become one graph; says where, why and what to do."""

def reset() -> None:
    """Forget every translation and set the counters to zero."""
