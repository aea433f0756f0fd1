"""Graph breaks of several kinds in several places, with real Paddle.

The programs are those of `tests/break_places/templates.py`. `tests/tests/break_places.rs` runs all of them on the toy
backend; here each place and each kind occurs at least once.
"""

import contextlib
import importlib.util
import io
import linecache
import traceback
from pathlib import Path

import paddle
import pytest
from conftest import assert_same, total

import sot

path = Path(__file__).parent.parent / "break_places" / "templates.py"
spec = importlib.util.spec_from_file_location("break_place_templates", path)
templates = importlib.util.module_from_spec(spec)
spec.loader.exec_module(templates)

PRELUDE = """\
import paddle
from paddle import no_grad

def listed(y):
    return y.shape
"""

# Place, kind, graphs of the first call.
COMBINATIONS = [
    ("straight", "if", 2),
    ("straight", "whole", 2),
    ("straight", "while", 3),
    ("straight", "c_function", 2),
    ("with_manager", "chain", 2),
    ("if_body", "print", 2),
    ("elif_body", "item", 2),
    ("else_body", "float", 2),
    ("while", "assert", 3),
    ("for_else", "chain", 2),
    ("for", "item", 3),
    ("return", "conditional", 3),
    ("try_body", "item", 2),
    ("try_body", "c_function", 2),
    ("except_body", "whole", 2),
    ("except_body", "logic", 4),
    ("try_else", "range", 2),
    ("finally", "logic", 3),
    ("try_finally", "print", 2),
    ("with_manager", "if", 2),
    ("with_manager", "whole", 2),
    ("enter", "if", 2),
    ("exit", "item", 2),
    ("with_no_grad", "item", 2),
    ("with_no_grad", "if", 2),
    ("callee", "if", 2),
    ("callee", "listed", 2),
    ("closure", "float", 2),
    ("half_evaluated", "conditional", 2),
    ("super", "assert", 2),
    ("property", "item", 2),
    ("operator", "print", 2),
    ("truth", "item", 2),
    ("length", "print", 2),
    ("item", "if", 2),
    ("mapped", "float", 2),
    ("with_contextmanager", "if", 3),
    ("with_contextmanager", "item", 3),
    ("generator_consumer", "print", 3),
]


def tensor(value):
    return lambda: paddle.to_tensor(value, dtype="float32")


# Both signs, an error behind the break, and a tensor that cannot be read as one number.
ARGUMENTS = [(tensor(3.0), False), (tensor(-3.0), False), (tensor(3.0), True), (tensor([-1.0, -2.0]), False)]


def observe(function, file, make, wrong):
    """Return the result, or the exception with its traceback, and what was appended and printed."""
    out, printed = [], io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            outcome = function(make(), wrong, out)
        except Exception as error:
            frames = [(f.name, f.lineno, f.line) for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
            outcome = (type(error).__name__, str(error), frames)
    return [outcome, out, printed.getvalue()]


@pytest.mark.parametrize("place, kind, graphs", COMBINATIONS)
def test_break(place, kind, graphs):
    file = f"<{place}-{kind}>"
    source = templates.source(place, kind, prelude=PRELUDE, read="numpy")
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    module = {"__name__": file}
    exec(compile(source, file, "exec"), module)
    function = module["f"]
    fast = sot.symbolic_translate(function)
    with sot.break_on(module["listed"]):
        assert_same(observe(fast, file, *ARGUMENTS[0]), observe(function, file, *ARGUMENTS[0]))
        first = sot.stats()
        assert (first.graphs, total(first.fallbacks)) == (graphs, 0), first
        for arguments in ARGUMENTS * 2:
            assert_same(observe(fast, file, *arguments), observe(function, file, *arguments))
