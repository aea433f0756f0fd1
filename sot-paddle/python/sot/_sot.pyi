from typing import Any, Callable, Dict, List, NoReturn, Tuple, TypeVar, overload

import paddle

from ._late_hooks import LateHooks

_F = TypeVar("_F", bound=Callable[..., Any])

__version__: str
_backend: str
_own_compilers: Tuple[str, ...]

@overload
def symbolic_translate(fn_: _F, /, *, fullgraph: bool = ..., dynamic: bool | None = ..., training: Any = ..., backend: Any = ..., build_strategy: Any = ...) -> _F: ...
@overload
def symbolic_translate(fn_: None = ..., /, *, fullgraph: bool = ..., dynamic: bool | None = ..., training: Any = ..., backend: Any = ..., build_strategy: Any = ...) -> Callable[[_F], _F]: ...
class GraphBreakError(RuntimeError): ...
class RecompileError(RuntimeError): ...

class Translated:
    """A callable whose calls are translated; reads attributes as what it was made of."""

    @property
    def __wrapped__(self) -> Any: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

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

def _set_verifier(verifier: Callable[..., Any] | None) -> None:
    """Have frames that were asked for run the code that a callable gives; or have none do so."""

def _call_verified(callable: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call with frames translated, none of which is verified."""

def _call_rehearsed(callable: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`_call_verified` for a run that is taken back: it is no first run of the graphs that it calls."""

def _call_uncounted(callable: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`_call_verified` after a rehearsal, whose hits are those of the call."""

def _rehearse_pass(grad: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`paddle.grad` for the result of a rehearsal: no other pass comes to it."""

def _count_verified(differs: bool, not_verified: str | None) -> None: ...
def _take_stance(name: str) -> str:
    """Take the stance of that name; the name of the one before."""

def _ask_log_level_again() -> None:
    """Have the next message look at `SOT_LOG_LEVEL` anew."""

def _add_progress_callback(callback: Callable[[str, str, int, float], object]) -> int:
    """Have a callable be told of function, phase, statements and seconds; the number by which it is taken off again."""

def _remove_progress_callback(number: int) -> None: ...
def _registrations() -> List[Tuple[str, str, str, str, str, int]]:
    """Every registration that is linked in: what it registers, its name, file and line."""

def _call_program(program: Callable[[], object]) -> Any:
    """Call the whole of a program with the frames of this thread translated that are given tensors."""

def record_translations(on: bool) -> bool:
    """Keep a record of each translation from here on, or stop; the former state."""

def take_records() -> List[Dict[str, Any]]:
    """The fields of `sot.Record`, one dict for each translation since the last call."""

def report_details(on: bool) -> bool:
    """Collect from here on what reports show of each translation, or stop; the former state."""

def report_kept() -> int:
    """How many translations are kept for reports."""

def report_data(since: int) -> str:
    """The translations after the first so many, as JSON: `translations`, `failures`, `lines` and `dropped`."""

def report_forget(since: int | None = ...) -> None:
    """Forget the translations after the first so many, or everything."""

def report_page(kind: str, title: str, json: str) -> str:
    """A page of HTML that shows data: a `report`, or the `index` of a run's processes."""

def _leave_size_open(function: Callable[..., Any], argument: str, keys: List[Any], axis: int) -> None:
    """Translate for all sizes of a dimension: of the tensor found in an argument by these keys."""

def _copy_marks(function: Callable[..., Any], copy: Callable[..., Any]) -> None:
    """Make errors of a copied function's breaks and fallbacks where they are of the function's own."""

def _late_hooks(tensor: paddle.Tensor) -> tuple[LateHooks, int] | None:
    """What takes hooks on the result of a program that others are computed from, and the result's index."""

def _is_muted() -> bool:
    """Whether hooks are not called in the backward pass that is running."""

def _stops_at_programs() -> bool:
    """Whether the backward pass that is running ends at programs."""

def _pass() -> int:
    """The number of the backward pass that is running."""

def _refuse_hook() -> NoReturn:
    """Stop the backward pass that is running: a hook cannot see all it must."""

def _refuse_pass() -> NoReturn:
    """Stop the backward pass that is running: it goes through a program a second time."""
