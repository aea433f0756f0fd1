"""Models of public libraries, under a tracer beside eager mode.

    python tests/libraries/run.py paddleclas                    # all of the library's in the catalogue
    python tests/libraries/run.py paddlenlp BertModel           # these
    python tests/libraries/run.py paddlenlp --tracer paddle     # under Paddle's own tracer
    python tests/libraries/run.py paddlenlp --keep found.jsonl  # what was found is added to the file, and not done again
    python tests/libraries/run.py paddlenlp --limit 300         # no model has longer than five minutes
    python tests/libraries/run.py paddlenlp --eval              # in eval mode only

`docs/public-models.md` says what has to be installed. Each model runs in a process of its own. The exit status is 1 if a
model differs, ends the process, or exceeds its time.
"""

import argparse
import importlib
import json
import multiprocessing
import pathlib
import sys
import warnings

import paddle.base.layer_helper_base

from compare import Differs, NotInEagerMode, compare
from tracers import TRACERS

OUTCOMES = ("equal", "differs", "crashes", "too slow", "not in eager mode")
LIBRARIES = [path.stem for path in sorted((pathlib.Path(__file__).parent / "catalogue").glob("*.py"))]


def main(options):
    warnings.simplefilter("ignore")
    # Two models of one process may have parameters of the same name.
    paddle.base.layer_helper_base.unique_name.dygraph_parameter_name_checker = lambda name: False
    models = importlib.import_module(f"catalogue.{options.library}").models()
    unknown = set(options.names) - set(models)
    if unknown:
        sys.exit(f"{options.library} has no {', '.join(sorted(unknown))} in the catalogue; it has {', '.join(models)}")
    kept = read(options.keep)
    found = []
    for name in options.names or models:
        known = kept.get((options.library, options.tracer, name))
        found.append(known or isolated(name, models[name], options))
        if not known:
            print(line(found[-1]), flush=True)
            keep(options, found[-1])
    outcomes = [it["outcome"] for it in found]
    counts = {outcome: outcomes.count(outcome) for outcome in OUTCOMES}
    counts["one graph in each mode"] = sum(it.get("whole", False) for it in found)
    print(", ".join(f"{what}: {count}" for what, count in counts.items()))
    return 1 if counts["differs"] or counts["crashes"] or counts["too slow"] else 0


def isolated(name, model, options):
    """Measure the model in its own process, which is forked after the library was imported."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(measure(name, model, options)))
    child.start()
    sender.close()
    try:
        if receiver.poll(options.limit):
            return receiver.recv()
        return {"name": name, "outcome": "too slow", "why": f"more than {options.limit} s"}
    except EOFError:
        child.join()
        return {"name": name, "outcome": "crashes", "why": f"the process ended with {child.exitcode}"}
    finally:
        child.kill()
        child.join()


def measure(name, model, options):
    """Return the outcome of the model as a record for the file."""
    try:
        measured = compare(model, TRACERS[options.tracer](), trains=not options.eval)
    except NotInEagerMode as reason:
        return {"name": name, "outcome": "not in eager mode", "why": str(reason)}
    except Differs as difference:
        return {"name": name, "outcome": "differs", "why": str(difference)}
    graphs = [mode.graphs if mode else None for mode in (measured.predict, measured.train)]
    return {
        "name": name,
        "outcome": "equal",
        "whole": measured.is_whole(),
        "graphs": graphs,
        "breaks": [sum(mode.breaks.values()) if mode else None for mode in (measured.predict, measured.train)],
        "first call": round(measured.first_call, 1),
        "reasons": measured.reasons(),
    }


def line(found):
    if found["outcome"] != "equal":
        return f"{found['name']:40} {found['outcome']}: {found['why']}"
    graphs = " in eval, ".join("-" if count is None else str(count) for count in found["graphs"])
    text = f"{found['name']:40} equal; graphs: {graphs} in training; first call {found['first call']} × eager"
    return "\n    ".join([text, *(f"{count} × {reason}" for reason, count in found["reasons"].items())])


def read(path):
    """Return the records of the file, by library, tracer and name."""
    if not path or not path.exists():
        return {}
    lines = map(json.loads, path.read_text().splitlines())
    return {(it["library"], it["tracer"], it["name"]): it for it in lines}


def keep(options, found):
    if options.keep:
        with options.keep.open("a") as file:
            print(json.dumps({"library": options.library, "tracer": options.tracer, **found}), file=file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("names", nargs="*", help="names of models; all of the library's by default")
    parser.add_argument("--tracer", choices=TRACERS, default="sot")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--eval", action="store_true", help="in eval mode only")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="the time of one model, in eager mode and translated")
    sys.exit(main(parser.parse_intermixed_args()))
