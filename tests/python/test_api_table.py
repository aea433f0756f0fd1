"""Calls every public function of Paddle translated; `tests/api_table` writes `docs/paddle-api.md` from that."""

import os
import subprocess
import sys
from pathlib import Path

import paddle
import pytest

import sot

pytestmark = pytest.mark.divided

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


# Interpreters with the same Paddle share the work: each tests one element type, except CPython 3.12, which tests both.
TAKEN = {(3, 9): "float64", (3, 10): "int64", (3, 11): "float64", (3, 13): "int64"}


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_other_element_types(dtype):
    taken = TAKEN.get(sys.version_info[:2], dtype)
    if dtype != taken:
        pytest.skip(f"this interpreter takes {taken}; CPython 3.12, with the same Paddle, takes both")
    assert " captured" in probe("--dtype", dtype)


# The sweeps of options and of sizes take minutes, so each interpreter takes another twelfth of the functions: half of
# them in all.
PARTS = 12


@pytest.mark.parametrize("varied", ["options", "sizes"])
def test_variations(varied):
    part = (sys.version_info[1] * 2) % PARTS + 1
    assert " 0 differences" in probe(f"--{varied}", "--part", f"{part}/{PARTS}")
