"""Puts `sot` where the test suites of Paddle's tracer look for it: `test/sot` of Paddle's sources, and `tests` of the older
repository PaddleSOT, whose package had the name `sot`.

Only the implementation is swapped: `symbolic_translate`, the cache with its count of translations, and the functions of
`psdb`. Helpers of Paddle that merely set environment variables stay, as `sot` reads the same variables.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import types
from typing import Any, Callable, Iterator

import sot
from sot import _sot


def install() -> None:
    """Swap the implementation. To be called before the first test module is imported."""
    psdb = importlib.import_module("paddle.jit.sot.psdb")
    for name in sot.psdb.__all__:
        setattr(psdb, name, getattr(sot.psdb, name))
    psdb.check_no_breakgraph = check_no_breakgraph
    for module in ("paddle.jit.sot", "paddle.jit.sot.translate"):
        importlib.import_module(module).symbolic_translate = symbolic_translate
    cache = importlib.import_module("paddle.jit.sot.opcode_translator.executor.executor_cache")
    cache.OpcodeExecutorCache = Cache
    sot.psdb.check_no_breakgraph = check_no_breakgraph
    sot.symbolic_translate = symbolic_translate
    for name, members in OLDER.items():
        add_module(f"sot.{name}", members)
    for name, members in PRIVATE.items():
        private = importlib.import_module(f"paddle.jit.sot.{name}")
        add_module(f"sot.{name}", {member: getattr(private, member) for member in members})
    sot.skip_function = importlib.import_module("paddle.jit").not_to_static
    apis = importlib.import_module("paddle.jit.sot.utils.paddle_api_config")
    apis.add_break_graph_apis = add_break_graph_apis
    utils = importlib.import_module("paddle.jit.sot.utils")
    add_module("sot.utils", {"InnerError": utils.InnerError})


def add_module(name: str, members: dict[str, Any]) -> None:
    """A module that can be imported by this name."""
    module = sys.modules.setdefault(name, types.ModuleType(name))
    module.__dict__.update(members, __path__=[])
    parent, _, last = name.rpartition(".")
    if parent != "sot":
        add_module(parent, {last: module})


def symbolic_translate(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """As Paddle's: a function for every call; `training`, `backend` and `build_strategy` choose passes of Paddle's."""
    translated = _sot.symbolic_translate(fn)

    @functools.wraps(fn, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        with breaks_checked():
            return translated(*args, **kwargs)

    return call


# What `check_no_breakgraph` was put on: file, and first and last line.
NO_BREAK: set[tuple[str, int, int]] = set()


def check_no_breakgraph(fn: Callable[..., Any]) -> Callable[..., Any]:
    """As Paddle's, which asks where calls break the graph: a branch on the truth of a tensor is no break to it."""
    lines = [line for _, _, line in fn.__code__.co_lines() if line is not None]
    NO_BREAK.add((fn.__code__.co_filename, min(lines), max(lines)))
    return fn


@contextlib.contextmanager
def breaks_checked() -> Iterator[None]:
    """Raises behind the call, and not where it happens, so that the program has gone on behind the break, too."""
    before = _sot.record_translations(True)
    try:
        _sot.take_records()
        yield
        records = _sot.take_records()
    finally:
        _sot.record_translations(before)
    for record in records:
        if record["outcome"] == "translated" and record["reason"] and record["kind"] != "DDCF":
            for file, line, _, _ in record["stack"]:
                if any(file == marked and first <= line <= last for marked, first, last in NO_BREAK):
                    raise sot.GraphBreakError(record["report"])


def add_break_graph_apis(apis: list[Callable[..., Any]]) -> None:
    """Of older releases: what is called natively, with the graph ended before it."""
    for api in apis:
        sot.break_on(api)


class Cache:
    """The face of `OpcodeExecutorCache`."""

    def clear(self) -> None:
        sot.reset()

    @property
    def translate_count(self) -> int:
        """Paddle's counts what became of a frame, whether it was translated or left alone."""
        return sot.stats().misses

    def dump_state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        self.clear()


# What tests of PaddleSOT import beside `symbolic_translate` and `psdb`.
OLDER = {
    "opcode_translator.executor.executor_cache": {"OpcodeExecutorCache": Cache},
    "utils.paddle_api_config": {"add_break_graph_apis": add_break_graph_apis},
    "utils.utils": {"execute_time": lambda function: function},
}
# Private parts of Paddle's that some of them import: files with other tests, too, must not fail at that.
PRIVATE = {
    "opcode_translator.custom_code": ["CustomCode"],
    "opcode_translator.executor.function_graph": ["FunctionGraph"],
    "opcode_translator.executor.tracker": ["DanglingTracker", "LocalTracker"],
    "opcode_translator.executor.variables": ["BuiltinVariable", "VariableFactory"],
}
