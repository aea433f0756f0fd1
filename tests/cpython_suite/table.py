"""Writes docs/cpython-tests.md from the outcomes that run.py wrote. Columns of versions that are not given stay as they are.

    python tests/cpython_suite/table.py 3.12=OUTCOMES.json [3.11=...]
"""

import json
import pathlib
import re
import sys

from exclusions import EXCLUDED, FILES, reason_for, why_it_fails

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "cpython-tests.md"
INTRODUCTION = """\
# CPython's own tests

Every file of the interpreter's own `test` package, with every function of the package translated on the toy backend: those
without tensor work get new code, too, and what they call is followed. What passes untranslated must pass. Tests are left out one
by one, for reasons that are listed below.

```console
$ cargo xtask cpython-tests --python 3.12                       # all files, and this page anew
$ cargo xtask cpython-tests --python 3.12 -- test_grammar       # some of them
```

`SOT_CPYTHON_TEST=<pattern>` runs some tests of a file. For each file the command prints which tests fail only translated, how many
frames ran new code, and what became of the translations. Each column is a run of all files, of which some may have been run again
since; it may be older than the code. What failed and has been left out since is not counted.

A cell says how many of the tests that pass untranslated pass translated, and what share of the frames that the tracer was asked
about ran new code.
"""

def main():
    reports = dict(argument.split("=", 1) for argument in sys.argv[1:])
    reports = {version: json.loads(pathlib.Path(path).read_text()) for version, path in reports.items()}
    for version, report in reports.items():
        for name, found in report.items():
            forget_excluded(found, name, int(version.split(".")[1]))
    before = PAGE.read_text().splitlines() if PAGE.exists() else []
    columns = {**columns_of(before), **{version: column(report) for version, report in reports.items()}}
    versions = sorted(columns, key=lambda version: int(version.split(".")[1]))
    lines = [INTRODUCTION, *table(columns, versions), "", "## Files left out", ""]
    lines += [f"- `{pattern}`: {reason}" for pattern, reason in FILES]
    lines += ["", "## Excluded", "", "| file | tests | reason |", "|---|---|---|"]
    for files, pattern, _, _, reason in EXCLUDED:
        names, tests = files.replace("|", ", "), pattern.replace("|", ", ").replace("$", "")
        lines.append(f"| {names} | {tests} | {reason} |")
    lines += ["", "## Failing only translated", ""]
    for version in versions:
        if version not in reports:
            lines += [line for line in before if line.startswith(f"- {version}: ")]
        for name, found in sorted(reports.get(version, {}).items()):
            for test in found["only_translated"]:
                reason = why_it_fails(test)
                lines.append(f"- {version}: `{test}`" + (f": {reason}" if reason else ""))
    PAGE.write_text("\n".join(lines) + "\n")


def columns_of(page):
    """Return the columns of the table of a page, by version: the text of each row's cell."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page if re.match(r"\| (file|`|all)", line)]
    rows = rows[: next((at for at, row in enumerate(rows) if row[0] == "all"), -1) + 1]
    return {version: {row[0]: row[at] for row in rows[1:]} for at, version in enumerate(rows[0]) if at} if rows else {}


def column(report):
    """Return the column of a version: the text of each row's cell."""
    cells = {f"`{name}`": cell(found) for name, found in report.items() if found["passed"]}
    return {**cells, "all": f"{total(report, 'passed_both')} of {total(report, 'passed')}"}


def table(columns, versions):
    lines = ["| file | " + " | ".join(versions) + " |", "|---|" + "---|" * len(versions)]
    rows = sorted({name for column in columns.values() for name in column} - {"all"}, key=lambda name: name.strip("`"))
    cells = [[name, *(columns[version].get(name, "") for version in versions)] for name in [*rows, "all"]]
    return lines + ["| " + " | ".join(row) + " |" for row in cells]


def forget_excluded(found, name, minor):
    """Does not count what failed in a run and is left out since."""
    excluded = [test for test in found["only_translated"] if reason_for(name, test, minor)]
    for test in excluded:
        del found["only_translated"][test]
    found["passed"] -= len(excluded)


def total(report, what):
    return sum(found[what] for found in report.values())


def cell(found):
    share = f", {found['replaced'] * 100 // found['seen']} %" if found.get("seen") else ""
    return f"{found['passed_both']} of {found['passed']}{share}"


if __name__ == "__main__":
    main()
