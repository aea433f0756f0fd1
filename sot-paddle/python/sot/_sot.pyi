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
    """A callable whose calls are translated. Its attributes are those of the callable that it was made of."""

    @property
    def __wrapped__(self) -> Any: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

def reset() -> None: ...
def stats() -> Dict[str, Any]:
    """The fields of `sot.Stats`, by name."""

class DisabledBlock:
    """A `with` block in which no frame of the thread is translated, and a decorator."""

    def __init__(self, recursive: bool = ...) -> None: ...
    def __enter__(self) -> DisabledBlock: ...
    def __exit__(self, kind: object, value: object, traceback: object) -> None: ...
    def __call__(self, function: _F) -> _F: ...

def register_meaning(meaning: str, object: Any, by: Any = ..., *, below: bool = ...) -> int:
    """Register what an object means. Return the token for `undo_registration`."""

def undo_registration(token: int) -> None:
    """Take a registration back. A second call does nothing."""

def forbid(function: _F, what: str) -> _F:
    """Turn graph breaks (`breakgraph`) or fallbacks (`fallback`) of a function into errors."""

def call_untraced(callable: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call with the frames of this thread left to CPython."""

def _set_verifier(verifier: Callable[..., Any] | None) -> None:
    """Set the callable that verify mode asks for the code to run in a frame's place; `None` turns verify mode off."""

def _call_verified(callable: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call with frames translated; the call itself is not verified."""

def _call_rehearsed(callable: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Like `_call_verified`, for a run that is taken back: it is no first run of the graphs that it calls."""

def _call_uncounted(callable: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Like `_call_verified`, for the run after a rehearsal: statistics have counted the rehearsal."""

def _rehearse_pass(grad: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `paddle.grad` for the result of a rehearsal: no later pass goes through that result."""

def _count_verified(differs: bool, not_verified: str | None) -> None: ...
def _take_stance(name: str) -> str:
    """Set the stance of that name. Return the name of the former stance."""

def _ask_log_level_again() -> None:
    """Make the next message read `SOT_LOG_LEVEL` anew."""

def _add_progress_callback(callback: Callable[[str, str, int, float], object]) -> int:
    """Add a callback, which is given function, phase, statements and seconds. Return the number that removes it."""

def _remove_progress_callback(number: int) -> None: ...
def _registrations() -> List[Tuple[str, str, str, str, str, int]]:
    """List every linked registration: registry, name, crate, version of the crate, file and line."""

def _call_program(program: Callable[[], object]) -> Any:
    """Call a whole program. Frames of this thread that are given tensors are translated."""

def record_translations(on: bool) -> bool:
    """Start or stop keeping a record of each translation. Return the former state."""

def take_records() -> List[Dict[str, Any]]:
    """Return the fields of `sot.Record`, one dict for each translation since the last call."""

def report_details(on: bool) -> bool:
    """Start or stop collecting what reports show of each translation. Return the former state."""

def report_kept() -> int:
    """Return the number of translations that are kept for reports."""

def report_upcoming() -> int:
    """Return the number that the next translation will have."""

def report_data(since: int) -> str:
    """Return the translations numbered `since` and above as JSON: `translations`, `failures`, `lines`, `dropped`."""

def report_forget(since: int | None = ...) -> None:
    """Forget the translations numbered `since` and above, or all of them."""

def report_page(kind: str, title: str, json: str) -> str:
    """Render an HTML page that shows data: a `report`, or the `index` of a run's processes."""

def _leave_size_open(function: Callable[..., Any], argument: str, keys: List[Any], axis: int) -> None:
    """Translate for all sizes of a dimension, for the tensor that `keys` lead to in an argument."""

def _copy_marks(function: Callable[..., Any], copy: Callable[..., Any]) -> None:
    """Copy the marks that turn breaks and fallbacks into errors from a function to its copy."""

def _late_hooks(tensor: paddle.Tensor) -> tuple[LateHooks, int] | None:
    """Return the object that takes hooks on a result of a program, and the result's index; else `None`."""

def _is_muted() -> bool:
    """Return whether the running backward pass must not call hooks."""

def _stops_at_programs() -> bool:
    """Return whether the running backward pass stops at programs."""

def _pass() -> int:
    """Return the number of the running backward pass."""

def _refuse_hook() -> NoReturn:
    """Stop the running backward pass: a hook cannot see the whole gradient."""

def _refuse_pass() -> NoReturn:
    """Stop the running backward pass: it goes through a program a second time."""
