"""Plug-ins in Python: importing `sot` calls the functions that distributions offer under `sot.plugins`."""

import os
import subprocess
import sys
import textwrap

import pytest

PLUGINS = """
import sys
import paddle
import sot


def slow(n):
    return eval("n + 1")


def good():
    sot.register.pure(slow)


def bad():
    sot.register.pure(3)


def half():
    sot.register.pure(slow)
    sot.register.substitute(len)(lambda obj, /: obj.__len__())


def leaves():
    sot.register.pure(slow)
    sys.exit(3)
"""

PROGRAM = """
import warnings

with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    import sot
for one in found:
    if issubclass(one.category, RuntimeWarning):
        print("warned:", one.message)
import paddle
import plugins_of_a_test

fast = sot.symbolic_translate(lambda x: x * plugins_of_a_test.slow(2))
print(fast(paddle.ones([1])).tolist(), len(sot.stats().breaks))
"""


@pytest.fixture
def run(tmp_path):
    """Run a program in an environment with a distribution that has these entry points."""

    def run(entries, *command):
        (tmp_path / "plugins_of_a_test.py").write_text(PLUGINS)
        folder = tmp_path / "plugins_of_a_test-1.2.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plugins-of-a-test\nVersion: 1.2\n")
        (folder / "entry_points.txt").write_text("[sot.plugins]\n" + "\n".join(entries) + "\n")
        path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
        program = [sys.executable, *(command or ("-c", textwrap.dedent(PROGRAM)))]
        done = subprocess.run(program, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_entry_points_are_called_and_errors_name_their_distribution(run):
    *warned, result = run(["good = plugins_of_a_test:good", "bad = plugins_of_a_test:bad", "gone = plugins_of_a_test:gone"])
    assert result == "[3.0] 0", "what the good one has registered holds"
    assert len(warned) == 2, warned
    assert any("'bad' of plugins-of-a-test 1.2 cannot be used: TypeError: sot.register.pure() takes callables" in one for one in warned)
    assert any("'gone' of plugins-of-a-test 1.2 cannot be used: AttributeError" in one for one in warned)


AGAIN = """
import sot, plugins_of_a_test

sot.register.pure(plugins_of_a_test.slow)
for called in sot._plugins.called:
    print(called[-1])
"""


@pytest.mark.parametrize("name, why", [("half", "ValueError: sot.register.substitute"), ("leaves", "SystemExit: 3")])
def test_a_plug_in_that_fails_has_registered_nothing(run, name, why):
    (said,) = run([f"wrong = plugins_of_a_test:{name}"], "-W", "ignore", "-c", AGAIN)
    assert said.startswith(why)


def test_the_list_of_plug_ins_names_distributions(run):
    entries = ["good = plugins_of_a_test:good", "bad = plugins_of_a_test:bad"]
    listed = run(entries, "-W", "ignore", "-m", "sot", "plugins")
    assert "1 backend" in listed
    assert "2 plug-ins in Python, by the entry-point group sot.plugins" in listed
    assert "  good of plugins-of-a-test 1.2: plugins_of_a_test:good" in listed
    assert any(
        one.startswith("  bad of plugins-of-a-test 1.2: plugins_of_a_test:bad cannot be used: TypeError: sot.register.pure() takes")
        for one in listed
    )
