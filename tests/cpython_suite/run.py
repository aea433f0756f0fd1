"""Runs files of CPython's own tests with their functions translated: every test that passes untranslated must pass.

    python tests/cpython_suite/run.py --runner target/debug/translated_python [name of a test file ...] [--json FILE]

The tests are those of the Python that runs this script. Each file runs in processes of its own, once untranslated and once
translated, so that a crash is one failed file.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

FILES = """
    test_grammar test_unpack test_unpack_ex test_extcall test_keywordonlyarg test_positional_only_arg test_generators
    test_generator_stop test_with test_contextlib test_exceptions test_raise test_exception_variations test_except_star
    test_scope test_super test_descr test_class test_property test_decorators test_dict test_list test_tuple test_set
    test_slice test_range test_iter test_enumerate test_itertools test_functools test_operator test_augassign test_binop
    test_compare test_bool test_int test_float test_complex test_string test_str test_unicode test_fstring test_format
    test_listcomps test_dictcomps test_setcomps test_named_expressions test_patma test_dataclasses test_enum
    test_collections test_deque test_defaultdict test_richcmp test_contains test_math test_builtin test_opcodes test_dis
""".split()
# More files, of the library rather than the language; `library` stands for them.
LIBRARY = """
    test_isinstance test_dictviews test_userlist test_userdict test_userstring test_pow test_index test_hash test_unary
    test_subclassinit test_metaclass test_genericclass test_genericalias test_typechecks test_type_annotations
    test_type_params test_types test_funcattrs test_call test_print test_global test_module test_weakset test_weakref
    test_abc test_abstract_numbers test_numeric_tower test_fractions test_statistics test_json test_pprint test_reprlib
    test_shlex test_difflib test_graphlib test_calendar test_typing test_random test_argparse test_configparser
    test_coroutines test_asyncgen test_contextlib_async test_long test_bytes test_memoryview test_array test_struct
    test_ordered_dict test_dynamicclassattribute test_keyword test_ast test_tokenize test_copyreg test_pickle test_unittest
    test_sort test_cmath test_baseexception test_datetime test_optparse test_getopt test_logging test_inspect test_re
""".split()
TIMEOUT = 1800


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", default=FILES)
    parser.add_argument("--runner", type=pathlib.Path, required=True, help="the binary translated_python")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the outcome of every test")
    parser.add_argument("--timeout", type=int, default=TIMEOUT, help="seconds for one file")
    options = parser.parse_args()
    report, failed = {}, 0
    names = [name for given in options.files for name in (LIBRARY if given == "library" else [given])]
    for name in filter(is_there, names):
        found = report[name] = compare(run(options, name, "native"), run(options, name, "translated"))
        failed += len(found["only_translated"])
        print(summary(name, found), flush=True)
        for test, why in found["only_translated"].items():
            print(f"  {test}: {last_line(why)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
    tests, passed = (sum(found[what] for found in report.values()) for what in ("passed", "passed_both"))
    print(f"CPython 3.{sys.version_info[1]}: {passed} of {tests} tests in {len(report)} files pass translated, too")
    return 1 if failed else 0


def is_there(name):
    folder = pathlib.Path(os.__file__).parent / "test"
    return (folder / f"{name}.py").exists() or (folder / name).is_dir()


def run(options, name, mode):
    """What became of each test, what was translated, and how tests ended the process that ran them."""
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
    for record in records:
        if "test" in record:
            outcomes[record["test"]] = (record["outcome"], record["why"])
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
    child = pathlib.Path(__file__).resolve().with_name("child.py")
    command = [options.runner, child, sys.executable, name, mode, output]
    env = dict(os.environ, TMPDIR=folder, PYTHONDONTWRITEBYTECODE="1")
    try:
        done = subprocess.run(
            list(map(str, command)), env=env, timeout=options.timeout, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder,
        )
    except subprocess.TimeoutExpired:
        return f"no end after {options.timeout} s"
    if done.returncode:
        return f"{done.stdout.decode(errors='replace')[-2000:]}\nexit code {done.returncode}"
    return None


def compare(native, translated):
    """What the two runs of a file came to."""
    (native, _), (translated, counts) = native, translated
    passed = [test for test, (outcome, _) in native.items() if outcome == "passed"]
    fine = {test for test, (outcome, _) in translated.items() if outcome == "passed"}
    wrong = {test: why or outcome for test, (outcome, why) in translated.items() if test in passed and test not in fine}
    # What fails for a class, or the file as a whole: a file that does not even run untranslated shows nothing.
    whole = {test for test in translated if test not in native or test == "the file"}
    wrong.update({test: translated[test][1] for test in whole if translated[test][0] == "failed"})
    return {
        "tests": len(native), "passed": len(passed), "passed_both": len([test for test in passed if test in fine]),
        "only_translated": wrong, **counts,
    }


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
