"""The examples of docs/register-from-python.md run, each in a module of its own."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "register-from-python.md"
EXAMPLES = re.findall(r"<!-- test -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
MARKED = PAGE.read_text().count("<!-- test -->")


def test_every_example_is_found():
    assert len(EXAMPLES) == MARKED >= 8


@pytest.mark.differs
@pytest.mark.parametrize("example", EXAMPLES, ids=[example.split("sot.")[-1][:20] for example in EXAMPLES])
def test_an_example_does_what_it_says(example):
    exec(compile(example, str(PAGE), "exec"), {"__name__": "example"})
