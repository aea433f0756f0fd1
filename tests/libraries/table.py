"""Writes the tables of `docs/public-models.md` from what runs have kept.

    python tests/libraries/table.py found.jsonl...
"""

import json
import pathlib
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/public-models.md"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
EQUAL, DIFFERS = "equal", "differs"


def main(paths):
    found = {}
    for path in paths:
        for line in pathlib.Path(path).read_text().splitlines():
            it = json.loads(line)
            found.setdefault((it["library"], it["name"]), {})[it["tracer"]] = it
    # What eager mode cannot run says nothing of a tracer.
    both = {key: it for key, it in found.items() if len(it) == 2 and it["sot"]["outcome"] in (EQUAL, DIFFERS)}
    alone = [" ".join(key) for key, it in found.items() if len(it) == 1]
    if alone:
        print(f"Run under one tracer only, and left out: {', '.join(alone)}", file=sys.stderr)
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    text = "\n".join([BEGIN, "", *by_library(both), "", *in_pieces(both), "", END])
    PAGE.write_text(before + text + after)


def by_library(both):
    yield "| library | models | sot: equal, of these one graph in each mode | Paddle's own: equal, of these one graph | more graphs here |"
    yield "|---|---|---|---|---|"
    for library in sorted({library for library, _ in both}):
        models = [it for (of, _), it in both.items() if of == library]
        cells = [f"{equal(models, tracer)}, {whole(models, tracer)}" for tracer in ("sot", "paddle")]
        more = sum(is_more(it) for it in models)
        yield f"| {library} | {len(models)} | {cells[0]} | {cells[1]} | {more} |"


def equal(models, tracer):
    return sum(it[tracer]["outcome"] == EQUAL for it in models)


def whole(models, tracer):
    return sum(it[tracer].get("whole", False) for it in models)


def is_more(model):
    """Whether sot has more graphs in a mode than Paddle's own tracer, where both are equal to eager mode."""
    if any(model[tracer]["outcome"] != EQUAL for tracer in ("sot", "paddle")):
        return False
    pairs = zip(model["sot"]["graphs"], model["paddle"]["graphs"])
    return any(ours is not None and theirs is not None and ours > theirs for ours, theirs in pairs)


def in_pieces(both):
    yield "Those that are not one graph in each mode here (graphs in eval mode / in training):"
    yield ""
    yield "| model | sot | Paddle's own | the first reason here |"
    yield "|---|---|---|---|"
    for (library, name), it in sorted(both.items()):
        if not it["sot"].get("whole"):
            reason = next(iter(it["sot"].get("reasons", {})), it["sot"].get("why", "")).split(" at /")[0].replace("|", "\\|")
            yield f"| {library}, {name} | {shown(it['sot'])} | {shown(it['paddle'])} | {reason} |"


def shown(one):
    if one["outcome"] != EQUAL:
        return "differs"
    return " / ".join("-" if count is None else str(count) for count in one["graphs"])


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    main(sys.argv[1:])
