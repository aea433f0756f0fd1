"""Writes the tables of `docs/public-models.md` from what runs have kept.

    python tests/libraries/table.py found.jsonl...
"""

import json
import pathlib
import sys
import textwrap

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/public-models.md"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
EQUAL, NOT_EAGER, TOO_SLOW = "equal", "not in eager mode", "too slow"
TRACERS = ("sot", "paddle")


def main(paths):
    found = {}
    for path in paths:
        for line in pathlib.Path(path).read_text().splitlines():
            it = json.loads(line)
            found.setdefault(it["library"], {}).setdefault(it["name"], {})[it["tracer"]] = it
    measured = {library: {name: it for name, it in of.items() if is_measured(it)} for library, of in found.items()}
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    lines = [*totals(measured), *more(measured)]
    for library in sorted(measured):
        lines += [*of_library(library, measured[library]), *left_out(found[library])]
    PAGE.write_text(before + "\n".join([BEGIN, "", *lines, END]) + after)


def is_measured(model):
    """Return whether both tracers have run the model, and eager mode can run it in time."""
    outcomes = {it["outcome"] for it in model.values()}
    return len(model) == len(TRACERS) and NOT_EAGER not in outcomes and outcomes != {TOO_SLOW}


def totals(measured):
    head = ["library", "models"]
    for who in ("sot", "Paddle's own"):
        head += [f"{who}: equal", "one graph", "graphs", "breaks", "first call, median"]
    yield row(head)
    yield row(["---"] * len(head))
    for library, models in sorted(measured.items()):
        yield row([library, len(models), *counts(models.values())])
    every = [it for models in measured.values() for it in models.values()]
    yield row(["all", len(every), *counts(every)])
    yield ""


def counts(models):
    for tracer in TRACERS:
        outcomes = [it[tracer] for it in models]
        equal = [it for it in outcomes if it["outcome"] == EQUAL]
        others = [it["outcome"] for it in outcomes if it["outcome"] != EQUAL]
        counted = ", ".join(f"{others.count(what)} {what}" for what in sorted(set(others)))
        yield f"{len(equal)} ({counted})" if counted else len(equal)
        yield sum(it["whole"] for it in equal)
        # Sums over models that both tracers have run, so that the numbers are comparable.
        equal = [it[tracer] for it in models if all(it[of]["outcome"] == EQUAL for of in TRACERS)]
        yield sum(total(it["graphs"]) for it in equal)
        yield sum(total(it["breaks"]) for it in equal)
        calls = sorted(it["first call"] for it in equal)
        yield f"{calls[len(calls) // 2]:.0f} ×" if calls else "-"


def total(numbers):
    return sum(number for number in numbers if number is not None)


def more(measured):
    """Yield a line with the models for which sot makes more graphs."""
    names = [f"{name} ({library})" for library, models in measured.items() for name, it in models.items() if is_more(it)]
    text = f"Models with more graphs under sot than under Paddle's own tracer: {'; '.join(names) or 'none'}."
    yield textwrap.fill(text, 120, break_long_words=False)
    yield ""


def is_more(model):
    """Return whether sot makes more graphs in a mode than Paddle's own tracer, if both equal eager mode."""
    if any(model[tracer]["outcome"] != EQUAL for tracer in TRACERS):
        return False
    pairs = zip(model["sot"]["graphs"], model["paddle"]["graphs"])
    return any(ours is not None and theirs is not None and ours > theirs for ours, theirs in pairs)


def of_library(library, models):
    yield f"### {library}"
    yield ""
    yield row(["model", "sot: graphs, breaks", "first call", "Paddle's own: graphs, breaks", "first call", "the first reason of sot"])
    yield row(["---"] * 6)
    for name, it in sorted(models.items()):
        reason = next(iter(it["sot"].get("reasons", {})), it["sot"].get("why", "")).split(" at /")[0].replace("|", "\\|")
        yield row([name, *shown(it["sot"]), *shown(it["paddle"]), reason])
    yield ""


def shown(one):
    if one["outcome"] != EQUAL:
        return one["outcome"], "-"
    pairs = zip(one["graphs"], one["breaks"])
    modes = [f"{graphs}, {breaks}" for graphs, breaks in pairs if graphs is not None]
    return "; ".join(modes), f"{one['first call']:.0f} ×"


def left_out(models):
    by_reason = {}
    for name, it in sorted(models.items()):
        if not is_measured(it):
            outcomes = {one["outcome"] for one in it.values()}
            reason = "eager mode does not run them"
            if outcomes == {TOO_SLOW}:
                reason = "eager mode alone, or both tracers, take longer than the limit"
            elif NOT_EAGER not in outcomes:
                reason = "run under one tracer only"
            by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        yield textwrap.fill(f"Left out, since {reason}: {'; '.join(names)}.", 120, break_long_words=False)
        yield ""


def row(cells):
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    main(sys.argv[1:])
