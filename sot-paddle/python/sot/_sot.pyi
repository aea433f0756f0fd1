from typing import Any, Callable, Dict, List, NoReturn, TypeVar, overload

from ._late_hooks import LateHooks

_F = TypeVar("_F", bound=Callable[..., Any])

__version__: str

@overload
def symbolic_translate(fn: _F, *, fullgraph: bool = ..., training: Any = ..., backend: Any = ..., build_strategy: Any = ...) -> _F: ...
@overload
def symbolic_translate(fn: None = ..., *, fullgraph: bool = ..., training: Any = ..., backend: Any = ..., build_strategy: Any = ...) -> Callable[[_F], _F]: ...
class GraphBreakError(RuntimeError): ...

def reset() -> None: ...
def stats() -> Dict[str, Any]:
    """The fields of `sot.Stats`, by name."""

class DisabledStretch:
    """A `with` block in which no frame of the thread is translated, and a decorator."""

    def __init__(self, recursive: bool = ...) -> None: ...
    def __enter__(self) -> DisabledStretch: ...
    def __exit__(self, kind: object, value: object, traceback: object) -> None: ...
    def __call__(self, function: _F) -> _F: ...

def register_meaning(meaning: str, object: Any, by: Any = ..., *, below: bool = ...) -> int:
    """Register what an object means; the result is for `undo_registration`."""

def undo_registration(token: int) -> None:
    """Take a registration back; doing so twice is once."""

def forbid(function: _F, what: str) -> _F:
    """Make a `breakgraph` or `fallback` of a function an error."""

def call_untraced(callable: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call with the frames of this thread left to CPython."""

def record_translations(on: bool) -> bool:
    """Keep a record of each translation from here on, or stop; the former state."""

def take_records() -> List[Dict[str, Any]]:
    """The fields of `sot.Record`, one dict for each translation since the last call."""

def _leave_size_open(function: Callable[..., Any], argument: str, keys: List[Any], axis: int) -> None:
    """Translate for all sizes of a dimension: of the tensor found in an argument by these keys."""

def _copy_marks(function: Callable[..., Any], copy: Callable[..., Any]) -> None:
    """Make errors of a copied function's breaks and fallbacks where they are of the function's own."""

def _late_hooks(tensor: paddle.Tensor) -> tuple[LateHooks, int] | None:
    """What takes hooks on the result of a program that others are computed from, and the result's index."""

def _pass() -> int:
    """The number of the backward pass that is running."""

def _refuse_hook() -> NoReturn:
    """Stop the backward pass that is running: a hook cannot see all it must."""

def _refuse_pass() -> NoReturn:
    """Stop the backward pass that is running: it goes through a program a second time."""
