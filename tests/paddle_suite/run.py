"""Run Paddle's own tests of its tracer against `sot`.

    python tests/paddle_suite/run.py <folder of the tests> [name of a test file ...] [--tracer paddle] [--json FILE]

The folder is `test/sot` of a checkout of Paddle's sources, or `tests` of one of PaddleSOT; it is only read. Each file runs in a process of its own. What
looks into private parts of Paddle's tracer is left out, with the reason in `EXEMPT`. With `--tracer paddle` everything runs
on Paddle's own tracer, to compare.
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

import numpy

# `file` or `file::test` → why it is not run.
EXEMPT = {
    "test_24_exceptions.py::TestInstructionRewriteMetadata": "rewrites instructions with functions of Paddle's tracer",
    "test_26_size.py": "calls `paddle.Size`, at which the graph breaks on Paddle's tracer, too, until a release after 3.3",
    "test_analysis_inputs.py": "calls Paddle's analysis of bytecode",
    "test_binary_operator_tracker.py": "gives Paddle's tracer handlers for `x > 0` and `x + 2 > 0` that guard on "
    "the answer, built from its trackers; Paddle 3.3 has no more of what it imports",
    "test_code_status.py": "looks into a table of Paddle's tracer",
    "test_compiled_guard.py": "reads the guards in the cache of Paddle's tracer, in a release after 3.3",
    "test_cost_model.py": "sets the timings of Paddle's cost model",
    "test_exception.py": "looks for file and line in the text of errors, where the older tracer wrote them; here the errors are those "
    "of eager mode, with files and lines in their tracebacks alone",
    "test_fast_kernel_runtime.py": "runs programs in a way that Paddle has after 3.3, without a tracer",
    "test_faster_guard.py": "calls the guards in Paddle's library and nothing of a tracer",
    "test_functools.py::TestFunctools.test_reduce_iter": "expects an InnerError where functools.reduce raises a TypeError in "
    "eager mode, and here",
    "test_guard_fastpath_strategy.py": "asks Paddle's cache whether it still tests guards",
    "test_guard_outputs.py::TestGuardOutputs.test_guard_inputs": "counts a translation for each set of three integers; "
    "from the first that differs on, integers are not assumed here, and one translation serves all",
    "test_guard_tree.py": "builds guards in Paddle's library",
    "test_info_collect.py": "tests in which form Paddle's tracer writes down graph breaks",
    "test_guard_user_defined_fn.py::TestGuardOutputs.test_non_operator_related_fn": "counts a translation for each object of a class "
    "whose objects have no attributes; here the second one is a hit",
    "test_instruction_translator_cache.py::TestOpcodeExecutorCache": "puts functions of its own into Paddle's cache",
    "test_model_switch_training.py": "looks into Paddle's cache of compiled StatementIRs",
    "test_mutable_data.py": "tests a data structure of Paddle's tracer",
    "test_psdb.py::TestPsdb.test_assert_true": "expects an InnerError where assert_true raises an AssertionError in eager mode, "
    "and here",
    "test_side_effects.py::TestListSideEffect.test_list_remove": "expects an InnerError where list.remove raises a ValueError in eager mode, "
    "and here",
    "test_simulate_initialize.py::TestInit.test_error": "expects an InnerError for a layer with parameters that is made in the function; "
    "eager mode has none, nor is there one here",
    "test_sir_rollback.py::TestRollback": "builds Paddle's graph",
    "test_sot_cost_model.py": "sets the timings of Paddle's cost model",
    "test_sot_dynamic_shape.py::TestOpcodeExecutorDynamicShapeCache.test_dynamic_int_input_cache_hit_case3": "counts a translation for "
    "each n of which `n < 4` is asked; here the answer is assumed and not n, so that some are hits",
    "test_sot_dynamic_shape.py::TestOpcodeExecutorDynamicShapeCache.test_mixed_dynamic_and_static": "counts four translations "
    "for n of 1, 0, 2, 3, 4 and 5, where three do, as on Paddle's tracer in 3.3",
    "test_sot_exception.py": "looks for file and line in the text of errors, where Paddle's tracer writes them; here the errors are those "
    "of eager mode, with the same lines in their tracebacks",
    "test_stack.py": "tests a data structure of Paddle's tracer",
    "test_trace_list_arg.py::TestTraceListArg.test_bar_dynamic_shape": "counts a translation for a list whose first tensor has another "
    "shape; the function does not look at that one, and here it is a hit",
    "test_case_base.py": "holds no tests",
}
if sys.version_info < (3, 13):
    EXEMPT["test_23_super.py::TestCustomSuper.test_super_function_as_input"] = (
        "expects an InnerError where super() outside of a class raises a RuntimeError in eager mode, and here"
    )
if sys.version_info >= (3, 11):
    EXEMPT["test_tensor_dtype_in_guard.py"] = (
        "counts one translation, as Paddle's tracer refuses functions with a `with` from 3.11 on and looks at nothing that they call; "
        "here it is two, which is what the test expects on 3.10"
    )
try:
    int(numpy.array([1]))
except TypeError:
    EXEMPT["test_side_effects.py::TestListSideEffect.test_slice_in_for_loop"] = (
        "range() of a tensor of one dimension, which this release of numpy refuses in eager mode, too"
    )
# As in the `CMakeLists.txt` of the tests: without it, Paddle's tracer leaves small graphs to eager mode.
PADDLE_ENVIRONMENT = {"MIN_GRAPH_SIZE": "0"}
TIMEOUT = 600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--tracer", choices=["sot", "paddle"], default="sot", help="whose tracer runs the tests")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the outcome of every test")
    parser.add_argument("--one", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tracer == "paddle":
        for name in EXEMPT.keys() - {"test_case_base.py"}:
            del EXEMPT[name]
    if options.one:
        return run_file(options.folder, options.files[0], options.tracer, options.one)
    names = options.files or sorted(path.name for path in options.folder.glob("test_*.py"))
    if not names:
        parser.error(f"no test_*.py in {options.folder}")
    outcomes = {}
    for name in names:
        exempt = EXEMPT.get(name)
        outcomes[name] = {"*": ("exempt", exempt)} if exempt else in_process(options.folder, name, options.tracer)
        counts = collections.Counter(status for status, _ in outcomes[name].values())
        print(f"{name}: " + ", ".join(f"{number} {status}" for status, number in sorted(counts.items())), flush=True)
    if options.json:
        options.json.write_text(json.dumps(outcomes, indent=1))
    total = collections.Counter(status for tests in outcomes.values() for status, _ in tests.values())
    print(", ".join(f"{number} {status}" for status, number in sorted(total.items())))
    return 0 if not total.keys() & {"failed", "error", "crashed"} else 1


def in_process(folder: pathlib.Path, name: str, tracer: str) -> dict[str, tuple[str, str]]:
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, __file__, str(folder), name, "--tracer", tracer, "--one", report.name]
        environment = {**os.environ, "GLOG_minloglevel": "3", **(PADDLE_ENVIRONMENT if tracer == "paddle" else {})}
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
        write(self.path, ".".join(test.id().split(".")[-2:]), status, detail)

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


def run_file(folder: pathlib.Path, name: str, tracer: str, report: pathlib.Path) -> int:
    sys.path[:0] = [str(folder), str(pathlib.Path(__file__).parent)]
    if tracer == "sot":
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
        reason = EXEMPT.get(f"{name}::{case}") or EXEMPT.get(f"{name}::{case.split('.')[0]}")
        if reason:
            write(Report.path, case, "exempt", reason)
        else:
            kept.addTest(test)
    return kept


def write(report: pathlib.Path, test: str, status: str, detail: str) -> None:
    with report.open("a") as file:
        file.write(json.dumps([test, status, detail]) + "\n")


if __name__ == "__main__":
    sys.exit(main())
