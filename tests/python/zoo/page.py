"""Writes `docs/models.md`: what the translation of each model of the zoo comes to.

    python tests/python/zoo/page.py          # writes it, with the model's name as an argument only prints

The tests compare what they measure with the page.
"""

import collections
import os
import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "models.md"

INTRODUCTION = """\
# Models

How many subgraphs come of models as their users write them: [`tests/python/zoo`](../tests/python/zoo) has their code. Each is
translated as a function that calls the model (eval), and as one that computes its loss in training mode (train); backward pass
and optimizer's step are outside. What is counted is the first call. 1 is the least; where it is more, the reasons of the breaks
are named ([what they mean](graph-breaks.md)). None of the models leaves a frame to CPython.

The tests (`tests/python/test_zoo.py`) run each model beside eager mode, from the same weights and with the same random numbers:
outputs, gradients, and parameters and buffers after a step of Adam agree (to 1e-5 relative, convolutions to 1e-4), losses over
20 steps to 1e-4 (one or two steps of the large models of `paddle.vision`, of which `alexnet` and `vgg11` are given narrower last
layers), and the numbers are those of this page. Later calls translate nothing, but for models that `settles` says otherwise of:
their first call changes what they keep. All models are small and run on the CPU: the page says that their code is followed, and
nothing about speed or memory.

Measured on Paddle {version}. Written by `python tests/python/zoo/page.py`.
"""

GROUPS = [
    ("Classification models of `paddle.vision.models`", lambda module: module == "vision"),
    ("Models written out", lambda module: module != "vision"),
]


def breaks(mode):
    counts = collections.Counter(mode.breaks)
    return ", ".join(f"`{reason}`" + (f" × {count}" if count > 1 else "") for reason, count in sorted(counts.items()))


def row(task, measured):
    """The line of the table."""
    predict, train = measured.predict, measured.train
    texts = [f"{name}: {breaks(mode)}" for name, mode in (("eval", predict), ("train", train)) if mode.breaks]
    return f"| {task.title} | {task.shows} | {predict.graphs} | {train.graphs} | {'; '.join(texts)} |"


def page(version, rows):
    """The text of the page, of `{name: row}`."""
    parts = [INTRODUCTION.format(version=version)]
    for title, belongs in GROUPS:
        lines = [line for name, line in rows.items() if belongs(name.split(".")[0])]
        parts.append(f"\n## {title}\n\n| model | its code shows | eval | train | breaks |\n|---|---|---|---|---|\n")
        parts.append("".join(f"{line}\n" for line in lines))
    return "".join(parts)


def known_rows():
    """The lines of the tables as the page has them."""
    return [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| .* \| \d+ \| \d+ \|", line)]


def main():
    os.environ["MIN_GRAPH_SIZE"] = "0"
    os.environ.setdefault("STRICT_MODE", "0")
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import paddle
    from test_zoo import make, same

    import zoo
    from zoo.check import check

    names = [name for name in zoo.load() if sys.argv[1:] in ([], [name])]
    rows = {}
    for name in names:
        rows[name] = row(zoo.TASKS[name], check(make(name), same))
        print(rows[name], flush=True)
    if not sys.argv[1:]:
        PAGE.write_text(page(paddle.__version__, rows), encoding="utf-8")


if __name__ == "__main__":
    main()
