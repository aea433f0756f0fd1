"""Reports a difference: the function, what differs, and the graphs and guards of its translations."""

from __future__ import annotations

import dis
import json
import logging
import os
import types
from typing import Any, Dict, List
from weakref import WeakSet

from .. import _sot
from .._config import config
from .._counts import counted
from .._logs import _Stderr
from .._verify_error import VerifyError
from .image import Difference

logger = logging.getLogger("sot.verify")
logger.addHandler(_Stderr())


_MOST_GUARDS = 40

# Functions whose first difference has been logged.
_told: WeakSet[types.CodeType] = WeakSet()


def tell(function: types.FunctionType, difference: Difference) -> None:
    """Log a difference, and raise it if `SOT_VERIFY_RAISE` is set."""
    code = function.__code__
    where = f"{function.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
    text = "\n".join([f"sot verify: {where} differs", f"  {difference}", *_translations(code)])
    if code not in _told:
        _told.add(code)
        logger.error("%s", text, extra={"function": function.__qualname__, "kind": difference.kind})
    _write_result(function, difference)
    if config.verify_raise:
        raise VerifyError(text)


def _write_result(function: types.FunctionType, difference: Difference) -> None:
    """Write the first difference to a file, if `minimise` runs the program."""
    path = os.environ.get("SOT_VERIFY_RESULT")
    if path and not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"function": function.__qualname__, "kind": difference.kind, "text": str(difference)}, file)


def _translations(code: types.CodeType) -> List[str]:
    """Return the graphs and guards of the function's translations, with their lines."""
    told: Dict[str, Any] = json.loads(_sot.report_data(0))
    last = max(line for _, line in dis.findlinestarts(code) if line is not None)
    lines = []
    for translation in told["translations"]:
        # Translations without a count of hits belong to a function that is gone.
        is_alive, file, line = translation["hits"] is not None, translation["file"], translation["line"]
        if is_alive and file == code.co_filename and code.co_firstlineno <= line <= last:
            lines += _text_of(translation)
    return lines


def _text_of(translation: Dict[str, Any]) -> List[str]:
    name, line, hits = translation["function"], translation["line"], counted(translation["hits"], "hit")
    lines = [f"  translation {translation['id']}: {name}, line {line}, {hits}"]
    if translation["registrations"]:
        lines.append("    registrations that took part:")
        lines += [f"      {registration}" for registration in translation["registrations"]]
    for graph in translation["graphs"]:
        lines.append(f"    graph {graph['name']}:")
        lines += [f"      {_place(translation, statement)}{statement['text']}" for statement in graph["statements"]]
    if translation["guards"]:
        lines.append("    guards:")
        lines += [f"      {guard['text']}" for guard in translation["guards"][:_MOST_GUARDS]]
    if len(translation["guards"]) > _MOST_GUARDS:
        lines.append(f"      and {len(translation['guards']) - _MOST_GUARDS} more, which a report shows (SOT_REPORT)")
    return lines


def _place(translation: Dict[str, Any], statement: Dict[str, Any]) -> str:
    """Return the line of a statement, as a prefix of its text."""
    try:
        return f"line {translation['places'][statement['place']]['line']}: "
    except (KeyError, IndexError, TypeError):
        return ""
