"""`python -m sot doctor`: checks if sot works here, and says what to do if not.

Works where sot cannot be imported: it imports the parts one by one, and any Python 3 can parse it.
"""

import importlib
import os
import platform
import sys
from typing import Any, Callable, List, Optional, Tuple

from . import _requirements

_ABSENT = "that cannot be imported"

# The text of a check's finding, and the remedy if something is wrong.
Found = Tuple[str, Optional[str]]


def main() -> int:
    """Print the finding of each check. Return 1 if something is wrong, else 0."""
    wrong = 0
    for name, check in _CHECKS:
        try:
            found, remedy = check()
        except Exception as error:
            found, remedy = "{}: {}".format(type(error).__name__, error), "this check itself failed: please report it"
        print("[{}] {}: {}".format("ok" if remedy is None else "!!", name, found))
        if remedy is not None:
            print("     -> {}".format(remedy))
            wrong += 1
    print("Nothing is wrong." if not wrong else "{} of {} checks found something wrong.".format(wrong, len(_CHECKS)))
    return 1 if wrong else 0


def versions() -> str:
    """Return the versions of sot, Paddle and CPython, as far as they can be imported."""
    sot = _attempt(lambda: importlib.import_module("sot._sot").__version__)
    if sot == _ABSENT:
        # Without Paddle the import fails, but first it gives the package its version.
        sot = getattr(importlib.import_module("sot"), "__version__", _ABSENT)
    if sot == _ABSENT:
        # The extension is for another interpreter. The version of the distribution lacks the commit.
        sot = _attempt(lambda: importlib.import_module("importlib.metadata").version("sot-paddle"))
    paddle = _attempt(lambda: importlib.import_module("paddle").__version__)
    return "sot {} (Paddle {}, CPython {})".format(sot, paddle, platform.python_version())


def _attempt(ask: Callable[[], Any]) -> str:
    try:
        return str(ask())
    except Exception:
        return _ABSENT


def _interpreter() -> Found:
    found = "{} {} ({})".format(platform.python_implementation(), platform.python_version(), sys.executable)
    try:
        _requirements.check_interpreter(sys.implementation.name, sys.version_info[:2])
    except ImportError as error:
        return found, str(error)
    if not getattr(sys, "_is_gil_enabled", lambda: True)() or "t" in getattr(sys, "abiflags", ""):
        return found + ", free-threaded", "free-threaded builds are not supported: use one with the GIL"
    if sys.platform != "linux":
        return found + ", " + sys.platform, "sot works on Linux only"
    return found, None


def _paddle() -> Found:
    try:
        _requirements.check_paddle()
    except ImportError as error:
        return "not usable", str(error)
    import paddle

    return "{} ({})".format(paddle.__version__, os.path.dirname(paddle.__file__ or "")), None


def _extension() -> Found:
    """Import the extension, which compares the layouts of CPython's structs and freezes the registries."""
    try:
        _requirements.check()
    except ImportError as error:
        return "not tried", "first see to the above: {}".format(error)
    try:
        extension = importlib.import_module("sot._sot")
    except ModuleNotFoundError as error:
        return str(error), "the compiled part was not built for this Python: pip install ./sot-paddle with it"
    except ImportError as error:
        return str(error), "another build of CPython or another sot may fit; if the text names a registration, mend that"
    return "{} ({}), layouts of CPython as expected".format(extension.__version__, extension.__file__), None


def _linked() -> Found:
    if _extension()[1] is not None:
        return "not tried", "first see to the above"
    from . import _sot

    counts = {}  # type: Any
    for registry, *_ in _sot._registrations():
        counts[registry] = counts.get(registry, 0) + 1
    named = (
        "{} {}{}".format(count, registry, "" if count == 1 else "s") for registry, count in sorted(counts.items())
    )
    found = ", ".join(named)
    lacking = [registry for registry in ("opcode", "kind", "builtin", "backend") if not counts.get(registry)]
    if lacking:
        return found, "nothing registers a {}: this build lacks a crate".format(" or ".join(lacking))
    return found + " (python -m sot plugins)", None


def _translation() -> Found:
    """Translate a function and compare it with the original."""
    if _extension()[1] is not None:
        return "not tried", "first see to the above"
    import paddle

    from . import _sot

    def double(x: Any) -> Any:
        return x * 2 + 1

    x = paddle.to_tensor([1.0, 2.0])
    fast = _sot.symbolic_translate(double)
    before = _sot.stats()["graphs"]
    result, again = fast(x), fast(x)
    graphs = _sot.stats()["graphs"] - before
    if graphs != 1 or not bool((result == double(x)).all()) or not bool((again == double(x)).all()):
        return "{} graphs, {}".format(graphs, result), "please report it, with the output of this command"
    return "a function is one graph, and gives what eager mode gives", None


def _environment() -> Found:
    try:
        # The variables can be read as soon as the compiled part has been imported, even if that import fails.
        _attempt(lambda: importlib.import_module("sot._sot"))
        from . import _config
    except (ImportError, SyntaxError):
        return "not tried", "first see to the above"

    said = ["{}={}".format(name, os.environ[name]) for name in _config.variables() if name in os.environ]
    found = ", ".join(said) if said else "no variable is set"
    problems = _config.problems()
    unknown = [name for name in os.environ if name.startswith("SOT_") and not _config.is_known(name)]
    if problems:
        return found, "; ".join("{}: {}".format(name, wrong) for name, wrong in problems)
    if unknown:
        found += "; not read: {}".format(", ".join(sorted(unknown)))
    return found, None


_CHECKS = [
    ("interpreter", _interpreter),
    ("Paddle", _paddle),
    ("compiled part", _extension),
    ("linked in", _linked),
    ("environment variables", _environment),
    ("translation", _translation),
]  # type: List[Tuple[str, Callable[[], Found]]]
