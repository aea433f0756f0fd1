"""Puts the tracer behind `paddle.jit.to_static`, and removes it again.

`to_static` makes objects of Paddle's `SymbolicStaticFunction`, unless `full_graph=True`. One method of that class runs
the function, and only this method is replaced. So functions that were converted earlier or later work, and so do
`rollback`, `enable_to_static` and `paddle.jit.save`. Putting the method back restores Paddle exactly.
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from typing import Any, Callable, Iterator, Optional, Sequence

import paddle
from paddle.jit.dy2static import program_translator

from ._config import config
from ._sot import _copy_marks, _leave_size_open, symbolic_translate

_PLAIN = (bool, int, float, str, bytes, type(None))
_METHOD = "_perform_call"

_paddles_own: Optional[Callable[..., Any]] = None
# For each converted function: its translated function, and the signature of its last call.
_translated: weakref.WeakKeyDictionary[Any, _Translated] = weakref.WeakKeyDictionary()


class Installation:
    """The result of `install()`. As a context manager it restores the former state at the end of its block."""

    def __init__(self, was_installed: bool) -> None:
        self._was_installed = was_installed

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, *error: object) -> None:
        if not self._was_installed:
            uninstall()


def install() -> Installation:
    """Let `paddle.jit.to_static` use this tracer, also for functions converted already. A second call does nothing."""
    global _paddles_own
    was_installed = _paddles_own is not None
    if not was_installed:
        _paddles_own = _symbolic().__dict__[_METHOD]
        setattr(_symbolic(), _METHOD, _perform_call)
    return Installation(was_installed)


def uninstall() -> None:
    """Give `paddle.jit.to_static` its own tracer back. Does nothing if sot is not installed."""
    global _paddles_own
    if _paddles_own is None:
        return
    if _symbolic().__dict__[_METHOD] is not _perform_call:
        raise RuntimeError(
            "sot.uninstall(): something else has replaced SymbolicStaticFunction._perform_call since sot.install(); "
            "undo that first"
        )
    setattr(_symbolic(), _METHOD, _paddles_own)
    _paddles_own = None
    _translated.clear()


def install_if_asked() -> None:
    """Install the tracer if `SOT_INSTALL=1`."""
    if config.install:
        install()


def _symbolic() -> Any:
    found = getattr(program_translator, "SymbolicStaticFunction", None)
    if found is None or not isinstance(found.__dict__.get(_METHOD), types.FunctionType):
        raise RuntimeError(
            f"sot.install() does not know how paddle.jit.to_static of Paddle {paddle.__version__} runs a function; "
            "use sot.symbolic_translate instead"
        )
    return found


class _Translated:
    """The translated function of a converted function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.call = symbolic_translate(function)
        self.signature: Any = None


def _perform_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Replaces `SymbolicStaticFunction._perform_call`."""
    translated = _translated.get(self)
    if translated is None:
        function = _sizes_left_open(self._dygraph_function, self.class_instance is not None, self._input_spec or ())
        translated = _translated[self] = _Translated(function)
    if self._input_spec is None:
        _note_specs(self, translated, args, kwargs)
    receiver = self.class_instance
    if receiver is not None:
        args = (receiver, *args)
    return translated.call(*args, **kwargs)


def _sizes_left_open(function: Callable[..., Any], has_receiver: bool, specs: Sequence[Any]) -> Callable[..., Any]:
    """Return the function to translate: if specs leave dimensions open, a copy that serves all sizes of these."""
    code = getattr(function, "__code__", None)
    if code is None or not any(True for _ in _open_dimensions(specs)):
        return function
    named = code.co_varnames[has_receiver or inspect.ismethod(function) : code.co_argcount]
    function = _with_its_own_code(function)
    for name, spec in zip(named, specs):
        for keys, axis in _open_dimensions(spec):
            _leave_size_open(function, name, keys, axis)
    if code.co_flags & inspect.CO_VARARGS:
        rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        for index, spec in enumerate(specs[len(named) :]):
            for keys, axis in _open_dimensions(spec):
                _leave_size_open(function, rest, [index, *keys], axis)
    return function


def _with_its_own_code(function: Any) -> Any:
    """Copy a function with a code object of its own, so that options of its translations apply to no other layer."""
    if inspect.ismethod(function):
        return types.MethodType(_with_its_own_code(function.__func__), function.__self__)
    code = function.__code__.replace()
    copy: Any = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(copy, function)
    del copy.__wrapped__
    _copy_marks(function, copy)
    return copy


def _open_dimensions(spec: Any) -> Iterator[tuple[list[Any], int]]:
    """Yield the path in a structure of specs and the dimension, for each dimension that has no size."""
    if isinstance(spec, paddle.static.InputSpec):
        for axis, size in enumerate(spec.shape):
            if size in (None, -1):
                yield [], axis
    elif isinstance(spec, (list, tuple, dict)):
        for key, item in spec.items() if isinstance(spec, dict) else enumerate(spec):
            for keys, axis in _open_dimensions(item):
                yield [key, *keys], axis


def _note_specs(function: Any, translated: _Translated, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Keep the specs of the last call's arguments, for `paddle.jit.save`. They are made anew only if they differ."""
    signature = _signature([*args, *kwargs.items()])
    if signature is not None and signature == translated.signature:
        return
    translated.signature = signature
    try:
        unified = function._function_spec.unified_args_and_kwargs(args, dict(kwargs))
        function.last_call_input_spec = function._function_spec.args_to_input_spec(*unified)[0]
    except (ValueError, NotImplementedError):
        # Paddle has no specs for `*args`, nor for a receiver that is not called `self`. The call needs no specs.
        function.last_call_input_spec = None


def _signature(args: list[Any]) -> Any:
    """Return what the specs of flat arguments depend on; `None` if an argument has another type."""
    signature: list[Any] = []
    for arg in args:
        if isinstance(arg, paddle.Tensor):
            signature.append((tuple(arg.shape), arg.dtype, arg.stop_gradient))
        elif isinstance(arg, _PLAIN):
            signature.append((type(arg), arg))
        elif isinstance(arg, tuple) and len(arg) == 2 and isinstance(arg[0], str):
            inner = _signature([arg[1]])
            if inner is None:
                return None
            signature.append((arg[0], inner))
        else:
            return None
    return signature
