"""`python -m sot minimise script.py`: cuts a script down to what still shows the difference that verify mode finds.

Each try runs the rest of the script in a fork of this process, which has imported Paddle. Statements are cut out in
ever smaller groups, and blocks are replaced by their bodies, until nothing more can be cut.
"""

from __future__ import annotations

import ast
import json
import os
import signal
import sys
import tempfile
import time
import tokenize
from pathlib import Path
from typing import Any, Dict, Iterator, List, NoReturn, Optional, Tuple

from .. import _command, _run
from .._config import config

_HEAD = '''"""Shows a difference between translated code and the program's own run: {told}"""
import os, sys
if "sot" not in sys.modules:
    os.environ["SOT_VERIFY"] = "1"
    os.execv(sys.executable, [sys.executable, "-m", "sot", "run", __file__, *{arguments!r}])
'''
_RESULT = "SOT_VERIFY_RESULT"
_MOST_LINES = 12

Cut = Tuple[int, int, List[str]]
"""Lines from, to (exclusive), and what stands in their place."""


def main(script: str, arguments: List[str], output: Optional[str], seconds: float) -> int:
    """Write the shortest script that was found. Return the exit status."""
    try:
        with tokenize.open(script) as file:
            source = file.read()
        ast.parse(source, script)
    except (OSError, UnicodeDecodeError, SyntaxError) as error:
        print(f"{script} cannot be read as a Python script: {error}", file=sys.stderr)
        return 2
    target = Path(output) if output else Path(script).with_suffix(".minimal.py")
    wrong = _problem_with(target)
    if wrong is not None:
        print(f"{target} cannot be written: {wrong}", file=sys.stderr)
        return 2
    tries = _Tries(Path(script), arguments, seconds)
    first = tries.difference(source)
    if first is None:
        print(f"{script}: {tries.why_none()}", file=sys.stderr)
        return 1
    tries.wanted = first
    print(f"{first['function']}: {first['text']}", file=sys.stderr)
    lines = shortest(source.splitlines(), tries.shows)
    text = _script(lines, first, Path(script), arguments)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"{target} cannot be written, so the script follows here: {error.strerror or error}", file=sys.stderr)
        print(text)
        return 2
    print(f"{target}: {len(lines)} of {len(source.splitlines())} lines, after {tries.count} runs", file=sys.stderr)
    return 0


def _problem_with(target: Path) -> Optional[str]:
    """Return why a file cannot be written; `None` if it can."""
    try:
        if target.exists():
            with target.open("a", encoding="utf-8"):
                return None
        # The file itself is made at the end only.
        with tempfile.TemporaryFile(dir=target.parent):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _script(lines: List[str], first: Dict[str, Any], script: Path, arguments: List[str]) -> str:
    """Return a script that can be run without further arguments or settings."""
    told = f"{first['kind']} of {first['function']}"
    title, *head = _HEAD.format(told=told, arguments=arguments).splitlines()
    future = [line for line in lines if line.startswith("from __future__ ")]
    beside = [f"sys.path.insert(1, {str(script.resolve().parent)!r})"] if _imports_beside(lines, script) else []
    return "\n".join([title, *future, *head, *beside, *(line for line in lines if line not in future)]) + "\n"


def _imports_beside(lines: List[str], script: Path) -> bool:
    names = set()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return any((script.parent / name).exists() or (script.parent / f"{name}.py").exists() for name in names)


class _Tries:
    """Runs what is left of a script."""

    def __init__(self, script: Path, arguments: List[str], seconds: float) -> None:
        self.script = script
        self.arguments = arguments
        self.seconds = seconds
        self.count = 0
        self.wanted: Dict[str, Any] = {}
        # How the last run ended: its exit status, `None` if it was stopped, and the end of its standard error.
        self.status: Optional[int] = 0
        self.said = ""

    def shows(self, lines: List[str]) -> bool:
        """Return whether a script shows the wanted difference."""
        found = self.difference("\n".join(lines) + "\n")
        return found is not None and all(found[name] == self.wanted[name] for name in ("kind", "function"))

    def why_none(self) -> str:
        """Return why the last run has shown no difference."""
        if self.status is None:
            return f"the run was stopped after {self.seconds:g} seconds, before its end; --seconds gives it more time"
        if self.status:
            how = f"exit status {self.status}" if self.status > 0 else f"signal {-self.status}"
            return f"verify mode finds no difference before the script fails ({how}):\n{self.said}"
        return "verify mode finds no difference; `python -m sot run --verify` says what was compared"

    def difference(self, source: str) -> Optional[Dict[str, Any]]:
        """Return the first difference that a script shows, if there is one."""
        self.count += 1
        with tempfile.TemporaryDirectory() as folder:
            # The script has a folder of its own, which is the first of `sys.path`.
            result, said = Path(folder, "difference.json"), Path(folder, "stderr")
            program = Path(folder, "script", self.script.name)
            program.parent.mkdir()
            program.write_text(source, encoding="utf-8")
            child = os.fork()
            if child == 0:
                self._run(program, result, said)
            self.status = _status_of(child, self.seconds)
            self.said = _last_lines(said).replace(str(program), str(self.script))
            if self.status is None or not result.exists():
                return None
            told: Dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
            return told

    def _run(self, program: Path, result: Path, said: Path) -> NoReturn:
        """Run a script in this process, which is a fork, and end the process."""
        status = 1
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1):
                os.dup2(nothing, stream)
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
            os.environ[_RESULT] = str(result)
            # Modules beside the original script must be found.
            sys.path.insert(1, str(self.script.resolve().parent))
            config.verify = True
            _run.main(_command.parse(["run", str(program), *self.arguments]))
            status = 0
        except SystemExit as leaves:
            if isinstance(leaves.code, int):
                status = leaves.code
            else:
                print(leaves.code, file=sys.stderr)
        finally:
            sys.stderr.flush()
            # Exit handlers belong to the parent process.
            os._exit(status & 0xFF)


def _status_of(child: int, seconds: float) -> Optional[int]:
    """Wait for a process, and kill it if it takes too long. Return its exit status, or the number of the signal that
    ended it as a negative number; `None` if it was killed here."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _last_lines(file: Path) -> str:
    """Return the last lines of a file for people; nothing if there is no such file."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(f"  {line}" for line in lines[-_MOST_LINES:])


def shortest(lines: List[str], shows: Any) -> List[str]:
    """Lines of a script from which nothing more can be cut without `shows` becoming false."""
    while True:
        before = lines
        size = max(1, len(_statements(lines)) // 2)
        while size:
            lines = _without_groups(lines, size, shows)
            size //= 2
        lines = _without_blocks(lines, shows)
        if lines == before:
            return [line for line in lines if line.strip()]


def _without_groups(lines: List[str], size: int, shows: Any) -> List[str]:
    """Cut out groups of `size` statements, the last ones first: the remaining ones do not need these."""
    at = len(_statements(lines))
    while at > 0:
        statements = _statements(lines)
        at = min(at, len(statements))
        group = statements[max(0, at - size) : at]
        shorter = _cut(lines, [(first, last, filler) for first, last, filler in group])
        if shorter != lines and _parses(shorter) and shows(shorter):
            lines = shorter
        at -= size
    return lines


def _without_blocks(lines: List[str], shows: Any) -> List[str]:
    """Replace each `if`, `for`, `while`, `with` or `try` by its body, if the difference still shows."""
    position = 0
    while True:
        blocks = list(_blocks(lines))
        if position >= len(blocks):
            return lines
        shorter = _cut(lines, [blocks[position]])
        if _parses(shorter) and shows(shorter):
            lines = shorter
        else:
            position += 1


def _parses(lines: List[str]) -> bool:
    try:
        ast.parse("\n".join(lines) + "\n")
    except (SyntaxError, ValueError):
        return False
    return True


def _cut(lines: List[str], cuts: List[Cut]) -> List[str]:
    result = list(lines)
    outer: List[Cut] = []
    for cut in sorted(cuts, key=lambda cut: (cut[0], -cut[1])):
        # A cut within another cut is part of that one.
        if not outer or cut[0] >= outer[-1][1]:
            outer.append(cut)
    for first, last, filler in reversed(outer):
        result[first:last] = filler
    return result


def _statements(lines: List[str]) -> List[Cut]:
    """Return every statement, in the order of the lines, with the lines that must replace it."""
    found: List[Cut] = []

    def look(body: List[ast.stmt], needs_one: bool) -> None:
        for statement in body:
            first, last = _first_line(statement) - 1, statement.end_lineno or statement.lineno
            alone = needs_one and len(body) == 1
            is_pass = isinstance(statement, ast.Pass)
            if not (alone and is_pass):
                indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
                found.append((first, last, [f"{indent}pass"] if alone else []))
            for inner in _bodies(statement):
                look(inner, True)

    look(ast.parse("\n".join(lines) + "\n").body, False)
    return sorted(found, key=lambda cut: (cut[0], -cut[1]))


def _first_line(statement: ast.stmt) -> int:
    decorators: List[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _bodies(statement: ast.stmt) -> Iterator[List[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(statement, name, None)
        if isinstance(body, list) and body:
            yield body
    for handler in getattr(statement, "handlers", []):
        yield handler.body


def _blocks(lines: List[str]) -> Iterator[Cut]:
    for node in ast.walk(ast.parse("\n".join(lines) + "\n")):
        if isinstance(node, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
            body = node.body
            first, last = body[0].lineno - 1, body[-1].end_lineno or body[-1].lineno
            if first < node.lineno:
                continue
            extra = body[0].col_offset - node.col_offset
            yield node.lineno - 1, node.end_lineno or last, [line[extra:] for line in lines[first:last]]
