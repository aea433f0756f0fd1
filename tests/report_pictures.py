"""Takes the pictures of docs/report.md from the report of `examples/train_gpt.py`, in a headless Chromium.

    python -m sot run --report report examples/train_gpt.py
    python tests/report_pictures.py report/process-*/report.html
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "python"))

import browser  # noqa: E402

PICTURES = HERE.parent / "docs/pictures"


def main(report):
    PICTURES.mkdir(exist_ok=True)
    with browser.Browser(browser.find(), width=1280, height=800) as page:
        page.open(report)
        page.picture(PICTURES / "report-overview.png")
        page.go(f"t/{page.run('translations.find((one) => one.graph_count).id')}/graph")
        page.click(".node.group[aria-expanded=false]")
        page.run("scrollTo(0, document.querySelector('.tabs').offsetTop)")
        page.picture(PICTURES / "report-graph.png")
    with browser.Browser(browser.find(), width=900, height=430) as page:
        page.open(report)
        page.go("source/0/74")
        page.run("document.querySelector('.row.marked').click()")
        page.run("document.querySelector('.frame').style.display = 'block'; document.querySelector('.side').remove()")
        page.run("scrollTo(0, document.getElementById('L61').getBoundingClientRect().top + scrollY)")
        page.picture(PICTURES / "report-source.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
