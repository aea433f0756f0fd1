"""Runs one file of CPython's tests inside `translated_python`, and writes what became of each test.

    translated_python child.py <python> <test module> native|translated <output>

The output is one JSON text a line, written as it comes: a test that starts, its outcome, and at the end what was translated.
Tests that have started in it already are left out: the process before this one died of the last.
With `translated` every function that the file defines is asked for, and what it calls is followed; functions without tensor
work get new code, too. Only the tests run with the tracer on: imports and set-up of modules do not.
"""

import collections
import faulthandler
import importlib
import importlib.machinery
import json
import os
import re
import sys
import tempfile
import types
import unittest

import toy
import tracer

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from exclusions import reason_for  # noqa: E402

del sys.path[0]

# `CO_OPTIMIZED | CO_NEWLOCALS`: the code of functions, as opposed to class bodies and modules.
FUNCTION = 3
# Seconds for one test.
TIMEOUT = int(os.environ.get("SOT_TEST_TIMEOUT", 180))


def main():
    _, sys.executable, name, mode, output = sys.argv
    sys.argv = [sys.executable]
    translated = mode == "translated"
    if translated:
        mark_functions_of("test")
    tracer.always_compile(True)
    from test import support

    support.use_resources = []
    os.chdir(tempfile.mkdtemp())
    chosen = os.environ.get("SOT_CPYTHON_TEST")
    with open(output, "a+") as out:
        out.seek(0)
        begun = {json.loads(line).get("start") for line in out}
        suite = unittest.TestSuite()
        importlib.import_module(f"test.{name}")
        for test in flat(unittest.defaultTestLoader.loadTestsFromName(f"test.{name}")):
            wanted = test.id() not in begun and (not chosen or re.search(chosen, test.id()))
            if wanted and not reason_for(name, test.id(), sys.version_info[1]):
                suite.addTest(test)
        result = Outcomes(out)
        before = tracer.frames()
        toy.reset()
        run = tracer.run if translated else lambda function, *args: function(*args)
        run(suite.run, result)
        stats, after = toy.stats(), tracer.frames()
        seen = stats["hits"] + stats["misses"]
        result.write(
            frames=[seen, after[0] - before[0]],
            panics=after[1] - before[1],
            translations=stats["translations"],
            breaks=collections.Counter(stats["breaks"]),
            fallbacks=collections.Counter(stats["fallbacks"]),
        )


def mark_functions_of(name):
    """Mark all functions of a module and of its submodules for translation, when they are imported."""
    load = importlib.machinery.SourceFileLoader.get_code

    def get_code(self, fullname):
        code = load(self, fullname)
        if fullname == name or fullname.startswith(name + "."):
            mark(code)
        return code

    importlib.machinery.SourceFileLoader.get_code = get_code


def mark(code):
    if code.co_flags & FUNCTION == FUNCTION:
        tracer.mark(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            mark(constant)


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


class Outcomes(unittest.TestResult):
    """Writes each outcome down when it is known."""

    def __init__(self, out):
        super().__init__()
        self.out = out
        self.bad = None

    def write(self, **record):
        self.out.write(json.dumps(record) + "\n")
        self.out.flush()

    def startTest(self, test):
        super().startTest(test)
        self.bad = None
        self.write(start=test.id())
        faulthandler.dump_traceback_later(TIMEOUT, exit=True)

    def stopTest(self, test):
        super().stopTest(test)
        faulthandler.cancel_dump_traceback_later()
        outcome, why = self.bad or ("passed", None)
        self.write(test=test.id(), outcome=outcome, why=why)

    def note(self, outcome, why):
        if self.bad is None or outcome == "failed":
            self.bad = (outcome, why)

    def addError(self, test, error):
        # A failure in `setUpClass` belongs to no test.
        if not hasattr(test, "_testMethodName"):
            self.write(test=str(test), outcome="failed", why=self._exc_info_to_string(error, test))
        self.note("failed", self._exc_info_to_string(error, test))

    def addFailure(self, test, error):
        self.note("failed", self._exc_info_to_string(error, test))

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.note("failed", f"{subtest}\n" + self._exc_info_to_string(error, test))

    def addSkip(self, test, reason):
        self.note("skipped", reason)

    def addExpectedFailure(self, test, error):
        self.note("skipped", "expected to fail")

    def addUnexpectedSuccess(self, test):
        self.note("failed", "unexpected success")


if __name__ == "__main__":
    main()
