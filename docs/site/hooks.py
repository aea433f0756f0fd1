"""MkDocs hooks: pages of the checkout's root become pages of the site, and examples marked `<!-- run -->` run, with their output
under them.

`SOT_DOCS_PYTHON` names the interpreter that runs the examples; without it they stand there without output.
"""

import ast
import json
import os
import posixpath
import re
import shutil
import subprocess
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
PAGES = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
EXAMPLE = re.compile(r"<!-- run -->\n```python\n(.*?)```\n", re.DOTALL)

RUNNER = """
import contextlib, io, json, sys
namespace, outputs = {"__name__": "example"}, []
for number, (source, file) in enumerate(json.load(sys.stdin)):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        with open(file, "w") as example:
            example.write(source)
        exec(compile(source, file, "exec"), namespace)
    outputs.append(out.getvalue())
print(json.dumps(outputs))
"""


def on_startup(command, dirty):
    """Lay the package out for mkdocstrings, which merges no stubs of a compiled module: stubs take the place of modules."""
    source, target = ROOT / "sot-paddle/python/sot", ROOT / "target/docs/api/sot"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=lambda _, names: [name for name in names if name.startswith("__pycache__")])
    public = re.search(r"^__all__ = \[.*?^\]", (source / "__init__.py").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    for stub in target.glob("*.pyi"):
        text = stub.read_text(encoding="utf-8")
        text += implementations(text) + (f"\n{public[0]}\n" if stub.stem == "__init__" else "")
        stub.with_suffix(".py").write_text(text, encoding="utf-8")
        stub.unlink()


def on_post_build(config):
    """Check that the page of the API has every public name."""
    page = (Path(config.site_dir) / "api-python.html").read_text(encoding="utf-8")
    package = (ROOT / "sot-paddle/python/sot/__init__.py").read_text(encoding="utf-8")
    names = ast.literal_eval(re.search(r"^__all__ = (\[.*?^\])", package, re.DOTALL | re.MULTILINE)[1])
    entries = {name: (f'id="sot.{name}"', f"sot.{name}</code>") for name in names if name != "__version__"}
    missing = [name for name, either in entries.items() if not any(text in page for text in either)]
    if missing:
        raise PluginError(f"api-python.md: no entry for {', '.join(missing)}")


def implementations(stub):
    """Definitions for the functions of which a stub has only overloads: mkdocstrings leaves these out."""
    functions = [node for node in ast.parse(stub).body if isinstance(node, ast.FunctionDef)]
    whole = {node.name for node in functions if not node.decorator_list}
    found = {}
    for node in functions:
        if node.name not in whole and node.name not in found:
            node.decorator_list = []
            found[node.name] = ast.unparse(node)
    return "".join(f"\n{text}\n" for text in found.values())


def on_files(files, config):
    """Add the pages of the root, and the notebook as one."""
    files.append(File.generated(config, "tour.md", content=notebook(ROOT / "examples/tour.ipynb")))
    for source, target in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace('src="docs/', 'src="')
        files.append(File.generated(config, target, content=links_of(text, "", target)))
    return files


def notebook(path):
    """The cells of a notebook as a page, whose code is run as that of other pages."""
    cells = [("".join(cell["source"]), cell["cell_type"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    return "\n\n".join(text if kind == "markdown" else f"<!-- run -->\n```python\n{text}\n```\n" for text, kind in cells)


def on_page_markdown(markdown, page, config, files):
    """Links to the checkout, and output of examples."""
    if page.file.src_uri not in PAGES.values():
        markdown = links_of(markdown, posixpath.dirname("docs/" + page.file.src_uri), page.file.src_uri)
    return with_output(markdown, page.file.src_uri)


def links_of(text, folder, page):
    """Links between pages stay links; those to other files of the checkout become names."""

    def link(found):
        mark, label, target, anchor = found[1], found[2], found[3], found[4] or ""
        if "://" in target or target.startswith("mailto:") or not target:
            return found[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if path in PAGES:
            inside = PAGES[path]
        elif path.startswith("docs/") and (ROOT / path).is_file():
            inside = path[len("docs/") :]
        elif (ROOT / path).exists():
            return label
        else:
            return found[0]
        # In the checkout a link shows the name of the file; in the site it shows the title of the page.
        label = title_of(ROOT / path) if not mark and label == path else label
        return f"{mark}[{label}]({posixpath.relpath(inside, posixpath.dirname(page) or '.')}{anchor})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def title_of(page):
    """The first heading of a page; its name if it has none."""
    heading = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE) if page.suffix == ".md" else None
    return heading[1] if heading else page.name


def with_output(markdown, name):
    """The page with what its examples print."""
    examples = EXAMPLE.findall(markdown)
    python = os.environ.get("SOT_DOCS_PYTHON")
    if not examples or not python:
        return markdown
    folder = ROOT / "target" / "docs" / "examples"
    folder.mkdir(parents=True, exist_ok=True)
    given = json.dumps([(source, f"example{number}.py") for number, source in enumerate(examples)])
    environment = {**os.environ, "SOT_PROGRESS": "0", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([python, "-c", RUNNER], input=given, capture_output=True, text=True, cwd=folder, env=environment)
    if done.returncode:
        raise PluginError(f"{name}: an example fails\n{done.stderr[-2000:]}")
    outputs = iter(json.loads(done.stdout.splitlines()[-1]))

    def shown(found):
        output = next(outputs).rstrip()
        return f"```python\n{found[1]}```\n" + (f"\n```text title=\"prints\"\n{output}\n```\n" if output else "")

    return EXAMPLE.sub(shown, markdown)
