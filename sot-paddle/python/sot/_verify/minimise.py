"""`python -m sot minimise script.py`: cuts a script down to what still shows the difference that verify mode finds.

Each try is a process of its own that runs the script with what is left of it. Statements are cut out in ever smaller
groups, and blocks are replaced by what stands in them, until nothing more can go.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

_HEAD = '''"""Shows a difference between translated code and the program's own run: {told}"""
import os
os.environ["SOT_VERIFY"] = "1"
'''
_RESULT = "SOT_VERIFY_RESULT"

Cut = Tuple[int, int, List[str]]
"""Lines from, to (exclusive), and what stands in their place."""


def main(script: str, arguments: List[str], output: Optional[str], seconds: float) -> int:
    """Write the shortest script found; the exit status."""
    source = Path(script).read_text(encoding="utf-8")
    target = Path(output) if output else Path(script).with_suffix(".minimal.py")
    tries = _Tries(Path(script), arguments, seconds)
    first = tries.difference(source)
    if first is None:
        print(f"{script}: verify mode finds no difference", file=sys.stderr)
        return 1
    tries.wanted = first
    print(f"{first['function']}: {first['text']}", file=sys.stderr)
    lines = shortest(source.splitlines(), tries.shows)
    target.write_text(_script(lines, first, Path(script), arguments), encoding="utf-8")
    print(f"{target}: {len(lines)} of {len(source.splitlines())} lines, after {tries.count} runs", file=sys.stderr)
    return 0


def _script(lines: List[str], first: Dict[str, Any], script: Path, arguments: List[str]) -> str:
    future = [line for line in lines if line.startswith("from __future__ ")]
    head = _HEAD.format(told=f"{first['kind']} of {first['function']}").splitlines()
    rest = [line for line in lines if line not in future]
    beside = [f"import sys\nsys.path.insert(0, {str(script.resolve().parent)!r})"] if _imports_beside(lines, script) else []
    given = [f"import sys\nsys.argv[1:] = {arguments!r}"] if arguments else []
    return "\n".join([head[0], *future, *head[1:], *beside, *given, *_with_sot(rest)]) + "\n"


def _with_sot(lines: List[str]) -> List[str]:
    """What `python -m sot run` does, for a script that asks for no translation itself."""
    if any("sot" in ast.dump(node) for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, (ast.Import, ast.ImportFrom))):
        return lines
    text = "\n".join(lines)
    return ["import sot", "sot.install()", "from sot import _sot", f"_PROGRAM = {text!r}", *_RUN]


_RUN = ['_sot._call_program(lambda: exec(compile(_PROGRAM, "<the program>", "exec"), globals()))']


def _imports_beside(lines: List[str], script: Path) -> bool:
    names = set()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return any((script.parent / name).exists() or (script.parent / f"{name}.py").exists() for name in names)


class _Tries:
    """Runs of what is left of a script."""

    def __init__(self, script: Path, arguments: List[str], seconds: float) -> None:
        self.script = script
        self.arguments = arguments
        self.seconds = seconds
        self.count = 0
        self.wanted: Dict[str, Any] = {}

    def shows(self, lines: List[str]) -> bool:
        """Whether a script shows the difference that is looked for."""
        found = self.difference("\n".join(lines) + "\n")
        return found is not None and all(found[name] == self.wanted[name] for name in ("kind", "function"))

    def difference(self, source: str) -> Optional[Dict[str, Any]]:
        """The first difference that a script shows."""
        self.count += 1
        with tempfile.TemporaryDirectory() as folder:
            result, program = Path(folder) / "difference.json", Path(folder) / self.script.name
            program.write_text(source, encoding="utf-8")
            path = [str(self.script.resolve().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
            environment = {**os.environ, _RESULT: str(result), "PYTHONPATH": os.pathsep.join(path)}
            command = [sys.executable, "-m", "sot", "run", "--verify", str(program), *self.arguments]
            try:
                subprocess.run(
                    command, env=environment, timeout=self.seconds,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return None
            if not result.exists():
                return None
            told: Dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
            return told


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
    """Cuts out runs of so many statements, the last ones first: nothing that is left needs those."""
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
    """Puts the body of an `if`, `for`, `with` or `try` in its place."""
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
        # What stands in something that is cut out goes with it.
        if not outer or cut[0] >= outer[-1][1]:
            outer.append(cut)
    for first, last, filler in reversed(outer):
        result[first:last] = filler
    return result


def _statements(lines: List[str]) -> List[Cut]:
    """Every statement, in the order of the lines, with what must stand in its place."""
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
    return min([statement.lineno, *(mark.lineno for mark in getattr(statement, "decorator_list", []))])


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
