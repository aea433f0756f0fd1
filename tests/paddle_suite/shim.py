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
    exceptions = importlib.import_module("paddle.jit.sot.utils.exceptions")
    exceptions.InnerError = sot.GraphBreakError  # What a function that must not break the graph raises.
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
    """Like Paddle's. `training`, `backend` and `build_strategy` select compiler passes of Paddle, and are ignored."""
    translated = _sot.symbolic_translate(fn)

    @functools.wraps(fn, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        with breaks_checked():
            return translated(*args, **kwargs)

    return call


# Functions decorated by `check_no_breakgraph`: file, name, first line, last line.
NO_BREAK: set[tuple[str, str, int, int]] = set()


def check_no_breakgraph(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Like Paddle's, which reports calls that break the graph. A branch on the truth of a tensor does not count."""
    lines = [line for _, _, line in fn.__code__.co_lines() if line is not None]
    NO_BREAK.add((fn.__code__.co_filename, fn.__code__.co_name, min(lines), max(lines)))
    return fn


@contextlib.contextmanager
def breaks_checked() -> Iterator[None]:
    """Raise after the call, and not at the break, so that the code behind the break runs, too."""
    before = _sot.record_translations(True)
    try:
        _sot.take_records()
        yield
        records = _sot.take_records()
    finally:
        _sot.record_translations(before)
    for record in records:
        if record["outcome"] == "translated" and record["reason"] and record["kind"] != "DDCF":
            for file, line, name, _ in record["stack"]:
                code = [file, name.rpartition(".")[2]]
                if any(code == marked and first <= line <= last for *marked, first, last in NO_BREAK):
                    raise sot.GraphBreakError(record["report"])


def add_break_graph_apis(apis: list[Callable[..., Any]]) -> None:
    """In older releases of Paddle, names APIs at which the graph breaks."""
    for api in apis:
        sot.break_on(api)


class Cache:
    """Has the interface of `OpcodeExecutorCache`."""

    def clear(self) -> None:
        sot.reset()

    @property
    def translate_count(self) -> int:
        """Return the number of misses. Paddle counts all frames, whether translated or left alone."""
        return sot.stats().misses

    def dump_state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        self.clear()


# Modules that tests of PaddleSOT import in addition to `symbolic_translate` and `psdb`.
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
