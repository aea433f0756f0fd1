"""Draws the pictures of how-it-works.md: python docs/pictures/draw.py. Each is boxes with lines of text, and arrows."""

from pathlib import Path
from xml.sax.saxutils import escape

STYLE = """<style>
text{font:14px system-ui,sans-serif;fill:#1b2733}.t{font-weight:600}.s{font-size:12px;fill:#4a5a6a}
.core{fill:#dbeafe}.user{fill:#fef3c7}.paddle{fill:#dcfce7}.cpython{fill:#f3e8ff}.box{stroke:#475569;stroke-width:1.2}
.arrow{stroke:#475569;stroke-width:1.5;fill:none;marker-end:url(#a)}.back{fill:#fff}
</style><defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 8 4 0 8z" fill="#475569"/></marker></defs>"""


class Picture:
    def __init__(self, name, width, height, text):
        self.name, self.width, self.height = name, width, height
        self.parts = [f"<title>{escape(text)}</title>", STYLE, f'<rect class="back" width="{width}" height="{height}"/>']

    def box(self, x, y, w, h, kind, title, *lines):
        self.parts.append(f'<rect class="box {kind}" x="{x}" y="{y}" width="{w}" height="{h}" rx="7"/>')
        top = y + h / 2 - 8 * len(lines) + 5
        self.parts.append(f'<text class="t" x="{x + w / 2}" y="{top:g}" text-anchor="middle">{escape(title)}</text>')
        for index, line in enumerate(lines):
            self.parts.append(f'<text class="s" x="{x + w / 2}" y="{top + 17 * (index + 1):g}" text-anchor="middle">{escape(line)}</text>')

    def arrow(self, *points, label="", at=None):
        self.parts.append(f'<path class="arrow" d="M{" L".join(f"{x} {y}" for x, y in points)}"/>')
        if label:
            x, y = at or ((points[0][0] + points[-1][0]) / 2 + 6, (points[0][1] + points[-1][1]) / 2 - 5)
            self.parts.append(f'<text class="s" x="{x}" y="{y}">{escape(label)}</text>')

    def save(self):
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img">'
        (Path(__file__).parent / f"{self.name}.svg").write_text("\n".join([head, *self.parts, "</svg>"]) + "\n")


def call():
    p = Picture("call", 760, 400, "A call: the frame hook asks the cache; on a miss the frame is simulated and new code is made.")
    p.box(20, 20, 170, 60, "user", "a call of fast(x)", "CPython makes a frame")
    p.box(250, 20, 170, 60, "cpython", "frame hook", "PEP 523")
    p.box(490, 20, 240, 60, "core", "cache of the code object", "entries: guards and new code")
    p.box(490, 130, 240, 60, "core", "simulate", "one handler per opcode, on variables")
    p.box(490, 240, 240, 60, "core", "finished trace", "graph, guards, side effects")
    p.box(250, 240, 170, 60, "paddle", "compile the graph", "a static program")
    p.box(250, 130, 170, 60, "core", "write new code", "load, call graph, restore")
    p.box(20, 130, 170, 60, "user", "new code runs", "in the frame's place")
    p.box(20, 320, 170, 60, "user", "original code", "runs in CPython")
    p.arrow((190, 50), (248, 50))
    p.arrow((420, 50), (488, 50))
    p.arrow((610, 80), (610, 128), label="no guards hold (miss)")
    p.arrow((610, 190), (610, 238))
    p.arrow((490, 270), (422, 270))
    p.arrow((335, 240), (335, 192))
    p.arrow((250, 160), (192, 160))
    p.arrow((520, 80), (520, 105), (105, 105), (105, 128), label="guards of an entry hold (hit)", at=(200, 100))
    p.arrow((690, 300), (690, 350), (192, 350), label="nothing to compile, or it cannot be followed: fallback", at=(250, 343))
    p.save()


def broken():
    p = Picture("graph-break", 760, 300, "A graph break: a graph before it, the instruction in CPython, a resume function behind it.")
    p.box(20, 30, 200, 230, "user", "the function", "total = x.sum()", "", "if total > 0:", "    x = x / total", "", "return x + 1")
    p.box(290, 20, 200, 60, "paddle", "graph 1", "x.sum(), total > 0")
    p.box(290, 115, 200, 60, "cpython", "the branch, in CPython", "asks for the tensor's truth")
    p.box(560, 60, 180, 60, "core", "resume function A", "x / total; x + 1: graph 2")
    p.box(560, 180, 180, 60, "core", "resume function B", "x + 1: graph 3")
    p.arrow((220, 50), (288, 50))
    p.arrow((390, 80), (390, 113), label="live values")
    p.arrow((490, 138), (558, 98), label="true", at=(500, 112))
    p.arrow((490, 152), (558, 208), label="false", at=(500, 196))
    p.save()


def parts():
    p = Picture("parts", 760, 360, "The parts: CPython below the hook, the executor with its registries, the backend that asks Paddle.")
    p.box(20, 20, 720, 56, "user", "the program", "functions, layers, paddle.jit.to_static")
    p.box(20, 110, 160, 210, "cpython", "sot-core: cpython", "frame hook", "struct layouts, checked", "snapshots of memory", "the only unsafe code")
    p.box(210, 110, 258, 95, "core", "sot-core: executor", "bytecode, stack, blocks", "trackers, guards, side effects", "code generation, resume functions")
    p.box(210, 225, 136, 95, "core", "opcode crates", "py38: 3.8 to 3.10", "py312: 3.11 to 3.13")
    p.box(352, 225, 116, 95, "core", "sot-variables", "kinds of values", "builtins")
    p.box(490, 110, 250, 95, "core", "sot-core: graph", "statements (StatementIR)", "trait Backend: what a tensor is")
    p.box(490, 225, 250, 95, "paddle", "sot-paddle: backend", "what Paddle's calls mean", "shapes by Paddle's own inference", "static programs, replay")
    p.arrow((100, 76), (100, 108))
    p.arrow((180, 157), (208, 157))
    p.arrow((278, 225), (278, 207))
    p.arrow((410, 225), (410, 207))
    p.arrow((468, 157), (488, 157))
    p.arrow((615, 225), (615, 207))
    p.save()


def guards():
    p = Picture("guards", 760, 250, "A guard: where a value comes from (trackers), and what is assumed of it.")
    p.box(20, 95, 150, 56, "user", "the frame", "locals, globals, cells")
    p.box(212, 25, 178, 50, "core", "frame.f_locals['x']", "tracker: local")
    p.box(212, 100, 178, 50, "core", "frame.f_locals['net']", "tracker: local")
    p.box(212, 175, 178, 50, "core", "f_globals['scale']", "tracker: global")
    p.box(430, 100, 130, 50, "core", "net.weight", "tracker: attribute")
    p.box(590, 25, 160, 50, "paddle", "guard", "shape, dtype, gradient")
    p.box(590, 100, 160, 50, "paddle", "guard", "is this parameter")
    p.box(590, 175, 160, 50, "paddle", "guard", "== 2.0")
    for y in (50, 125, 200):
        p.arrow((170, 123), (210, y))
    p.arrow((390, 50), (588, 50))
    p.arrow((390, 125), (428, 125))
    p.arrow((560, 125), (588, 125))
    p.arrow((390, 200), (588, 200))
    p.save()


for draw in (call, broken, parts, guards):
    draw()
