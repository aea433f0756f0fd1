"""Runs the tests of an unpacked package with pytest inside `translated_python`, and writes what became of each test.

    translated_python child.py <python> <package> native|translated <output>

It runs in the folder of the package's sources, with pytest and what the package needs on `PYTHONPATH`. The output is that of
`cpython_suite/child.py`. With `translated` all functions of the package and of its tests are asked for; functions without tensor
work get new code, too. Only the tests run with the tracer on.
"""

import collections
import faulthandler
import functools
import json
import os
import pathlib
import sys
import time

import toy
import tracer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cpython_suite"))
from child import TIMEOUT, mark  # noqa: E402

del sys.path[0]

# Receives the message that a test does not end. Pytest captures the usual standard error.
STDERR = os.dup(2)
# Switches off changes that pytest makes to the tests' code, and options that need missing plug-ins.
OPTIONS = ["-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-o", "addopts=", "-W", "ignore"]
# A file that needs a missing package is left out alone.
OPTIONS += ["--continue-on-collection-errors"]
# Leaves out tests that packages exclude from their own daily runs: the same call thousands of times.
OPTIONS += ["-m", "not stress and not slow"]


def main():
    _, sys.executable, _, mode, output = sys.argv
    sys.argv = [sys.executable]
    import pytest

    translated = mode == "translated"
    if translated:
        mark_functions_below(os.environ["SOT_PACKAGE_SOURCES"].split(os.pathsep))
    tracer.always_compile(True)
    sys.path.insert(0, os.getcwd())
    with open(output, "a+") as out:
        out.seek(0)
        begun = {json.loads(line).get("start") for line in out}
        outcomes = Outcomes(out, begun, translated)
        before = tracer.frames()
        toy.reset()
        pytest.main([*OPTIONS, *os.environ["SOT_PACKAGE_TESTS"].split(os.pathsep)], plugins=[outcomes])
        stats, after = toy.stats(), tracer.frames()
        outcomes.write(seconds=outcomes.seconds)
        outcomes.write(
            frames=[stats["hits"] + stats["misses"], after[0] - before[0]],
            panics=after[1] - before[1],
            translations=stats["translations"],
            breaks=collections.Counter(stats["breaks"]),
            fallbacks=collections.Counter(stats["fallbacks"]),
        )


def mark_functions_below(folders):
    """Mark all functions of files in the folders for translation, when they are imported."""
    import importlib.machinery

    load = importlib.machinery.SourceFileLoader.get_code

    def get_code(self, fullname):
        code = load(self, fullname)
        if any(os.path.abspath(code.co_filename).startswith(folder + os.sep) for folder in folders):
            mark(code)
        return code

    importlib.machinery.SourceFileLoader.get_code = get_code


def wait_for_examples(item):
    """No example that Hypothesis finds has to be done within a time: one may be the first call of many functions."""
    function = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
    settings = getattr(function, "_hypothesis_internal_use_settings", None)
    if settings is not None:
        function._hypothesis_internal_use_settings = type(settings)(settings, deadline=None)


class Outcomes:
    """A plug-in of pytest: runs the tests with the tracer on, and writes each outcome down when it is known."""

    def __init__(self, out, begun, translated):
        self.out, self.begun, self.translated = out, begun, translated
        self.outcome, self.seconds, self.began = None, 0, 0

    def write(self, **record):
        self.out.write(json.dumps(record) + "\n")
        self.out.flush()

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if item.nodeid not in self.begun]
        for item in items:
            wait_for_examples(item)
        if self.translated:
            for item in items:
                item.runtest = functools.partial(tracer.run, item.runtest)

    def pytest_runtest_logstart(self, nodeid):
        self.outcome, self.began = ("passed", None), time.perf_counter()
        self.write(start=nodeid)
        faulthandler.dump_traceback_later(TIMEOUT, exit=True, file=STDERR)

    def pytest_runtest_logreport(self, report):
        if self.outcome and self.outcome[0] == "passed" and report.outcome != "passed":
            self.outcome = report.outcome, str(report.longrepr)[-2000:]

    def pytest_runtest_logfinish(self, nodeid):
        faulthandler.cancel_dump_traceback_later()
        self.seconds += time.perf_counter() - self.began
        self.write(test=nodeid, outcome=self.outcome[0], why=self.outcome[1])


if __name__ == "__main__":
    main()
