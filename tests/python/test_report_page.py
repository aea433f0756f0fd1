"""Reports as pages, in a real browser: they show what `explain` reports, and their links work.

Without Chromium the tests are skipped and say so. `SOT_PICTURES=folder` keeps the screenshots. One Python is enough:
the pages are the same on all.
"""

import json
import os
import pathlib
import re
import sys

import browser
import paddle
import pytest
import report_models

import sot

EXECUTABLE = browser.find()
ONE_PYTHON = (3, 12)

pytestmark = [
    pytest.mark.skipif(EXECUTABLE is None, reason="no browser: `apt install chromium`, or name one in SOT_BROWSER"),
    pytest.mark.skipif(
        sys.version_info[:2] != ONE_PYTHON and "SOT_BROWSER" not in os.environ,
        reason=f"pages are looked at on CPython {ONE_PYTHON[0]}.{ONE_PYTHON[1]}; SOT_BROWSER asks for it here",
    ),
]


@pytest.fixture(scope="module")
def chromium():
    with browser.Browser(EXECUTABLE) as opened:
        yield opened


@pytest.fixture
def shown(chromium, tmp_path):
    """`shown(name)` opens the report of a model, and returns the browser and the result of `explain`."""

    def show(name):
        target, calls = next((target, calls) for known, target, calls in report_models.calls() if known == name)
        explanation = sot.explain(target)(*calls[0])
        explanation.save(tmp_path / "report.html")
        chromium.open(tmp_path / "report.html")
        return chromium, explanation

    yield show
    picture(chromium, "last")
    assert not chromium.errors


def picture(chromium, name):
    folder = os.environ.get("SOT_PICTURES")
    if folder:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        chromium.picture(pathlib.Path(folder, f"{name}.png"))


def tiles(chromium):
    """Return the numbers at the top of the overview, by their labels."""
    texts = chromium.run("[...document.querySelectorAll('.tile')].map((tile) => [tile.children[1].innerText, tile.children[0].innerText])")
    return {name: number.replace(",", "") for name, number in texts}


def plural(number, noun):
    return noun if number == 1 else f"{noun}s"


@pytest.mark.parametrize("name", [name for name, _, _ in report_models.calls()])
def test_the_overview_has_the_numbers_of_explain(name, shown):
    chromium, explanation = shown(name)
    seen = tiles(chromium)
    for noun, number in [
        ("graph", explanation.subgraphs),
        ("graph break", len(explanation.breaks)),
        ("fallback", len([record for record in explanation.fallbacks if record.reason_id not in ("nothing-to-compile", "raises")])),
    ]:
        assert seen[plural(number, noun)] == str(number), noun
    assert seen["statements"] == str(explanation.statements)
    rows = chromium.number("table.timeline tbody tr")
    assert rows == len(explanation.records)
    picture(chromium, f"{name}-overview")


def test_from_a_break_one_gets_to_its_line_graphs_guards_and_code(shown):
    chromium, explanation = shown("breaking")
    (record,) = explanation.breaks
    chromium.go("breaks")
    card = chromium.text("section.card.break")
    assert record.hint in card and record.reason_id in card and "if x.sum() > 0:" in card
    assert chromium.run("document.querySelector('mark').innerText") in ("x.sum() > 0", "x.sum()", "if x.sum() > 0:")
    links = chromium.run("[...document.querySelectorAll('section.card .links a')].map((link) => link.innerText)")
    by_text = {text: number for number, text in enumerate(links)}
    line = f"report_models.py:{record.reason_line}"

    chromium.click("section.card .links a", by_text[line])
    assert chromium.text("h2") == "Source"
    assert chromium.text(".row.marked .text").strip() == "if x.sum() > 0:"
    assert chromium.text(".row.marked .state") == "break"
    assert chromium.run("document.querySelector('.row.marked').getAttribute('aria-expanded')") == "true"
    assert record.hint in chromium.text(".more")
    picture(chromium, "breaking-source")

    chromium.go("breaks")
    chromium.click("section.card .links a", by_text["graph before it"])
    assert chromium.text("h2").startswith("Breaking.forward")
    picture(chromium, "breaking-graph")
    chromium.go("breaks")
    chromium.click("section.card .links a", by_text[f"{len(record.guards)} guards"])
    assert f"{len(record.guards)} guards, by the value they are about" in chromium.text()
    picture(chromium, "breaking-guards")
    chromium.go("breaks")
    chromium.click("section.card .links a", by_text["old and new code"])
    assert chromium.number(".listing") == 2 and "__resume__" in chromium.text(".sides > div:last-child")
    picture(chromium, "breaking-code")
    chromium.click(".row.goes a")
    assert "from line" in chromium.text("h2")


def test_a_break_says_what_it_costs(chromium, shown, tmp_path):
    shown("breaking")
    chromium.go("breaks")
    assert "Tensor work before it and behind it is in graphs of its own." in chromium.text("section.card.break .cost")

    def step(x):
        y = paddle.tanh(x * 2)
        return float(y.sum())

    explanation = sot.explain(step)(paddle.ones([3]))
    explanation.save(tmp_path / "report.html")
    chromium.open(tmp_path / "report.html")
    told = chromium.text("section.card.cheap")
    assert "1 line ends a graph at almost no cost" in told and "Tensor.__float__ needs the tensor's value" in told
    assert chromium.number("section.card.break") == 0, "it is among what costs little, and stands there only"
    chromium.click("section.card.cheap .links a")
    card = chromium.text("section.card.break")
    assert "nothing has to change" in card
    assert "No graph follows" in card and "Tensor.__float__ needs the tensor's value" in card
    assert "read it less often" in card, "what to do is about values that are read"
    assert chromium.run("document.querySelector('section.card abbr').title") == "unsupported simulation"


def test_what_is_left_alone_without_a_look_is_on_the_overview(chromium, tmp_path):
    def traced(x):
        return paddle.tanh(x * 2)

    sot.reset()
    kept = sot._sot.report_upcoming()
    fast = sot.symbolic_translate(traced)
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        fast(paddle.ones([3]))
    finally:
        sys.settrace(before)
    sot._report_files.write(tmp_path / "report.html", sot._report_files.data(kept))
    chromium.open(tmp_path / "report.html")
    assert "a trace function is set" in chromium.text("section.uncovered") and "traced" in chromium.text("section.uncovered")


def test_a_function_that_is_no_longer_translated_has_a_card(chromium, tmp_path):
    sot._report_files.write(tmp_path / "report.html", report_models.no_longer_translated())
    chromium.open(tmp_path / "report.html")
    assert tiles(chromium)["translations"] == str(sot.stats().translations) and tiles(chromium)["fallback"] == "1"
    card = chromium.text("section.card.fallback")
    assert "each call would need another translation" in card and "What to do: Pass the value that differs" in card
    assert chromium.number("section.uncovered") == 0
    assert "type(options)" in chromium.text("section.card.recompile")
    picture(chromium, "settled-overview")


@pytest.mark.alone("verify mode collects the details")
def test_a_report_without_details_says_what_it_lacks(chromium, tmp_path):
    sot.reset()
    sot._sot.report_forget()
    target, calls = next((target, calls) for known, target, calls in report_models.calls() if known == "recompiling")
    for arguments in calls:
        sot.symbolic_translate(target)(*arguments)
    sot.report(tmp_path / "report.html")
    chromium.open(tmp_path / "report.html")
    assert tiles(chromium)["recompiles"] == "2"
    assert "2 calls needed another translation" in chromium.text() and "were not collected" in chromium.text()
    chromium.go("recompiles")
    assert "Which guards failed was not collected." in chromium.text() and chromium.number("main li") == 2
    assert not chromium.errors


def test_source_text_is_text(shown):
    chromium, _ = shown("breaking")
    chromium.go("source")
    assert '</script><script>document.title = "taken over"</script> &lt; <!--' in chromium.text(".code")
    assert "taken over" not in chromium.run("document.title")


def lines_in_sight(chromium, file, text, name):
    """Translate the function `name` of a file, and show the source of the file. Return the lines that are in sight."""
    file.write_text(text + "\n" * 200)
    names = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    sot.explain(names[name])(paddle.ones([2])).save(file.with_suffix(".html"))
    chromium.open(file.with_suffix(".html"))
    chromium.go("source")
    return chromium.run(
        "[...document.querySelectorAll('.code .row:not(.head)')]"
        ".filter((row) => row.getBoundingClientRect().top >= 0 && row.getBoundingClientRect().bottom <= innerHeight)"
        ".map((row) => Number(row.firstChild.innerText))"
    )


def test_the_source_opens_at_the_first_break_or_function(chromium, tmp_path):
    whole = "import paddle\ndef whole(x):\n    return paddle.tanh(x) * 2\n"
    seen = lines_in_sight(chromium, tmp_path / "top.py", whole, "whole")
    assert 1 in seen and chromium.run("scrollY") == 0, "a line in sight needs no scrolling"
    whole = "\n" * 200 + whole
    seen = lines_in_sight(chromium, tmp_path / "whole.py", whole, "whole")
    assert 202 in seen and 203 in seen and 1 not in seen
    breaking = whole + "\n" * 100 + "def breaking(x):\n    x = whole(x)\n    print(x.sum().item())\n    return x + 1\n"
    seen = lines_in_sight(chromium, tmp_path / "breaking.py", breaking, "breaking")
    assert 306 in seen and 202 not in seen
    assert chromium.number(".row.marked") == 0, "no line was asked for"
    assert not chromium.errors


def test_boxes_open_by_click_and_by_key(shown):
    chromium, explanation = shown("whole")
    chromium.go("t/" + str(explanation.data["translations"][0]["id"]) + "/graph")
    chromium.run("[...document.querySelectorAll('.tools button')].find((one) => one.innerText === 'Close all boxes').click()")
    closed = chromium.number(".node.step")
    assert chromium.number(".node.group[aria-expanded=false]") == 3
    chromium.click(".node.group")
    assert chromium.number(".node.step") == closed + 4
    chromium.run("document.querySelectorAll('.node.group[aria-expanded=false]')[0].focus()")
    chromium.press("Enter")
    assert chromium.number(".node.step") == closed + 8
    assert chromium.run("document.activeElement.getAttribute('aria-expanded')") == "true"
    labels = chromium.run("[...document.querySelectorAll('.node')].map((node) => node.getAttribute('aria-label'))")
    assert "0: Block self.blocks.0 4 statements" in labels and "feed: Linear" in labels
    chromium.click(".node.step")
    assert "report_models.py:" in chromium.text("[aria-live]") and "2×8 f32" in chromium.text("[aria-live]")
    picture(chromium, "whole-graph")


def test_a_thousand_statements_are_readable(shown):
    chromium, explanation = shown("thousand")
    number = explanation.data["translations"][0]["id"]
    chromium.go(f"t/{number}/graph")
    assert chromium.number(".node") <= 60
    chromium.click(".node.group")
    picture(chromium, "thousand-graph")
    chromium.go(f"t/{number}/statements")
    assert chromium.number(".statements .row") == explanation.statements == 1000
    chromium.run("(() => { const field = document.querySelector('input[type=search]'); field.value = 'tanh';"
                 " field.dispatchEvent(new Event('input')); })()")
    assert chromium.number(".statements .row") == 250
    picture(chromium, "thousand-statements")


def larger(data, times):
    """Return report data whose graph repeats the statements of the given graph `times` times."""
    (graph,) = data["translations"][0]["graphs"]
    (start,), (end,) = graph["inputs"], graph["outputs"]
    statements, values = list(graph["statements"]), list(graph["values"])
    for number in range(1, times):
        # The input of each repetition is the output of the previous one.
        before = end if number == 1 else f"{end}_{number - 1}"
        rename = lambda name: before if name == start else f"{name}_{number}"
        for statement in graph["statements"]:
            text = re.sub(r"var_\d+", lambda found: rename(found[0]), statement["text"])
            new = {key: [rename(name) for name in statement[key]] for key in ("uses", "outputs")}
            statements.append({**statement, **new, "text": text})
        values += [{**value, "name": rename(value["name"])} for value in graph["values"] if value["name"] != start]
    graph.update(statements=statements, values=values, outputs=[f"{end}_{times - 1}"])
    data["translations"][0]["statements"] = len(statements)


def test_ten_thousand_statements_are_readable_and_quick(chromium, tmp_path):
    target, calls = next((target, calls) for known, target, calls in report_models.calls() if known == "thousand")
    explanation = sot.explain(target)(*calls[0])
    larger(explanation.data, 10)
    explanation.save(tmp_path / "report.html")
    chromium.open(tmp_path / "report.html")
    assert tiles(chromium)["statements"] == "10000"
    number = explanation.data["translations"][0]["id"]
    chromium.go(f"t/{number}/graph")
    # At each level only a number of boxes is drawn that can be looked at.
    drawn = chromium.number(".node")
    assert 2 < drawn <= 60
    for _ in range(2):
        chromium.click(".node.group[aria-expanded=false]")
        assert drawn < chromium.number(".node") <= drawn + 60
        drawn = chromium.number(".node")
    picture(chromium, "ten-thousand-graph")
    chromium.go(f"t/{number}/statements")
    assert chromium.number(".statements .row") == 10000
    # Rows that are not in the window are not laid out.
    assert chromium.run("[...document.querySelectorAll('.statements .block')].filter((one) => one.checkVisibility({contentVisibilityAuto: true})).length") <= 50
    assert "var_" in chromium.run("document.querySelectorAll('.statements .row')[9999].textContent")
    picture(chromium, "ten-thousand-statements")
    assert not chromium.errors


def test_recompiles_show_the_guard_and_both_values(chromium, tmp_path):
    target, calls = next((target, calls) for known, target, calls in report_models.calls() if known == "recompiling")
    kept = sot._sot.report_upcoming()
    sot._sot.report_details(True)
    try:
        for arguments in calls:
            sot.symbolic_translate(target)(*arguments)
        sot._report_files.write(tmp_path / "report.html", sot._report_files.data(kept))
    finally:
        sot._sot.report_details(False)
        sot._sot.report_forget(kept)
    chromium.open(tmp_path / "report.html")
    assert tiles(chromium)["recompiles"] == "2"
    chromium.go("recompiles")
    card = chromium.text("section.card.recompile")
    assert "scale changes: 3 guards failed in Scaled.forward" in card and "'none'\t'double'\t2" in card and "'half'\t'double'\t1" in card
    picture(chromium, "recompiling-recompiles")
    chromium.click("section.card.recompile .links a", 1)
    assert "failed 2 times" in chromium.text("ul.failures")
    assert "µs" in chromium.text(".tree summary") and chromium.number(".tree .share") > 1
    chromium.go("calls")
    cells = "[...document.querySelectorAll('table.calls tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))"
    rows = {int(row[0].split("#")[1].split()[0]): row for row in chromium.run(cells)}
    first, *others = (rows[number] for number in sorted(rows))
    assert first[1:3] == ["1", "2"] and [row[1] for row in others] == ["0", "0"]
    assert all(row[3].endswith("µs") and row[4].endswith((" µs", " ms", " s")) for row in rows.values())
    picture(chromium, "recompiling-calls")
    chromium.run("[...document.querySelectorAll('table.calls .number a')].find((one) => one.innerText === '2').click()")
    chromium.wait("document.querySelector('ul.failures')")
    assert "failed 2 times" in chromium.text("ul.failures")
    assert not chromium.errors


def test_a_recompile_for_a_size_says_which_line_needs_the_size(chromium, tmp_path):
    data = report_models.with_needed_size()
    sot._report_files.write(tmp_path / "report.html", data)
    chromium.open(tmp_path / "report.html")
    card = chromium.text("section.card.recompile")
    assert "Why its size is not left open:" in card and "iteration over a tensor of unknown length" in card
    assert "x.shape[0]" in card and "Change that line so that it does not need the size" in card
    picture(chromium, "size-overview")
    chromium.click(".needed a")
    assert chromium.text(".row.marked .text").strip() == "for row in x:"
    chromium.go(f"t/{data['translations'][1]['id']}/guards")
    assert "attempts thrown away" in chromium.text() and "iteration over a tensor of unknown length" in chromium.text()
    chromium.go(f"t/{data['translations'][0]['id']}/trackers")
    assert chromium.number(".node.failing") == 1 and "Red frame" in chromium.text()
    assert not chromium.errors


def test_all_times_of_translations_are_in_the_sum_and_in_the_timeline(chromium, tmp_path):
    data = report_models.with_needed_size()
    first, second = data["translations"]
    for translation in (first, second):
        translation["seconds"] = {"simulate": 1.0, "build": 2.0, "compile": 3.0}
    second["attempts"][0]["seconds"] = 10.0
    second["began"] = first["began"] + 20
    first["compiled_later"] = [{"began": first["began"] + 30, "seconds": 4.5}]
    sot._report_files.write(tmp_path / "report.html", data)
    chromium.open(tmp_path / "report.html")
    assert tiles(chromium)["translating"] == "26.5 s"
    assert chromium.number(".timeline .bar .later") == 1 and chromium.number(".timeline .bar .thrown") == 1
    assert "compile after the first runs 4.50 s" in chromium.run("document.querySelector('.timeline .bar').getAttribute('aria-label')")
    assert "34.5 s" in chromium.text("table.timeline thead")
    chromium.go("process")
    assert "attempts thrown away\n10.0 s" in chromium.text()
    assert not chromium.errors


def test_lines_of_code_are_marked_by_the_keyboard(shown):
    chromium, explanation = shown("breaking")
    chromium.go(f"t/{explanation.data['translations'][0]['id']}/code")
    chromium.run("document.querySelector('.listing').focus()")
    chromium.press("ArrowDown")
    first = chromium.run("document.querySelector('.listing .row.same').dataset.line")
    chromium.press("ArrowDown")
    assert chromium.run("document.querySelector('.listing .row.same').dataset.line") != first
    chromium.click(".sides > div:last-child .row a")
    assert chromium.run("location.hash").endswith("/graph")


def test_a_narrow_window_shows_the_contents_at_once(shown):
    chromium, explanation = shown("breaking")
    chromium.ask("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=False)
    try:
        tabs = [f"t/{explanation.data['translations'][0]['id']}/{tab}" for tab in ("graph", "statements", "guards", "trackers", "code")]
        for view in (*VIEWS, *tabs):
            chromium.go(view)
            assert chromium.run("document.documentElement.scrollWidth") == 400, view
            assert chromium.run("document.querySelector('h2').getBoundingClientRect().top") < 400, view
        picture(chromium, "breaking-narrow")
    finally:
        chromium.ask("Emulation.setDeviceMetricsOverride", width=1360, height=900, deviceScaleFactor=1, mobile=False)


def test_layers_that_repeat_are_marked(shown):
    chromium, _ = shown("whole")
    chromium.go("timeline")
    assert chromium.text(".tag.repeated") == "Block × 3"


VIEWS = ("overview", "timeline", "calls", "source", "breaks", "recompiles", "graphs", "process")


def test_keyboard_and_screen_reader(shown):
    chromium, explanation = shown("breaking")
    for view in VIEWS:
        chromium.go(view)
        assert chromium.run("document.activeElement.tagName") == "H2", view
        assert chromium.number("h2") == 1
        unnamed = "[...document.querySelectorAll('a, button, [role=button], input, select')]" \
            ".filter((one) => !(one.innerText || one.textContent || one.getAttribute('aria-label') || one.labels?.length)).length"
        assert chromium.run(unnamed) == 0, view
    assert chromium.run("document.documentElement.lang") == "en"
    assert chromium.number("nav[aria-label]") == 1
    # All contents are in landmarks, no control is within another one, and links in a text are underlined.
    assert chromium.run("[...document.querySelectorAll('.frame > *')].map((one) => one.tagName)") == ["HEADER", "MAIN"]
    chromium.go(f"t/{explanation.data['translations'][0]['id']}/graph")
    assert chromium.number(".node.open") > 0 and chromium.number("[role=button] [tabindex], a [tabindex], button [tabindex]") == 0
    chromium.go("breaks")
    underlined = "[...document.querySelectorAll('main .card a')].every((one) => getComputedStyle(one).textDecorationLine === 'underline')"
    assert chromium.run(underlined)


def test_dark_and_light(shown):
    chromium, _ = shown("whole")
    background = "getComputedStyle(document.body).backgroundColor"
    light = chromium.run(background)
    chromium.click(".side button")
    assert chromium.run(background) != light
    picture(chromium, "whole-dark")


def test_the_index_leads_to_the_processes(chromium, tmp_path):
    sot._sot.report_forget()
    sot.symbolic_translate(report_models.Whole())(report_models.calls()[0][2][0][0])
    before, sot._report_files._run_folder = sot._report_files._run_folder, tmp_path
    try:
        sot._report_files._write_run()
    finally:
        sot._report_files._run_folder = before
    chromium.open(tmp_path / "index.html")
    assert chromium.number("tbody tr") == 1
    chromium.ask("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=False)
    assert chromium.run("document.documentElement.scrollWidth") == 400
    chromium.ask("Emulation.setDeviceMetricsOverride", width=1360, height=900, deviceScaleFactor=1, mobile=False)
    chromium.click("tbody a")
    chromium.wait("document.querySelector('.tile')")
    assert tiles(chromium)["graph"] == "1"
    chromium.click(".side .up a")
    chromium.wait("document.querySelector('h1')?.innerText === 'Processes of a run'")
    assert not chromium.errors


def test_the_index_says_where_processes_differ(chromium, tmp_path):
    """Of three processes, one has another graph, and one has not come to the second function."""
    graph = {"statements": 4, "digest": "a" * 16}
    one = {"function": "step", "file": "/train.py", "line": 3, "resume": None, "first": 0}
    one.update(translations=1, breaks=0, fallbacks=0, graphs=[graph])
    two = {**one, "function": "loss", "line": 9, "first": 1}
    other = {**one, "graphs": [{"statements": 5, "digest": "b" * 16}]}
    counts = dict.fromkeys(("translations", "graphs", "breaks", "fallbacks", "recompiles", "hits"), 1)
    for rank, functions in enumerate([[one, two], [one, two], [other]]):
        folder = tmp_path / f"process-{rank}"
        folder.mkdir()
        summary = {"title": "train.py", "created": "2026-01-01T00:00:00+00:00", "seconds": 0.5, **counts}
        summary.update(functions=functions, process={"pid": rank, "rank": str(rank)})
        (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    assert sot._report_files.main(tmp_path) == 0
    chromium.open(tmp_path / "index.html")
    cards = chromium.run("[...document.querySelectorAll('.difference')].map((card) => card.innerText)")
    assert [card.split()[0] for card in cards] == ["step", "loss"]
    rows = chromium.run("[...document.querySelectorAll('.difference tbody tr')].map((row) => row.innerText.split(/\\s{2,}|\\t/))")
    assert [row[0] for row in rows] == ["process-0, rank 0, process-1, rank 1", "process-2, rank 2"] * 2
    assert "4 [aaaa]" in cards[0] and "5 [bbbb]" in cards[0] and "not translated" in cards[1]
    assert chromium.run("document.querySelector('.difference a').getAttribute('href')") == "process-0/report.html#t/0"
    picture(chromium, "index-differences")

    summary.update(functions=[one, two])
    (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    assert sot._report_files.main(tmp_path) == 0
    chromium.open(tmp_path / "index.html")
    assert chromium.number(".difference") == 0 and chromium.number(".agree") == 1
    assert not chromium.errors


STYLE = pathlib.Path(__file__).parents[2] / "sot-python/src/page/style.css"
TEXT_ON = [(state, f"{state}-back") for state in ("program", "replayed", "traced", "native", "fallback", "break")] + [
    (text, back) for text in ("text", "soft", "link") for back in ("back", "side", "card", "box")
] + [("back", "accent"), ("accent", "box"), ("soft", "break-back"), ("text", "program-back"), ("link", "break-back")]


def brightness(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_read(theme):
    """The contrast is at least what WCAG 2.1 requires for small text."""
    rules = re.findall(r":root[^{]*\{(.*?)\}", STYLE.read_text(encoding="utf-8"), re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", rules[theme]))
    for text, back in TEXT_ON:
        darker, lighter = sorted(brightness(colours[name]) for name in (text, back))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (text, back)
