"""`python -m sot run`: runs an unchanged program with the tracer on.

The program finds what it would find if Python ran it: `sys.argv`, `sys.path`, and its own module as `__main__`. Its
exceptions are shown without frames of this package, and end the process with the status that CPython would give.
"""

from __future__ import annotations

import argparse
import builtins
import io
import os
import runpy
import sys
import types
from importlib.machinery import SourceFileLoader
from typing import Any, Callable, Dict, List

from . import _report_files, _sot
from ._counts import stats


def main(asked: argparse.Namespace) -> None:
    """Run the program.

    Exits if the program raises, with `--fail-on-break` if there was a break or fallback, and with `--verify` if a call
    differed.
    """
    # Only some packages have `install`: it puts the tracer behind the framework's own compiler.
    install = getattr(sys.modules[str(__package__)], "install", None)
    if install is not None:
        install()
    if asked.report is not None:
        wrong = _report_files.problem_with(asked.report)
        if wrong is not None:
            print(f"python -m {__package__} run --report {asked.report}: {wrong}", file=sys.stderr)
            sys.exit(2)
        _report_files.say_where()
    program = _module(asked.program, asked.arguments) if asked.module else _script(asked.program, asked.arguments)
    leaves, interrupted = SystemExit(0), False
    try:
        _sot._call_program(program)
    except SystemExit as error:
        leaves = error
    except BaseException as error:
        _show(error)
        leaves = SystemExit(1)
        interrupted = type(error) is KeyboardInterrupt
    counted = stats()
    if asked.verify:
        print(f"python -m {__package__} run --verify:\n{counted}", file=sys.stderr)
    if interrupted:
        # CPython runs the exit functions, and then ends the process by the signal. The exception is shown already.
        sys.excepthook = lambda *_: None
        raise KeyboardInterrupt
    if leaves.code not in (None, 0):
        raise leaves
    if asked.fail_on_break:
        _fail_on_break()
    if asked.verify and counted.differences:
        sys.exit(1)


def _script(path: str, arguments: List[str]) -> Callable[[], None]:
    """Return the program in a file, or in a folder or archive with a `__main__`, as a function."""
    sys.argv[:] = [path, *arguments]
    if not os.path.isfile(path) or _is_archive(path):
        if not os.path.exists(path):
            print(f"{sys.executable}: can't open file {os.path.abspath(path)!r}: [Errno 2] No such file or directory", file=sys.stderr)
            sys.exit(2)
        _set_first_path(_shown(path))
        main_module = _fresh_main()
        return lambda: _run_module("__main__", False, main_module)
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    file = _shown(path)
    main_module = _fresh_main()
    main_module.__file__ = file
    main_module.__dict__["__cached__"] = None
    main_module.__loader__ = SourceFileLoader("__main__", file)

    def run() -> None:
        with io.open_code(path) as source:
            text = source.read()
        exec(compile(text, file, "exec", dont_inherit=True), main_module.__dict__)

    return run


def _shown(path: str) -> str:
    """Return the path that the program has as `__file__`: absolute from Python 3.9 on."""
    return os.path.abspath(path) if sys.version_info >= (3, 9) else path


def _is_archive(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _module(name: str, arguments: List[str]) -> Callable[[], None]:
    sys.argv[:] = [name, *arguments]
    main_module = _fresh_main()
    return lambda: _run_module(name, True, main_module)


def _run_module(name: str, alter_argv: bool, main_module: types.ModuleType) -> None:
    # The function that CPython itself calls for `python -m name`.
    run: Callable[..., Dict[str, Any]] = getattr(runpy, "_run_module_as_main")
    run(name, alter_argv)


def _set_first_path(folder: str) -> None:
    """Set `sys.path[0]`: `python -m` puts the working directory there, a script its own folder, safe paths neither."""
    if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        sys.path[0] = folder


def _fresh_main() -> types.ModuleType:
    """Make the module `__main__` as a script finds it. It stays until the process ends, for exit handlers."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        module.__dict__["__annotations__"] = {}
    sys.modules["__main__"] = module
    return module


def _show(error: BaseException) -> None:
    """Show an uncaught exception as CPython does, without frames of this package."""
    traceback = error.__traceback__
    while traceback is not None and _is_ours(traceback):
        traceback = traceback.tb_next
    error = error.with_traceback(traceback)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, traceback
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    sys.excepthook(type(error), error, traceback)


def _is_ours(traceback: types.TracebackType) -> bool:
    return traceback.tb_frame.f_code.co_filename == __file__


def _fail_on_break() -> None:
    counted = stats()
    if counted.breaks or counted.fallbacks:
        print(f"python -m {__package__} run --fail-on-break:\n{counted}", file=sys.stderr)
        sys.exit(1)
