"""The examples of docs/register-from-python.md run, each in a module of its own."""

import contextlib
import re
from pathlib import Path

import pytest

import sot
from sot import _registration

PAGE = Path(__file__).parents[2] / "docs" / "register-from-python.md"
EXAMPLES = re.findall(r"<!-- test -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
MARKED = PAGE.read_text().count("<!-- test -->")


@pytest.fixture(autouse=True)
def undone():
    made = []
    _registration._collecting.append(made)
    yield
    _registration._collecting.pop()
    for registration in reversed(made):
        registration.undo()


def test_every_example_is_found():
    assert len(EXAMPLES) == MARKED >= 8


@pytest.mark.differs
@pytest.mark.parametrize("example", EXAMPLES, ids=[example.split("sot.")[-1][:20] for example in EXAMPLES])
def test_an_example_does_what_it_says(example):
    exec(compile(example, str(PAGE), "exec"), {"__name__": "example"})


@pytest.mark.parametrize("name", ["pure", "constant_result", "substitute", "graph_node", "value_type", "container"])
def test_an_example_needs_its_registration(name, monkeypatch):
    example = next(example for example in EXAMPLES if f"sot.register.{name}(" in example)
    monkeypatch.setattr(sot.register, name, lambda *arguments: Nothing())
    with pytest.raises(AssertionError):
        exec(compile(example, str(PAGE), "exec"), {"__name__": "example"})


class Nothing(contextlib.nullcontext):
    """Does nothing, as a registration and as a decorator."""

    def __call__(self, function):
        return function
