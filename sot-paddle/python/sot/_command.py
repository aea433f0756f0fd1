"""`python -m sot`: the subcommands and their arguments.

Imports no part of the tracer, and parses on unsupported Pythons: `doctor` must run where sot cannot be imported.
"""

import argparse
import os
import sys
from typing import List, Optional


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments of `python -m sot`."""
    result = argparse.ArgumentParser(
        prog="python -m sot",
        description="Runs programs with the tracer on, and says whether and how it works here.",
    )
    result.add_argument("--version", action="store_true", help="print the version of sot and leave")
    commands = result.add_subparsers(dest="command", metavar="COMMAND")
    _add_run(commands)
    minimise = commands.add_parser(
        "minimise",
        usage="python -m sot minimise [-o FILE] [--seconds SECONDS] SCRIPT [ARG ...]",
        help="cut a script down to what shows the difference that verify mode finds",
        description="Runs parts of a script with verify mode, and writes the shortest one that shows the same difference.",
    )
    minimise.add_argument("script", metavar="SCRIPT")
    theirs = minimise.add_argument(
        "arguments", metavar="ARG", nargs=argparse.REMAINDER, help="the script's own arguments"
    )
    # Older Pythons ask for at least one argument in their message.
    theirs.required = False
    minimise.add_argument("-o", "--output", metavar="FILE", help="the script to write; default: SCRIPT with .minimal.py")
    minimise.add_argument("--seconds", type=_seconds, default=120.0, help="how long one run may take; default 120")
    commands.add_parser(
        "doctor",
        help="check the interpreter, Paddle, the compiled part and the environment variables",
        description="Checks what sot needs, and says what to do about what is wrong. Exit status 1 if something is.",
    )
    report = commands.add_parser(
        "report",
        help="write the index of a folder of reports anew, and say where it is",
        description="Lists the reports of the processes that ran with SOT_REPORT=DIR on one page.",
    )
    report.add_argument("folder", metavar="DIR", help="the folder that SOT_REPORT or --report named")
    plugins = commands.add_parser(
        "plugins",
        help="list the opcodes, kinds, builtins and backends that are linked in",
        description="Lists what is linked into this build, by crate.",
    )
    plugins.add_argument(
        "--all", action="store_true", help="name every registration, with its file and line, instead of counting them"
    )
    return result


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError("{!r} is no number of seconds above 0".format(text))
    return seconds


def _add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    run = commands.add_parser(
        "run",
        usage="python -m sot run [--report DIR] [--verify] [--fail-on-break] (SCRIPT | -m MODULE) [ARG ...]",
        help="run a program, unchanged, with the tracer on",
        description=(
            "Runs a script or module as Python does, with functions translated that are given tensors, the forward "
            "calls of layers among them. sot.install() is called before. Exit status, sys.argv and tracebacks are the "
            "program's own."
        ),
    )
    run.add_argument("--report", metavar="DIR", help="write a report of the run into this folder (SOT_REPORT)")
    run.add_argument(
        "--verify", action="store_true", help="compare each translated call with the program's own run (SOT_VERIFY)"
    )
    run.add_argument(
        "--fail-on-break",
        action="store_true",
        help="list graph breaks and fallbacks at the end, and leave with status 1 if there are any",
    )
    run.add_argument("-m", dest="module", metavar="MODULE", help="run a module instead of a script")


# The options of `run` that take a value. All arguments after the program belong to the program.
_WITH_VALUE = ("--report",)


def parse(arguments: List[str]) -> argparse.Namespace:
    """Parse the arguments. Exits if they are wrong."""
    ours, theirs = _split(arguments)
    known = parser()
    asked, unknown = known.parse_known_args(ours)
    # The error of a command is shown with the usage of this command.
    wrong = _parser_of(known, asked.command).error
    if unknown:
        wrong("unrecognized arguments: {}".format(" ".join(unknown)))
    if asked.command is None and not asked.version:
        wrong("a command is needed: run, minimise, report, doctor or plugins")
    if asked.command == "run":
        if not asked.module and not theirs:
            wrong("a script, or -m and a module, is needed")
        if asked.report is not None and not asked.report.strip():
            wrong("argument --report: the name of a folder is needed, not an empty text")
        asked.program, asked.arguments = (asked.module, theirs) if asked.module else (theirs[0], theirs[1:])
    return asked


def _parser_of(known: argparse.ArgumentParser, command: Optional[str]) -> argparse.ArgumentParser:
    for action in known._actions:
        if isinstance(action, argparse._SubParsersAction) and command in action.choices:
            found: argparse.ArgumentParser = action.choices[command]
            return found
    return known


def _split(arguments: List[str]) -> "tuple[List[str], List[str]]":
    """Split the arguments into those of `run` and the rest: the script and its arguments, or those of the module."""
    if arguments[:1] != ["run"]:
        return arguments, []
    at = 1
    while at < len(arguments):
        argument = arguments[at]
        if argument == "--":
            return arguments[:at], arguments[at + 1 :]
        if argument == "-m":
            return arguments[: at + 2], arguments[at + 2 :]
        if argument.startswith("-m") and not argument.startswith("--"):
            return arguments[:at] + ["-m", argument[2:]], arguments[at + 1 :]
        if argument == "-" or not argument.startswith("-"):
            return arguments[:at], arguments[at:]
        at += 2 if argument in _WITH_VALUE else 1
    return arguments, []


def before_import() -> None:
    """Do what must be done before the package is imported: `--version`, `doctor`, environment variables."""
    asked = parse(sys.argv[1:])
    if asked.version:
        from . import _doctor

        print(_doctor.versions())
        sys.exit(0)
    if asked.command == "doctor":
        from . import _doctor

        sys.exit(_doctor.main())
    if asked.command == "run" and asked.verify:
        os.environ["SOT_VERIFY"] = "1"
    if asked.command == "run" and asked.report is not None:
        os.environ["SOT_REPORT"] = asked.report


def main(arguments: Optional[List[str]] = None) -> None:
    """Run the subcommand."""
    asked = parse(sys.argv[1:] if arguments is None else arguments)
    if asked.command == "plugins":
        from . import _linked

        try:
            print(_linked.text(asked.all), flush=True)
        except BrokenPipeError:
            # The reader of the pipe has closed it, as `head` does. The flush at exit must not write to the pipe either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    elif asked.command == "report":
        from . import _report_files

        sys.exit(_report_files.main(asked.folder))
    elif asked.command == "minimise":
        from ._verify import minimise

        sys.exit(minimise.main(asked.script, asked.arguments, asked.output, asked.seconds))
    elif asked.command == "run":
        from . import _run

        _run.main(asked)
