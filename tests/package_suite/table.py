"""Writes docs/package-tests.md from the outcomes that run.py wrote.

    python tests/package_suite/table.py 3.12=OUTCOMES.json [3.11=...]
"""

import json
import pathlib
import sys

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "package-tests.md"
INTRODUCTION = """\
# Suites of pure-Python packages

The tests that come with packages on PyPI, with every function of the package and of its tests translated on the toy backend: those
without tensor work get new code, too, and what they call is followed. What passes untranslated must pass.

```console
$ cargo xtask package-tests --python 3.12                       # all packages of this page, and the page anew
$ cargo xtask package-tests --python 3.12 -- toolz networkx     # any packages of PyPI
```

The packages come as source distributions (`pip download --no-binary`), their tests run with pytest in an environment below
`target/package-tests`. A row says how many of the tests that pass untranslated pass translated, what share of the frames that the
tracer was asked about ran new code, and how long both took. By default code without tensors is left alone: these times are those of
tracing all of it. Tests marked as slow or as stress are left out, and Hypothesis has no deadlines.
"""

# Why a test fails translated alone, by a part of its name.
REASONS = {
    "test_markup_leaks": "counts the objects of the process, and finds the translations that were made meanwhile",
    "test_runtime_error": "looks for a frame by its code object ([docs/soundness.md](soundness.md#the-code-of-a-frame))",
    "scale_quadratically": "limits the time of calls, of which translating them is a part",
    "near_linear": "limits the time of calls, of which translating them is a part",
}


def reason_of(test):
    """Why a test fails, after a colon, if it is known."""
    return next((f": {reason}" for part, reason in REASONS.items() if part in test), "")


def main():
    reports = dict(argument.split("=", 1) for argument in sys.argv[1:])
    lines = [INTRODUCTION]
    failing = []
    for version, path in sorted(reports.items(), key=lambda item: int(item[0].split(".")[1])):
        report = json.loads(pathlib.Path(path).read_text())
        lines += [f"## CPython {version}", "", "| package | tests | frames | untranslated | translated |", "|---|---|---|---|---|"]
        for name, found in sorted(report.items()):
            share = found["replaced"] * 100 // found["seen"] if found.get("seen") else 0
            lines.append(
                f"| {name} {found['version']} | {found['passed_both']} of {found['passed']} | {share} % "
                f"| {found['native_seconds']:.1f} s | {found.get('seconds', 0):.1f} s |"
            )
        both, passed = (sum(found[what] for found in report.values()) for what in ("passed_both", "passed"))
        lines += [f"| all | {both} of {passed} | | | |", ""]
        failing += [f"- {version}: {name}: `{test}`{reason_of(test)}" for name, found in sorted(report.items()) for test in found["only_translated"]]
    lines += ["## Failing only translated", "", *failing]
    PAGE.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
