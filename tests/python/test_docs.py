"""The examples of the site's pages, and the notebook, run without the packages that build the site."""

import json
import re
from pathlib import Path

import pytest

import sot

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"<!-- run -->\n```python\n(.*?)```\n", re.DOTALL)
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if "<!-- run -->" in page.read_text(encoding="utf-8")]


def run(sources, folder, monkeypatch, name):
    monkeypatch.chdir(folder)
    namespace = {"__name__": "example"}
    for number, source in enumerate(sources):
        path = folder / f"{name}{number}.py"
        path.write_text(source, encoding="utf-8")
        exec(compile(source, str(path), "exec"), namespace)


def test_there_are_examples():
    assert len(PAGES) >= 2


@pytest.mark.usefixtures("no_other_threads")
@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_examples_of_a_page(page, tmp_path, monkeypatch):
    run(EXAMPLE.findall(page.read_text(encoding="utf-8")), tmp_path, monkeypatch, "example")


@pytest.mark.usefixtures("no_other_threads")
def test_the_cells_of_the_notebook(tmp_path, monkeypatch):
    book = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))
    assert book["nbformat"] == 4
    cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 5 and not any(cell.get("outputs") for cell in book["cells"])
    run(cells, tmp_path, monkeypatch, "cell")


def test_the_notebook_as_jupyter_runs_it():
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    book = nbformat.read(ROOT / "examples" / "tour.ipynb", as_version=4)
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()


def test_the_page_of_the_api_lists_all_names():
    page = (ROOT / "docs" / "api-python.md").read_text(encoding="utf-8")
    listed = {name.strip() for names in re.findall(r"members: \[(.*?)\]", page) for name in names.split(",")}
    sections = set(re.findall(r"^## `sot\.(\w+)`", page, re.MULTILINE))
    assert listed | sections | {"__version__"} == set(sot.__all__)
