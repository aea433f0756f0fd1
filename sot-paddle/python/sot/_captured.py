"""Functions marked with `paddle.jit.marker.capture_control_flow`, or as unified, as one statement of a graph.

A statement is built once. So what the function reads besides its arguments must never change, and the function must
have no side effects. Both are decided by its bytecode. A function for which they cannot be decided is followed like
any other, and breaks the graph where a tensor decides a branch.
"""

from __future__ import annotations

import builtins
import dis
import types
from typing import Any, Callable, Optional

# Builtins that such a function may call: they return the same for the same arguments, and have no side effects.
_BUILTINS = {"abs", "bool", "dict", "enumerate", "float", "int", "len", "list", "max", "min", "range", "sum", "tuple", "zip"}

# Prefixes of the names of instructions that have side effects, or for which AST mode has no statement.
_REFUSED = (
    "STORE_GLOBAL",
    "DELETE_",
    "STORE_ATTR",
    "STORE_SUBSCR",
    "STORE_SLICE",
    "STORE_DEREF",
    "LOAD_DEREF",
    "LOAD_CLOSURE",
    "LOAD_CLASSDEREF",
    "LOAD_NAME",
    "LOAD_BUILD_CLASS",
    "IMPORT_",
    "MAKE_FUNCTION",
    "RAISE_",
    "LOAD_ASSERTION_ERROR",
    "LOAD_COMMON_CONSTANT",
    "SETUP_",
    "BEFORE_",
    "YIELD_",
    "RETURN_GENERATOR",
    "GET_AWAITABLE",
    "GET_YIELD_FROM_ITER",
    "CALL_INTRINSIC",
)


def statement_of(function: Any) -> Optional[tuple[Callable[..., Any], list[str]]]:
    """Return the function to call, and the globals that it reads; `None` if it may have side effects."""
    reads = _reads(function)
    if reads is None:
        return None
    options: Any = getattr(function, "___jit_transform_options___", None)
    if not options.need_capture_control_flow():
        return function, reads
    from paddle.jit.dy2static.program_translator import convert_to_static

    converted = convert_to_static(function)
    # The converted function has a copy of the globals, made when it was converted.
    own = converted.__globals__
    if converted is function or any(own.get(name) is not function.__globals__[name] for name in reads):
        return None
    converted._sot_is_for_programs = True
    return converted, reads


def _reads(function: Any) -> Optional[list[str]]:
    code = function.__code__
    if code.co_freevars or code.co_cellvars or function.__defaults__ or function.__kwdefaults__:
        return None
    if code.co_flags & (0x04 | 0x08):  # *args and **kwargs are containers made for the call
        return None
    reads = []
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith(_REFUSED):
            return None
        name = instruction.argval
        if instruction.opname == "LOAD_GLOBAL":
            if name in function.__globals__:
                if not _is_paddles(function.__globals__[name]):
                    return None
                reads.append(name)
            elif name not in _BUILTINS or not hasattr(builtins, name):
                return None
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and _writes(name):
            return None
    return reads


def _is_paddles(value: Any) -> bool:
    """Return whether a value is a module or function of Paddle's: these never change."""
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    kinds = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
    return isinstance(value, kinds) and isinstance(name, str) and name.split(".")[0] == "paddle"


def _writes(method: str) -> bool:
    """Return whether a method of this name writes to an object, or reads the value of a tensor."""
    asks = method in ("append", "backward", "extend", "insert", "item", "numpy", "pop", "set_value", "stop_gradient", "tolist", "update")
    return asks or method.endswith("_") and not method.endswith("__")
