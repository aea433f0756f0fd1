"""Models of public libraries, translated beside eager mode.

    python tests/libraries/run.py paddleclas            # all of the library's in the catalogue
    python tests/libraries/run.py paddlenlp BertModel   # these

`docs/models.md` says what has to be installed. The exit status is 1 if a model differs.
"""

import importlib
import pathlib
import sys
import warnings

import paddle.base.layer_helper_base

from compare import Differs, NotInEagerMode, compare

LIBRARIES = [path.stem for path in sorted((pathlib.Path(__file__).parent / "catalogue").glob("paddle*.py"))] + ["ppdiffusers"]


def main(library, names):
    warnings.simplefilter("ignore")
    # Two models of one process may have parameters of the same name.
    paddle.base.layer_helper_base.unique_name.dygraph_parameter_name_checker = lambda name: False
    models = importlib.import_module(f"catalogue.{library}").models()
    counts = {"equal": 0, "of these one graph": 0, "differ": 0, "not in eager mode": 0}
    for name in names or models:
        try:
            measured = compare(models[name])
        except NotInEagerMode as reason:
            counts["not in eager mode"] += 1
            print(f"{name:40} not in eager mode: {reason}", flush=True)
            continue
        except Differs as difference:
            counts["differ"] += 1
            print(f"{name:40} DIFFERS: {difference}", flush=True)
            continue
        counts["equal"] += 1
        counts["of these one graph"] += measured.is_whole()
        print(line(name, measured), flush=True)
        for text, count in measured.reasons().items():
            print(f"    {count} × {text}", flush=True)
    print(", ".join(f"{what}: {count}" for what, count in counts.items()))
    return 1 if counts["differ"] else 0


def line(name, measured):
    graphs = [str(mode.graphs) if mode else "-" for mode in (measured.predict, measured.train)]
    return f"{name:40} equal; graphs: {' in eval, '.join(graphs)} in training; first call {measured.first_call:.1f} × eager"


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in LIBRARIES:
        sys.exit(f"{__doc__}\nThe libraries are {', '.join(LIBRARIES)}.")
    sys.exit(main(sys.argv[1], sys.argv[2:]))
