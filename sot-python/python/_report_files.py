"""Reports as files: a page of HTML or JSON, for a call, a process, or a run of several processes (`SOT_REPORT`)."""

from __future__ import annotations

import atexit
import datetime
import functools
import json
import linecache
import os
import pathlib
import platform
import sys
import tempfile
import time
import warnings
from typing import Any, Callable, NoReturn, Union

from . import _report_summary, _report_trace, _sot
from ._config import config
from ._counts import stats
from ._registration import shown_as

SCHEMA = 1
"""The version of the JSON's schema, which docs/report-schema.json describes."""

Path = Union[str, "os.PathLike[str]"]

_LONGEST_FILE = 5000
_SUMMARY = "summary.json"
_INDEX = "index.html"
_TRACE = "trace.json"

rank_variables = ["RANK"]
"""Environment variables in which launchers of processes name the rank."""


def report(path: Path) -> None:
    """Write a report of this process so far: a page if `path` ends in `.html`, data if it ends in `.json`.

    A file `trace.json`, or one whose name ends in `.trace.json`, gets the timeline of translations in the Trace Event
    Format, which https://ui.perfetto.dev and chrome://tracing show.

    The report has graphs, guards, source lines and code if `SOT_REPORT` is set. Otherwise it has what the tracer
    always keeps: functions, times, sizes, breaks, hits and counts.
    """
    write(path, data(0))


def collect(on: bool) -> bool:
    """Start or stop collecting everything that reports show of new translations. Return the former state."""
    return _sot.report_details(on)


def data(since: int, title: str | None = None) -> dict[str, Any]:
    """Return the data of a report on the translations numbered `since` and above."""
    told: dict[str, Any] = json.loads(_sot.report_data(since))
    return {
        "schema": SCHEMA,
        "title": title or _program(),
        "index": None,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "details": any(translation["code"] for translation in told["translations"]),
        "process": {
            "pid": os.getpid(),
            "rank": next(filter(None, map(os.environ.get, rank_variables)), None),
            "command": sys.argv,
            "folder": os.getcwd(),
            "seconds": _age(),
            "began": time.time() - told["now"],
        },
        "versions": _versions(),
        "counts": _counts(),
        "translations": told["translations"],
        "failures": told["failures"],
        "dropped": told["dropped"],
        "files": _files(told),
    }


def write(path: Path, report_data: dict[str, Any]) -> None:
    """Write data as a page, as JSON or as a trace, by the suffix of the path."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{__package__}: the path of a report is a str or an os.PathLike, not {shown_as(path)}")
    target = pathlib.Path(path)
    is_trace = f".{target.name}".endswith(f".{_TRACE}")
    text = json.dumps(_report_trace.of(report_data) if is_trace else report_data, separators=(",", ":"))
    if target.suffix == ".html":
        text = _sot.report_page("report", f"{__package__}: {report_data['title']}", text)
    elif target.suffix != ".json":
        wrong = f"the path of a report ends in .html, .json or .trace.json; {str(target)!r} does not"
        raise ValueError(f"{__package__}: {wrong}")
    target.write_text(text, encoding="utf-8")


def main(folder: Path) -> int:
    """Write the index page of a run's folder anew, and print its path: `python -m sot report DIR`."""
    if not os.path.isdir(folder):
        print(f"{os.fspath(folder)} is not a folder", file=sys.stderr)
        return 1
    damaged: list[pathlib.Path] = []
    try:
        index = write_index(pathlib.Path(folder), damaged)
    except OSError as error:
        print(f"the index cannot be written: {error}", file=sys.stderr)
        return 1
    for report_folder in damaged:
        said = f"{report_folder} is left out: its {_SUMMARY} is missing or damaged; run the program again"
        print(said, file=sys.stderr)
    if index is None:
        if not damaged:
            name = os.fspath(folder)
            print(f"no reports in {name}: run a program with SOT_REPORT={name}", file=sys.stderr)
        return 1
    print(index)
    return 1 if damaged else 0


def write_index(folder: pathlib.Path, damaged: list[pathlib.Path] | None = None) -> pathlib.Path | None:
    """Write the page that lists the processes of a run, and return its path; `None` if there are no processes.

    Folders of reports without a valid summary are left out, and added to `damaged`.
    """
    processes = []
    for process in sorted({path.parent for name in (_SUMMARY, "report.json") for path in folder.glob(f"*/{name}")}):
        summary = _summary_in(process)
        if summary is not None:
            processes.append(dict(summary, folder=process.name))
        elif damaged is not None:
            damaged.append(process)
    if not processes:
        return None
    traces = [_loaded(folder / process["folder"] / _TRACE) for process in processes]
    trace = _report_trace.joined(traces)
    _replace(folder / _TRACE, json.dumps(trace, separators=(",", ":")))
    index = folder / _INDEX
    run = {"schema": SCHEMA, "processes": processes, "trace": _TRACE}
    _replace(index, _sot.report_page("index", f"{__package__}: {folder.resolve().name}", json.dumps(run)))
    return index


def _summary_in(folder: pathlib.Path) -> dict[str, Any] | None:
    """Return the summary of a process; `None` if it is damaged, or another process is still writing it."""
    summary = _loaded(folder / _SUMMARY)
    return summary if _report_summary.is_whole(summary) else None


def _loaded(file: pathlib.Path) -> Any:
    """Return what a JSON file holds; `None` if there is no such file, or it is damaged."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def begin_if_asked() -> None:
    """If `SOT_REPORT` names a folder, collect from now on, and write the report at exit."""
    if not config.report:
        return
    wrong = problem_with(config.report)
    if wrong is None:
        begin(config.report)
    else:
        warnings.warn(f"{__package__}: there will be no report: {wrong}", RuntimeWarning, stacklevel=4)


def problem_with(folder: Path) -> str | None:
    """Return why no report can be written into a folder, which need not exist; `None` if nothing speaks against it."""
    asked = pathlib.Path(folder).absolute()
    existing = next(path for path in (asked, *asked.parents) if os.path.lexists(path))
    if not existing.is_dir():
        return f"{existing} is not a folder"
    try:
        # Permissions do not tell everything: nobody can write to some folders of the system.
        with tempfile.TemporaryDirectory(prefix=".sot-", dir=existing) as made:
            pathlib.Path(made, "probe").write_text("probe", encoding="utf-8")
    except OSError as error:
        return f"{existing} cannot be written to: {error.strerror or error}"
    return None


def begin(folder: Path) -> None:
    """Collect from now on, and at exit write the report of this process, and of its forks, into a folder."""
    global _run_folder
    is_first, _run_folder = _run_folder is None, pathlib.Path(folder).absolute()
    collect(True)
    if is_first:
        atexit.register(_write_run)
        setattr(os, "_exit", _writing_first(os._exit))
        os.register_at_fork(after_in_child=_begin_in_child)


_run_folder: pathlib.Path | None = None


def _writing_first(leave: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
    """Return `os._exit`, which runs no exit functions, with the report written before."""
    process = os.getpid()

    @functools.wraps(leave)
    def _exit(status: int) -> NoReturn:
        try:
            # A forked process has a report only if it has translated something itself.
            if not _is_written and (os.getpid() == process or _sot.report_kept()):
                _write_run()
                sys.stderr.flush()
        except (Exception, KeyboardInterrupt) as error:
            sys.excepthook(type(error), error, error.__traceback__)
        # Verify mode ends a run on copies by an exception of its own, before the first file is written.
        leave(status)

    return _exit


_is_written = False
"""True if the report of this process has been written: nothing runs after that."""


def _begin_in_child() -> None:
    global _is_written
    _is_written = False
    _sot.report_forget()
    # A process that `multiprocessing` forks ends without `atexit`, and forgets finalizers that were set before the
    # fork.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(_START, lambda _: util.Finalize(None, _write_run, exitpriority=-100))


def say_where() -> None:
    """Let this process print the path of the report on standard error when it has written it."""
    global _saying_process
    _saying_process = os.getpid()


_saying_process: int | None = None


def _write_run() -> None:
    """Write the report of this process, unless it has translated nothing."""
    global _is_written
    if _run_folder is None:
        return
    said = "nothing was translated, so there is no report"
    if _sot.report_kept() or stats().misses:
        try:
            _write_process(_run_folder)
            _is_written = True
            said = f"report: {_run_folder / _INDEX}"
        except OSError as error:
            print(f"{__package__}: the report in {os.fspath(_run_folder)} cannot be written: {error}", file=sys.stderr)
            return
    if _saying_process == os.getpid():
        print(f"{__package__}: {said}", file=sys.stderr)


def _write_process(run_folder: pathlib.Path) -> None:
    folder = run_folder / f"process-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    run = {**data(0), "index": f"../{_INDEX}"}
    write(folder / "report.json", run)
    write(folder / "report.html", run)
    write(folder / _TRACE, run)
    _replace(folder / _SUMMARY, json.dumps(_report_summary.of(run)))
    write_index(run_folder)


def _replace(path: pathlib.Path, text: str) -> None:
    """Write a file atomically: another process may be reading or writing it."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def _program() -> str:
    return os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] not in ("", "-c") else "Python"


class _Start:
    """The time at which this module was imported."""

    seconds = time.monotonic()


_START = _Start()


def _age() -> float:
    return time.monotonic() - _START.seconds


def _versions() -> dict[str, str]:
    framework = sys.modules.get(_sot._backend)
    return {
        "sot": _sot.__version__,
        "python": platform.python_version(),
        _sot._backend: str(getattr(framework, "__version__", "not imported")),
        "system": platform.platform(),
    }


def _counts() -> dict[str, Any]:
    counted = stats()
    names = ("translations", "hits", "misses", "graphs", "replayed", "graph_errors", "breaks", "fallbacks", "seconds")
    return {name: getattr(counted, name) for name in names}


def _files(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the sources that the data refers to: whole files of the program, and single functions of libraries."""
    ranges: dict[str, set[tuple[int, int]]] = {}
    for translation in told["translations"]:
        for function in translation["functions"]:
            lines = [line for line in function["lines"] if line >= function["line"]] or [function["line"]]
            ranges.setdefault(function["file"], set()).add((function["line"], max(lines)))
    files = []
    for name, lines in told["lines"].items():
        text = linecache.getlines(name)
        library = _is_library(name)
        parts = ranges.get(name, set()) if library or len(text) > _LONGEST_FILE else {(1, len(text))}
        lines_of = {first: text[first - 1 : last] for first, last in _merged(parts)}
        sources = [{"line": first, "lines": [at.rstrip("\n") for at in shown]} for first, shown in lines_of.items()]
        files.append({"name": name, "library": library, "source": sources, "lines": lines})
    return sorted(files, key=lambda file: (file["library"], file["name"]))


def _merged(ranges: set[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _is_library(name: str) -> bool:
    if any(part in name for part in ("site-packages", "dist-packages")):
        return True
    return name.startswith((os.path.dirname(os.__file__), "<"))
