"""The data of reports: they fit their schema, and agree with `explain` and `stats`."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import paddle
import pytest
import report_models
import report_schema

import sot

pytestmark = pytest.mark.divided

MODELS = [name for name, _, _ in report_models.calls()]


def reported(name):
    """Return a model, and the result of `explain` for one call of it."""
    target, calls = next((target, calls) for known, target, calls in report_models.calls() if known == name)
    return target, calls, sot.explain(target)(*calls[0])


@pytest.mark.parametrize("name", MODELS)
def test_data_fit_the_schema_and_agree_with_explain(name, tmp_path, same):
    target, calls, explanation = reported(name)
    same(explanation.result, target(*calls[0]))
    explanation.save(tmp_path / "report.json")
    data = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    report_schema.check(data)
    translations = data["translations"]
    assert data["details"] and len(translations) == len(explanation.records)
    for translation, record in zip(translations, explanation.records):
        assert translation["function"] == record.name and translation["outcome"] == record.outcome
        assert translation["statements"] == record.statements
        assert [guard["text"] for guard in translation["guards"]] == list(record.guards)
        drawn = [statement["text"] for graph in translation["graphs"] for statement in graph["statements"]]
        assert len(drawn) == record.statements and all(text in record.sir for text in drawn)
        if record.reason_id is None:
            assert translation["reason"] is None
            continue
        reason = translation["reason"]
        assert (reason["id"], reason["kind"], reason["remedy"]) == (record.reason_id, record.kind, record.hint)
        assert reason["stack"][0]["line"] == record.reason_line


def lines_of(data, file):
    return {line["line"]: line for found in data["files"] if found["name"] == file for line in found["lines"]}


def test_lines_say_what_became_of_them():
    _, _, explanation = reported("breaking")
    assert explanation.subgraphs == 2 and len(explanation.breaks) == 1
    lines = lines_of(explanation.data, report_models.__file__)
    first = report_models.Breaking.forward.__code__.co_firstlineno
    block = report_models.Block.forward.__code__.co_firstlineno
    assert lines[first + 4]["status"] == "break"
    assert lines[first + 2]["status"] == lines[first + 6]["status"] == "program"
    assert lines[first + 2]["statements"] == lines[block + 1]["statements"] == 12
    assert first + 3 not in lines


def test_statements_know_their_layers():
    _, _, explanation = reported("whole")
    (translation,) = explanation.data["translations"]
    (graph,) = translation["graphs"]
    objects = [statement["object"] for statement in graph["statements"] if statement["object"]]
    assert objects == [f"self.blocks.{n}.{part}" for n in range(3) for part in ("norm", "feed")] + ["self.head"]
    last = translation["places"][graph["statements"][-2]["place"]]
    assert (last["scope"], last["class"]) == ("self.blocks.2", "Block")
    shapes = {value["name"]: (value["role"], value["shape"], value["dtype"]) for value in graph["values"]}
    assert shapes[graph["inputs"][0]] == ("input", [2, 8], "float32")
    assert shapes[graph["outputs"][0]] == ("result", [2, 2], "float32")


def test_a_recompile_names_the_guard_with_both_values(tmp_path):
    target, calls, _ = reported("recompiling")
    sot.reset()
    kept = sot._sot.report_upcoming()
    sot._sot.report_details(True)
    try:
        for arguments in calls:
            sot.symbolic_translate(target)(*arguments)
        data = sot._report_files.data(kept)
    finally:
        sot._sot.report_details(False)
        sot._sot.report_forget(kept)
    report_schema.check(data)
    assert [len(one["recompiled"]) for one in data["translations"]] == [one["earlier"] for one in data["translations"]] == [0, 1, 2]
    failed = data["translations"][1]["recompiled"]
    assert [(one["translation"], one["expected"], one["seen"]) for one in failed] == [(data["translations"][0]["id"], "'none'", "'half'")]
    times = {(one["expected"], one["seen"]): one["times"] for one in data["failures"]}
    assert times[("'none'", "'double'")] == 2
    assert data["translations"][0]["hits"] == 1
    # The call that was translated is timed, too.
    assert [translation["times"]["calls"] for translation in data["translations"]] == [2, 1, 1]
    assert all(0 < one["times"]["guards"] < one["times"]["seconds"] for one in data["translations"])


def test_calls_are_timed_while_a_report_is_asked_for():
    _, calls, explanation = reported("breaking")
    outer, behind = explanation.data["translations"]
    assert outer["times"]["calls"] == behind["times"]["calls"] == 1
    assert outer["times"]["seconds"] > behind["times"]["seconds"] > 0, "what goes on behind a break is part of the call"


def test_hits_are_those_of_stats():
    target, calls, _ = reported("whole")
    sot.reset()
    sot._sot.report_forget()
    kept = sot._sot.report_upcoming()
    fast = sot.symbolic_translate(target)
    before = sot.stats().hits
    for _ in range(3):
        fast(*calls[0])
    data = sot._report_files.data(kept)
    hits = sum(translation["hits"] or 0 for translation in data["translations"])
    assert hits == sot.stats().hits - before > 0


@pytest.mark.alone("verify mode collects details")
def test_without_details_small_facts_are_kept(tmp_path):
    sot._sot.report_forget()
    sot.symbolic_translate(report_models.Breaking())(paddle.ones([2, 8]))
    sot.report(tmp_path / "report.json")
    data = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    report_schema.check(data)
    assert not data["details"]
    first, second = data["translations"]
    assert first["reason"]["id"] == "data-dependent-control-flow" and first["graph_count"] == second["graph_count"] == 1
    assert first["times"] is None and first["hits"] == 0
    assert first["guard_count"] > 0 and not first["guards"] and not first["graphs"] and not first["functions"]
    assert first["earlier"] == second["earlier"] == 0


@pytest.mark.alone("verify mode collects details")
def test_recompiles_are_counted_without_details():
    sot.reset()
    sot._sot.report_forget()
    target, calls = next((target, calls) for name, target, calls in report_models.calls() if name == "recompiling")
    for arguments in calls:
        sot.symbolic_translate(target)(*arguments)
    assert [translation["earlier"] for translation in sot._report_files.data(0)["translations"]] == [0, 1, 2]


@pytest.mark.alone("verify mode is switched on within")
def test_a_call_that_is_verified_is_counted_once():
    target, calls, _ = reported("breaking")
    sot.reset()
    kept = sot._sot.report_upcoming()
    with sot.config.patch(verify=True):
        fast = sot.symbolic_translate(target)
        for _ in range(3):
            fast(*calls[0])
        data = sot._report_files.data(kept)
    assert sot.stats().verified == 3
    outer, behind = data["translations"]
    assert [(one["hits"], one["times"]["calls"]) for one in (outer, behind)] == [(2, 3), (2, 3)]
    sot._sot.report_details(False)


@pytest.mark.alone("verify mode collects details")
def test_a_function_that_is_no_longer_translated_is_a_finding():
    data = report_models.no_longer_translated()
    report_schema.check(data)
    *translated, left = data["translations"]
    assert len(translated) == sot.stats().translations and all(one["attempts"] for one in translated)
    assert not left["attempts"] and left["outcome"] == "fallback"
    assert left["reason"]["id"] == "too-many-translations" and left["reason"]["remedy"]
    line = Path(report_models.__file__).read_text().splitlines()[left["line"] - 1]
    assert line.strip().startswith("def scaled") and left["recompiled"][0]["guard"].startswith("type(")


def test_an_abandoned_attempt_says_why():
    data = report_models.with_needed_size()
    report_schema.check(data)
    first, second = data["translations"]
    assert [attempt["stood"] for attempt in first["attempts"]] == [True] and first["attempts"][0]["abandoned"] is None
    assert [attempt["stood"] for attempt in second["attempts"]] == [False, True]
    abandoned = second["attempts"][0]["abandoned"]
    assert abandoned["text"] == "iteration over a tensor of unknown length"
    assert abandoned["assumes"] == ["x.shape[0]"]
    line = report_models.row_by_row.__code__.co_firstlineno + 3
    assert [(at["line"], at["function"]) for at in abandoned["stack"]] == [(line, "row_by_row")]


LATER = """
import json, paddle, sot
class Layer(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.parts = paddle.nn.LayerList([paddle.nn.Linear(4, 4) for _ in range(8)])
    def forward(self, x):
        for part in self.parts:
            x = paddle.tanh(part(x))
        return x.sum()
layer = sot.symbolic_translate(Layer())
for _ in range(3):
    layer(paddle.ones([2, 4])).backward()
data = sot._report_files.data(0)
print(json.dumps([sot.stats().seconds, data]))
"""


@pytest.mark.alone("the number of runs decides when the graph is compiled")
def test_a_graph_that_is_compiled_after_its_first_runs_is_part_of_the_times():
    environment = {name: value for name, value in os.environ.items() if name != "MIN_GRAPH_SIZE"}
    ran = subprocess.run([sys.executable, "-c", LATER], env=environment, stdout=subprocess.PIPE, check=True, timeout=300)
    counted, data = json.loads(ran.stdout.splitlines()[-1])
    report_schema.check(data)
    (translation,) = data["translations"]
    (later,) = translation["compiled_later"]
    assert later["began"] > translation["began"] and later["seconds"] > 0
    assert translation["seconds"]["compile"] + later["seconds"] == pytest.approx(counted["compile"])


def test_other_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.html, \.json or \.trace\.json"):
        sot.report(tmp_path / "report.txt")


RUN = """
import multiprocessing, os, paddle, sot
def f(x):
    return paddle.tanh(x * 2) + 1
def child():
    sot.symbolic_translate(f)(paddle.ones([3]))
if __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    sot.symbolic_translate(f)(paddle.ones([2]))
    raise SystemExit("raised") if os.environ["END"] == "exit" else RuntimeError("raised")
"""


@pytest.mark.parametrize("end", ["exit", "error"])
def test_a_run_is_a_folder_with_an_index(end, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(RUN, encoding="utf-8")
    folder = tmp_path / "run"
    environment = dict(os.environ, SOT_REPORT=str(folder), END=end)
    ran = subprocess.run([sys.executable, str(script)], env=environment, stderr=subprocess.PIPE, timeout=300)
    assert ran.returncode == 1 and b"raised" in ran.stderr, ran.stderr
    reports = sorted(folder.glob("process-*/report.json"))
    assert len(reports) == 2, ran.stderr
    for report in reports:
        data = json.loads(report.read_text(encoding="utf-8"))
        report_schema.check(data)
        assert data["details"] and len(data["translations"]) == 1 and data["title"] == "program.py"
        assert (report.parent / "report.html").exists()
    index = folder / "index.html"
    page = index.read_text(encoding="utf-8")
    index.unlink()
    assert sot._report_files.main(folder) == 0 and index.read_text(encoding="utf-8") == page
    assert all(report.parent.name in page for report in reports)
    traces = [json.loads(file.read_text(encoding="utf-8")) for file in [folder / "trace.json", *folder.glob("*/trace.json")]]
    run, *processes = (trace["traceEvents"] for trace in traces)
    assert len(processes) == 2 and sorted(map(str, run)) == sorted(str(event) for events in processes for event in events)


def test_the_rank_of_a_process_is_told(monkeypatch):
    ranks = []
    for variables in [{}, {"RANK": "2"}, {"RANK": "2", "PADDLE_TRAINER_ID": "1"}]:
        for name in ("RANK", "PADDLE_TRAINER_ID"):
            monkeypatch.delenv(name, raising=False)
        for name, rank in variables.items():
            monkeypatch.setenv(name, rank)
        data = sot._report_files.data(sot._sot.report_upcoming())
        report_schema.check(data)
        ranks.append(data["process"]["rank"])
    assert ranks == [None, "2", "1"]


@pytest.mark.alone("verify mode collects details")
def test_the_timeline_can_be_exported(tmp_path):
    """In the Trace Event Format: slices of translations enclose those of their phases, and breaks are moments."""
    kept = sot._sot.report_kept()

    def breaks(x):
        y = paddle.tanh(x * 2)
        print(end=str(y.sum().item())[:0])
        return y + 1

    explanation = sot.explain(breaks)(paddle.ones([3]))
    explanation.save(tmp_path / "one.trace.json")
    trace = json.loads((tmp_path / "one.trace.json").read_text(encoding="utf-8"))
    assert trace == sot._report_trace.of(explanation.data)
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    outer = [event for event in slices if "translation" in event["args"]]
    assert len(outer) == len(explanation.records) >= 2 and outer[0]["name"].endswith("breaks")
    assert f", from line {explanation.breaks[0].reason_line}" in outer[1]["name"]
    for event in outer:
        end = event["ts"] + event["dur"] + 1
        inner = [at for at in slices if at not in outer and event["ts"] <= at["ts"] < end]
        assert [at["name"] for at in inner] == ["simulate", "compile"]
        assert all(at["ts"] + at["dur"] <= end for at in inner)
    moments = [event["args"] for event in trace["traceEvents"] if event["name"] == "graph break"]
    assert [moment["id"] for moment in moments] == [record.reason_id for record in explanation.breaks]
    assert abs(outer[0]["ts"] / 1e6 - time.time()) < 3600
    assert sot._sot.report_kept() == kept


def summary_of(*calls):
    """Return the summary of a process that runs `f` with these arguments."""

    def f(x, n):
        for _ in range(n):
            x = paddle.tanh(x * 2)
        return x + 1

    sot.reset()
    before, since = sot._report_files.collect(True), sot._sot.report_upcoming()
    try:
        for call in calls:
            sot.symbolic_translate(f)(*call)
        return sot._report_summary.of(sot._report_files.data(since))
    finally:
        sot._report_files.collect(before)


def test_summaries_of_processes_can_be_compared():
    x = paddle.ones([3])
    first, again, shape, number = [summary_of((y, n)) for y, n in [(x, 5), (x * 3, 5), (paddle.ones([4]), 5), (x, 6)]]
    assert [len(summary["functions"]) for summary in (first, again, shape, number)] == [1] * 4
    assert first["functions"][0]["translations"] == 1 and first["functions"][0]["graphs"][0]["statements"] == 11
    graphs = [summary["functions"][0]["graphs"] for summary in (first, again, shape, number)]
    assert graphs[0] == graphs[1] and graphs[0] != graphs[2] != graphs[3] != graphs[0]


def test_a_folder_without_reports_is_said(tmp_path, capsys):
    assert sot._report_files.main(tmp_path) == 1
    assert "SOT_REPORT" in capsys.readouterr().err
    assert sot._report_files.main(tmp_path / "nowhere") == 1
    assert "nowhere is not a folder" in capsys.readouterr().err


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '{"title": 1}'])
def test_damaged_reports_are_left_out_of_the_index_and_named(text, tmp_path, capsys):
    whole, damaged = tmp_path / "process-1", tmp_path / "process-2"
    for folder in (whole, damaged):
        folder.mkdir()
        (folder / "report.json").write_text("{}", encoding="utf-8")
    counts = dict.fromkeys(("translations", "graphs", "breaks", "fallbacks", "recompiles", "hits"), 1)
    summary = {"title": "train.py", "created": "2026-01-01T00:00:00+00:00", "seconds": 0.5, "functions": [], **counts}
    (whole / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    if text is not None:
        (damaged / "summary.json").write_text(text, encoding="utf-8")
    assert sot._report_files.main(tmp_path) == 1
    said = capsys.readouterr()
    assert str(damaged) in said.err and str(whole) not in said.err
    assert said.out.strip() == str(tmp_path / "index.html")
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert '"folder": "process-1"' in page and '"folder": "process-2"' not in page
