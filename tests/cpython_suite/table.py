"""Writes docs/cpython-tests.md from the outcomes that run.py wrote.

    python tests/cpython_suite/table.py 3.12=OUTCOMES.json [3.11=...]
"""

import json
import pathlib
import sys

from exclusions import EXCLUDED

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "cpython-tests.md"
INTRODUCTION = """\
# CPython's own tests

The files of the interpreter's own `test` package, with every function they define translated on the toy backend: those
without tensor work get new code, too, and what they call is followed. What passes untranslated must pass.

```console
$ cargo build -p sot-tests --bin translated_python
$ python3.12 tests/cpython_suite/run.py --runner target/debug/translated_python --json 3.12.json test_grammar test_scope
$ python3.12 tests/cpython_suite/table.py 3.12=3.12.json
```

The runner embeds Python: `LD_LIBRARY_PATH` and `PYTHONHOME` name the prefix of the one it was built for, which must be the one
that runs `run.py`. `SOT_CPYTHON_TEST=<pattern>` runs some tests of a file. For each file `run.py` prints which tests fail only
translated, how many frames ran new code, and what became of the translations; the table is written by `table.py`.

A cell says how many of the tests that pass untranslated pass translated, and what share of the frames that the tracer was asked
about ran new code.
"""


def main():
    reports = dict(argument.split("=", 1) for argument in sys.argv[1:])
    reports = {version: json.loads(pathlib.Path(path).read_text()) for version, path in reports.items()}
    versions = sorted(reports, key=lambda version: int(version.split(".")[1]))
    lines = [INTRODUCTION, "| file | " + " | ".join(versions) + " |", "|---|" + "---|" * len(versions)]
    for name in sorted({name for report in reports.values() for name in report}):
        lines.append(f"| `{name}` | " + " | ".join(cell(reports[version].get(name)) for version in versions) + " |")
    sums = [f"{total(reports[version], 'passed_both')} of {total(reports[version], 'passed')}" for version in versions]
    lines.append("| all | " + " | ".join(sums) + " |")
    lines += ["", "## Excluded", "", "| file | tests | reason |", "|---|---|---|"]
    for files, pattern, _, _, reason in EXCLUDED:
        names, tests = files.replace("|", ", "), pattern.replace("|", ", ").replace("$", "")
        lines.append(f"| {names} | {tests} | {reason} |")
    lines += ["", "## Failing only translated", ""]
    for version in versions:
        for name, found in sorted(reports[version].items()):
            for test in found["only_translated"]:
                lines.append(f"- {version}: `{test}`")
    PAGE.write_text("\n".join(lines) + "\n")


def total(report, what):
    return sum(found[what] for found in report.values())


def cell(found):
    if not found:
        return ""
    share = f", {found['replaced'] * 100 // found['seen']} %" if found.get("seen") else ""
    return f"{found['passed_both']} of {found['passed']}{share}"


if __name__ == "__main__":
    main()
