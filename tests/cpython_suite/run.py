"""Runs CPython's own tests with their functions translated: every test that passes untranslated must pass.

    python tests/cpython_suite/run.py --runner target/debug/translated_python [name of a test file ...] [--json FILE]

The tests are those of the Python that runs this script: every file of its test package, if none is named. Each file runs in
processes of its own, once untranslated and once translated, so that a crash is one failed test.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from exclusions import reason_for_file

# Seconds for a file, and for one test of it.
TIMEOUT = 1800
TEST_TIMEOUT = 180


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="all files of the test package, if none is named")
    parser.add_argument("--runner", type=pathlib.Path, required=True, help="the binary translated_python")
    parser.add_argument("--json", type=pathlib.Path, help="where to keep the outcomes; files that it has are not run again")
    parser.add_argument("--timeout", type=int, default=TIMEOUT, help="seconds for one file")
    parser.add_argument("--test-timeout", type=int, default=TEST_TIMEOUT, help="seconds for one test")
    options = parser.parse_args()
    kept = options.json if options.json and options.json.exists() else None
    report = json.loads(kept.read_text()) if kept else {}
    for name in filter(is_there, options.files or all_files()):
        if name in report and not options.files:
            continue
        if reason := reason_for_file(name):
            print(f"{name}: left out: {reason}", flush=True)
            continue
        found = report[name] = compare(run(options, name, "native"), run(options, name, "translated"))
        print(summary(name, found), flush=True)
        for test, why in found["only_translated"].items():
            print(f"  {test}: {last_line(why)}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(report, indent=1))
    failed = sum(len(found["only_translated"]) for found in report.values())
    tests, passed = (sum(found[what] for found in report.values()) for what in ("passed", "passed_both"))
    print(f"CPython 3.{sys.version_info[1]}: {passed} of {tests} tests in {len(report)} files pass translated, too")
    return 1 if failed else 0


def all_files():
    """Names of all files and folders of tests of the interpreter."""
    there = (pathlib.Path(os.__file__).parent / "test").glob("test_*")
    return sorted(path.stem for path in there if path.suffix == ".py" or (path / "__init__.py").exists())


def is_there(name):
    folder = pathlib.Path(os.__file__).parent / "test"
    return (folder / f"{name}.py").exists() or (folder / name).is_dir()


def run(options, name, mode):
    """Return the outcome of each test, counts of translations, and how tests ended the process that ran them."""
    outcomes, died, totals = {}, {}, collections.Counter()
    counts = {"breaks": collections.Counter(), "fallbacks": collections.Counter()}
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "outcomes"
        while True:
            death = run_once(options, name, mode, folder, output)
            records = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
            started = [record["start"] for record in records if "start" in record]
            if not death or not started or started[-1] in died:
                break
            died[started[-1]] = death
            # A file that does not end would take as long again for each of its tests.
            if sum(death.startswith("no end") for death in died.values()) == 2:
                break
    for record in records:
        if "test" in record:
            outcomes[record["test"]] = (record["outcome"], record["why"])
        elif "seconds" in record:
            totals["seconds"] += record["seconds"]
        elif "frames" in record:
            totals.update(seen=record["frames"][0], replaced=record["frames"][1])
            totals.update(translations=record["translations"], panics=record["panics"])
            for what, counted in counts.items():
                counted.update(record[what])
    outcomes.update({test: ("failed", f"the process ended: {death}") for test, death in died.items()})
    if death:
        outcomes["the file"] = ("failed", f"the process ended: {death}")
    if totals["panics"]:
        outcomes["the tracer"] = ("failed", f"{totals['panics']} panics")
    return outcomes, {**totals, **counts}


def run_once(options, name, mode, folder, output):
    """Runs a process, and says how it died if it did."""
    child = getattr(options, "child", None) or pathlib.Path(__file__).resolve().with_name("child.py")
    command = [options.runner, child, sys.executable, name, mode, output]
    env = dict(os.environ, TMPDIR=folder, PYTHONDONTWRITEBYTECODE="1", SOT_TEST_TIMEOUT=str(options.test_timeout))
    env.update(getattr(options, "environment", {}))
    try:
        done = subprocess.run(
            list(map(str, command)), env=env, timeout=options.timeout, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd=getattr(options, "directory", folder),
        )
    except subprocess.TimeoutExpired:
        return f"no end after {options.timeout} s"
    if done.returncode:
        return f"{done.stdout.decode(errors='replace')[-2000:]}\nexit code {done.returncode}"
    return None


def compare(native, translated):
    """Compare the two runs of a file."""
    (native, _), (translated, counts) = native, translated
    translated = named_as(native, translated)
    passed = [test for test, (outcome, _) in native.items() if outcome == "passed"]
    fine = {test for test, (outcome, _) in translated.items() if outcome == "passed"}
    wrong = {test: why or outcome for test, (outcome, why) in translated.items() if test in passed and test not in fine}
    # Failures of a class or of the whole file count, unless the file cannot be imported untranslated either.
    whole = {test for test in translated if test not in native}
    wrong.update({test: translated[test][1] for test in whole if translated[test][0] == "failed"})
    return {
        "tests": len(native), "passed": len(passed), "passed_both": len([test for test in passed if test in fine]),
        "only_translated": wrong, **counts,
    }


def named_as(native, translated):
    """The translated outcomes, where names of tests that hold the time or an address are those of the native run."""
    digits = re.compile(r"\d+")
    missing = collections.defaultdict(list)
    for test in native:
        if test not in translated:
            missing[digits.sub("0", test)].append(test)
    named = {}
    for test, outcome in translated.items():
        others = [] if test in native else missing[digits.sub("0", test)]
        named[others.pop(0) if others else test] = outcome
    return named


def summary(name, found):
    breaks, fallbacks = sum(found["breaks"].values()), sum(found["fallbacks"].values())
    text = f"{name}: {found['tests']} tests, {found['passed']} pass, {found['passed_both']} translated, too"
    if found.get("seen"):
        text += f"; {found['replaced']} of {found['seen']} frames ran new code; {found['translations']} translations, "
        text += f"{breaks} breaks, {fallbacks} times left to CPython"
    return text


def last_line(text):
    lines = [line for line in (text or "").splitlines() if line.strip()]
    return lines[-1] if lines else ""


if __name__ == "__main__":
    sys.exit(main())
