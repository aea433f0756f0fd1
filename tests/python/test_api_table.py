"""Every public function of Paddle, called translated: `tests/api_table` does it, and writes `docs/paddle-api.md`."""

import os
import subprocess
import sys
from pathlib import Path

import paddle
import pytest

import sot

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "paddle-api.md"


def probe(*options):
    paths = [str(Path(sot.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, str(TESTS / "api_table" / "probe.py"), *options]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, universal_newlines=True, timeout=600)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_every_function_does_what_it_does_in_eager_mode():
    current = f"Paddle {paddle.__version__} " in PAGE.read_text()
    assert " captured" in probe(*(["--check", str(PAGE)] if current else []))


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_other_element_types(dtype):
    assert " captured" in probe("--dtype", dtype)
