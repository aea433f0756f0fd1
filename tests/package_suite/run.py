"""Runs the tests of pure-Python packages with all their functions translated: what passes untranslated must pass.

    python tests/package_suite/run.py --runner target/debug/translated_python --folder FOLDER [--json FILE] [NAME ...]

The tests are those of the source distributions on PyPI, without those marked as slow or as stress. The folder gets an environment with pytest and what the packages need,
and their sources. Each suite runs in processes of its own, once untranslated and once translated.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import venv

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cpython_suite"))
import run as suite  # noqa: E402

# Packages of many kinds: data structures, parsers, text, dates, classes that are made, generators; and what their tests need.
PACKAGES = {
    "attrs": ["hypothesis", "cloudpickle"],
    "boltons": [],
    "cachetools": [],
    "click": [],
    "idna": [],
    "iniconfig": [],
    "jinja2": ["markupsafe", "trio"],
    "markupsafe": [],
    "mistune": [],
    "more-itertools": [],
    "parso": [],
    "pluggy": [],
    "python-dateutil": ["six", "hypothesis", "freezegun"],
    "schema": [],
    "tabulate": [],
    "toolz": [],
}
# Folders of tests, as source distributions have them.
TESTS = ["tests", "test", "testing"]
# Seconds for a suite and for a test.
TIMEOUT, TEST_TIMEOUT = 1800, 180


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="names of packages; those of this file, if none is given")
    parser.add_argument("--runner", type=pathlib.Path, required=True, help="the binary translated_python")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where environment and sources are kept")
    parser.add_argument("--json", type=pathlib.Path, help="where to keep the outcomes")
    parser.add_argument("--timeout", type=int, default=TIMEOUT, help="seconds for one suite")
    parser.add_argument("--test-timeout", type=int, default=TEST_TIMEOUT, help="seconds for one test")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    options.child = pathlib.Path(__file__).resolve().with_name("child.py")
    python = environment(options.folder.resolve() / "venv")
    report = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    names, not_run = options.names or list(PACKAGES), []
    for name in names:
        try:
            found = compare(options, name, python)
            if not found["passed"]:
                raise LookupError("none of its tests passes untranslated, as where a package that they need is missing")
            report[name] = found
        except (subprocess.CalledProcessError, LookupError) as error:
            print(f"{name}: not run: {error}", flush=True)
            not_run.append(name)
            continue
        print(summary(name, found), flush=True)
        for test, why in found["only_translated"].items():
            print(f"  {test}: {suite.last_line(why)}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(report, indent=1))
    ran = [report[name] for name in names if name in report]
    tests, passed = (sum(found[what] for found in ran) for what in ("passed", "passed_both"))
    print(f"CPython 3.{sys.version_info[1]}: {passed} of {tests} tests of {len(ran)} packages pass translated, too")
    return 1 if not_run or any(found["only_translated"] for found in ran) else 0


def environment(folder):
    """The Python of an environment with pytest."""
    python = folder / "bin" / "python"
    if not (folder / "made").exists():
        venv.create(folder, with_pip=True, clear=True)
        pip(python, "install", "pytest")
        (folder / "made").touch()
    return python


def pip(python, *arguments):
    # The runner's Python is not the environment's.
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")}
    subprocess.run([python, "-m", "pip", "-q", "--disable-pip-version-check", *arguments], env=env, check=True)


def compare(options, name, python):
    sources = unpacked(options.folder.resolve() / name, name, python)
    pip(python, "install", sources, *PACKAGES.get(name, []))
    tests = list(folders_of_tests(sources))
    if not tests:
        raise LookupError("its source distribution has no tests")
    site = next((python.parents[1] / "lib").glob("python3*")) / "site-packages"
    code = [sources, *(site / name for name in installed(python, name))]
    options.directory = sources
    options.environment = {
        "PYTHONPATH": str(site),
        "SOT_PACKAGE_TESTS": os.pathsep.join(map(str, tests)),
        "SOT_PACKAGE_SOURCES": os.pathsep.join(map(str, code)),
    }
    native, translated = suite.run(options, name, "native"), suite.run(options, name, "translated")
    found = suite.compare(native, translated)
    return {**found, "version": sources.name.rsplit("-", 1)[-1], "native_seconds": native[1].get("seconds", 0)}


def unpacked(folder, name, python):
    """The folder of a package's sources."""
    if not folder.exists():
        folder.mkdir()
        pip(python, "download", "--no-deps", "--no-binary", name, "--dest", folder, name)
        with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
            archive.extractall(folder)
    return next(path for path in folder.iterdir() if path.is_dir())


def folders_of_tests(sources):
    """The outermost folders of tests, or files of tests where there is none."""
    # Installing the package may have left a copy in `build`.
    there = [path for name in TESTS for path in sources.rglob(name) if sources / "build" not in path.parents]
    there = [path for path in there if path.is_dir() and any(path.rglob("*test*.py"))]
    there = [path for path in there if not any(other in path.parents for other in there)]
    return there or sorted(sources.glob("test*.py"))


def installed(python, name):
    """The names of the folders and files that a package has put into the environment."""
    code = (
        "import importlib.metadata, sys;"
        "print(*{str(file).split('/')[0] for file in importlib.metadata.files(sys.argv[1]) or []})"
    )
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONHOME", "PYTHONPATH")}
    found = subprocess.run([python, "-c", code, name], env=env, check=True, stdout=subprocess.PIPE)
    names = found.stdout.decode().split()
    return [name for name in names if not name.startswith("..") and not name.endswith(("-info", "__pycache__"))]


def summary(name, found):
    text = suite.summary(f"{name} {found['version']}", found)
    if found["native_seconds"]:
        times = found.get("seconds", 0) / found["native_seconds"]
        text += f"; {found['native_seconds']:.1f} s untranslated, {found.get('seconds', 0):.1f} s translated ({times:.1f} times)"
    return text


if __name__ == "__main__":
    sys.exit(main())
