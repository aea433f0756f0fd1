"""Run Paddle's own tests of its tracer against `sot`.

    python tests/paddle_suite/run.py <folder of the tests> [name of a test file ...] [--json FILE]

The folder is `test/sot` of a checkout of Paddle's sources, or `tests` of one of PaddleSOT; it is only read. Each file runs in a process of its own. What
looks into private parts of Paddle's tracer is left out, with the reason in `EXEMPT`.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

# `file` or `file::test` → why it is not run.
EXEMPT = {
    "test_analysis_inputs.py": "calls Paddle's analysis of bytecode",
    "test_binary_operator_tracker.py": "builds Paddle's trackers",
    "test_builtin_dispatch.py::TestBuiltinDispatch.test_dispatch_Tensor_and": "looks into Paddle's dispatcher",
    "test_code_status.py": "looks into a table of Paddle's tracer",
    "test_constant_graph.py": "builds Paddle's variables",
    "test_cost_model.py": "sets the timings of Paddle's cost model",
    "test_instruction_translator_cache.py": "puts functions of its own into Paddle's cache",
    "test_mutable_data.py": "tests a data structure of Paddle's tracer",
    "test_numpy.py::TestNumpyArg": "looks into Paddle's tracer",
    "test_sir_rollback.py": "builds Paddle's graph",
    "test_sot_cost_model.py": "sets the timings of Paddle's cost model",
    "test_sot_exception.py::TestDispatchError": "looks into Paddle's dispatcher",
    "test_sot_export.py": "compares the text of Paddle's export",
    "test_stack.py": "tests a data structure of Paddle's tracer",
    "test_step_profiler.py": "tests the profiler of Paddle's tracer",
    "test_case_base.py": "holds no tests",
}
TIMEOUT = 600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the outcome of every test")
    parser.add_argument("--one", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return run_file(options.folder, options.files[0], options.one)
    names = options.files or sorted(path.name for path in options.folder.glob("test_*.py"))
    if not names:
        parser.error(f"no test_*.py in {options.folder}")
    outcomes = {}
    for name in names:
        outcomes[name] = {"*": ("exempt", EXEMPT[name])} if name in EXEMPT else in_process(options.folder, name)
        counts = collections.Counter(status for status, _ in outcomes[name].values())
        print(f"{name}: " + ", ".join(f"{number} {status}" for status, number in sorted(counts.items())), flush=True)
    if options.json:
        options.json.write_text(json.dumps(outcomes, indent=1))
    total = collections.Counter(status for tests in outcomes.values() for status, _ in tests.values())
    print(", ".join(f"{number} {status}" for status, number in sorted(total.items())))
    return 0 if not total.keys() & {"failed", "error", "crashed"} else 1


def in_process(folder: pathlib.Path, name: str) -> dict[str, tuple[str, str]]:
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, __file__, str(folder), name, "--one", report.name]
        environment = {**os.environ, "GLOG_minloglevel": "3"}
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, env=environment)
            ended, text = f"ended with {done.returncode}", done.stderr
        except subprocess.TimeoutExpired:
            ended, text = "took too long", ""
        lines = [json.loads(line) for line in pathlib.Path(report.name).read_text().splitlines()]
    outcomes = {test: (status, detail) for test, status, detail in lines if status != "started"}
    begun = {test for test, status, _ in lines if status == "started"}
    for test in begun - outcomes.keys():
        outcomes[test] = ("crashed", f"{ended}\n{text[-4000:]}")
    if not lines:
        outcomes["*"] = ("crashed", f"{ended}\n{text[-4000:]}")
    return outcomes


class Report(unittest.TextTestResult):
    """Writes each outcome as it comes, so that a crash leaves the others."""

    path: pathlib.Path

    def note(self, test: unittest.TestCase, status: str, detail: str = "") -> None:
        with self.path.open("a") as file:
            file.write(json.dumps([".".join(test.id().split(".")[-2:]), status, detail]) + "\n")

    def startTest(self, test):
        super().startTest(test)
        self.note(test, "started")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "passed")

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "error", self.errors[-1][1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "failed", self.failures[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped", reason)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.note(test, "passed", "fails as expected")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "passed", "Paddle's own tracer is expected to fail here")


def run_file(folder: pathlib.Path, name: str, report: pathlib.Path) -> int:
    sys.path[:0] = [str(folder), str(pathlib.Path(__file__).parent)]
    import shim

    shim.install()
    Report.path = report
    module = name.removesuffix(".py")
    suite = unittest.defaultTestLoader.loadTestsFromName(module)
    runner = unittest.TextTestRunner(resultclass=Report, verbosity=0)
    return 0 if runner.run(without_exempt(suite, name)).wasSuccessful() else 1


def without_exempt(suite: unittest.TestSuite, name: str) -> unittest.TestSuite:
    kept = unittest.TestSuite()
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            kept.addTests(without_exempt(test, name))
            continue
        case = ".".join(test.id().split(".")[-2:])
        if f"{name}::{case}" not in EXEMPT and f"{name}::{case.split('.')[0]}" not in EXEMPT:
            kept.addTest(test)
    return kept


if __name__ == "__main__":
    sys.exit(main())
