"""The known divergences in docs/soundness.md: each program must still print what the page says, in eager mode and translated.

A divergence that is no longer true fails here, so that the page is corrected.
"""

import contextlib
import io
import re
import sys
from pathlib import Path

import paddle
import pytest

import sot

PAGE = Path(__file__).parents[2] / "docs" / "soundness.md"
SECTION = re.compile(r"^### (?P<title>.+?)\n(?P<body>.*?)(?=^##|\Z)", re.M | re.S)
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
OUTPUTS = re.compile(r"^```text\neager mode: (.*?)\ntranslated: (.*?)\n```", re.M | re.S)
SINCE = re.compile(r"^CPython (?:3\.(\d+) and newer|3\.(\d+) and older) only[.,]", re.M)

ALONE = {
    "What a frame in a traceback holds": "the frames of verify mode are in the traceback",
    "When an argument dies that only the call holds": "verify mode holds what a call reaches until it has been compared",
    "When an item dies that a called function found in a set and discarded": (
        "verify mode holds what a call reaches until it has been compared"
    ),
}


def divergences():
    known = PAGE.read_text().split("## Known divergences", 1)[1]
    for section in SECTION.finditer(known):
        title = section["title"]
        marks = [pytest.mark.alone(ALONE[title])] if title in ALONE else []
        yield pytest.param(title, section["body"], id=re.sub(r"\W+", "-", title).strip("-"), marks=marks)


def run(program, translated, monkeypatch):
    """The lines that a program prints, joined by `; `."""
    sot.reset()
    paddle.seed(2024)
    printed = io.StringIO()
    with monkeypatch.context() as patched, contextlib.redirect_stdout(printed):
        if not translated:
            patched.setattr(sot, "symbolic_translate", lambda function, **_: function)
        exec(compile(program, str(PAGE), "exec"), {"__name__": "program"})
    return "; ".join(printed.getvalue().split("\n")).strip("; ")


@pytest.mark.alone("verify mode runs the program itself last, and its nodes are named")
@pytest.mark.differs
@pytest.mark.parametrize("title, body", list(divergences()))
def test_a_known_divergence_is_still_one(title, body, monkeypatch):
    limit = SINCE.search(body)
    if limit:
        since, until = limit.groups()
        minor = sys.version_info.minor
        if (since and minor < int(since)) or (until and minor > int(until)):
            pytest.skip(limit[0])
    (program,), (outputs,) = PROGRAM.findall(body), OUTPUTS.findall(body)
    assert outputs[0] != outputs[1], "a divergence is one where the two differ"
    eager = run(program, False, monkeypatch)
    translated = run(program, True, monkeypatch)
    assert sot.stats().translations > 0, "nothing was translated"
    assert (eager, translated) == outputs, f"{title}: correct docs/soundness.md"


def test_every_divergence_has_a_program():
    known = PAGE.read_text().split("## Known divergences", 1)[1]
    assert known.count("\n### ") == len(PROGRAM.findall(known)) == len(OUTPUTS.findall(known)) > 0
