// A graph as a picture: boxes that open, and lines with shapes and types between them.

const PAD = 16;
const HEAD = 34;
const textWidth = (text, size) => text.length * (size || 7.1);

class Picture {
  constructor(translation, graph) {
    this.translation = translation;
    this.graph = graph;
    this.values = new Map(graph.values.map((value) => [value.name, value]));
    this.tree = statementTree(translation, graph);
    this.open = new Set(["root"]);
    this.detail = h(
      "div",
      { class: "card", "aria-live": "polite" },
      soft("Choose a box to see its statement, line and shapes. Boxes with + open."),
    );
    this.holder = h("div", { class: "picture", role: "group", "aria-label": `Graph ${graph.name}` });
    this.openWhileSmall();
    this.draw();
  }

  // At first, boxes are open as long as the picture stays small.
  openWhileSmall() {
    let shown = this.tree.children.length;
    let level = this.tree.children;
    while (level.length) {
      const groups = level.filter((node) => node.kind === "group");
      const inside = groups.flatMap((group) => group.children);
      if (!groups.length || shown + inside.length > 24) return;
      groups.forEach((group) => this.open.add(group.key));
      shown += inside.length;
      level = inside;
    }
  }

  setAll(open) {
    const visit = (node) => {
      if (node.kind !== "group") return;
      if (open) this.open.add(node.key);
      node.children.forEach(visit);
    };
    this.open = new Set(["root"]);
    visit(this.tree);
    this.draw();
  }

  element() {
    const button = (text, action) => h("button", { type: "button", onclick: action }, text);
    const small = this.graph.statements.length <= 400;
    return h(
      "div",
      null,
      h(
        "div",
        { class: "tools" },
        small && button("Open all boxes", () => this.setAll(true)),
        button("Close all boxes", () => this.setAll(false)),
        soft(
          count(this.graph.statements.length, "statement"),
          `, ${count(this.graph.inputs.length, "input")}, ${count(this.graph.outputs.length, "output")}`,
        ),
        this.graph.replayed && h("span", { class: "tag replayed" }, `called one by one: ${this.graph.replayed}`),
      ),
      h("div", { class: "beside" }, inTheMiddle(this.holder), this.detail),
    );
  }

  draw(focus) {
    const inputs = this.graph.inputs
      .filter((name) => this.tree.uses.has(name))
      .map((name) => this.valueNode(name, "in"));
    const outputs = this.graph.outputs.map((name, at) => this.valueNode(name, "out", at));
    const drawn = this.drawLevel([...inputs, ...this.tree.children, ...outputs]);
    const [width, height] = [drawn.width + 2 * PAD, drawn.height + 2 * PAD];
    this.holder.replaceChildren(
      svg(
        "svg",
        { width, height, viewBox: `0 0 ${width} ${height}` },
        svg(
          "defs",
          null,
          svg(
            "marker",
            { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
            svg("path", { d: "M0 0L8 4L0 8z" }),
          ),
        ),
        svg("g", { transform: `translate(${PAD} ${PAD})` }, drawn.parts),
      ),
    );
    if (focus) this.holder.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
  }

  valueNode(name, side, at) {
    const given = side === "in";
    const from = this.values.get(name)?.from;
    const shown = from && from.length < 60 ? shortened(from) : name;
    return {
      kind: "value",
      key: `${side} ${name} ${at || 0}`,
      name: given ? `input ${shown}` : `output ${name}`,
      value: name,
      uses: new Set(given ? [] : [name]),
      gives: new Set(given ? [name] : []),
    };
  }

  // Draws nodes that stand beside each other, and returns the parts and their size.
  drawLevel(nodes) {
    for (const node of nodes) this.size(node);
    const makers = new Map();
    const edges = new Map();
    nodes.forEach((node, index) => {
      for (const name of node.uses) {
        if (!makers.has(name) || makers.get(name) === index) continue;
        const key = `${makers.get(name)} ${index}`;
        if (!edges.has(key)) edges.set(key, { ends: [makers.get(name), index], names: [] });
        edges.get(key).names.push(name);
      }
      for (const name of node.gives) makers.set(name, index);
    });
    const all = [...edges.values()];
    const { width, height, ways } = layered(
      nodes,
      all.map((edge) => edge.ends),
    );
    const told = new Set();
    const lines = all.map((edge, at) => this.edge(edge, ways[at], told));
    return { width: width + 90, height, parts: [lines, nodes.map((node) => this.box(node))] };
  }

  // The points where values from outside enter an open box.
  ports(group) {
    const names = [...group.uses].filter((name) => this.values.get(name)?.role !== "parameter");
    return names.map((name) => ({
      kind: "port",
      key: `${group.key} ${name}`,
      value: name,
      uses: new Set(),
      gives: new Set([name]),
    }));
  }

  size(node) {
    if (node.kind === "port") {
      node.width = node.height = 8;
    } else if (this.isOpen(node)) {
      node.drawn = this.drawLevel([...this.ports(node), ...node.children]);
      node.width = Math.max(node.drawn.width - 60, textWidth(this.groupTitle(node))) + 2 * PAD;
      node.height = node.drawn.height + HEAD + PAD;
    } else {
      node.width = Math.max(
        70,
        textWidth(node.kind === "group" ? this.groupTitle(node) : node.name) + 24,
        textWidth(this.subtitle(node), 6) + 24,
      );
      node.height = 40;
    }
  }

  isOpen(node) {
    return node.kind === "group" && this.open.has(node.key);
  }

  groupTitle(node) {
    return `${this.isOpen(node) ? "−" : "+"} ${node.name}${node.of ? `: ${node.of}` : ""}`;
  }

  subtitle(node) {
    if (node.kind === "group") return count(node.size, "statement");
    if (node.kind === "value") return shapeText(this.values.get(node.value));
    const weights = node.statement.uses.filter((name) => this.values.get(name)?.role === "parameter");
    return weights.length ? count(weights.length, "parameter") : "";
  }

  box(node) {
    if (node.kind === "port") {
      return svg(
        "circle",
        { class: "port", cx: node.x + 4, cy: node.y + 4, r: 4 },
        svg("title", null, `${node.value}: ${shapeText(this.values.get(node.value))}`),
      );
    }
    const sub = this.subtitle(node);
    const isOpen = this.isOpen(node);
    const kinds = {
      group: isOpen ? "group open" : "group",
      step: this.graph.replayed ? "step one" : "step",
      value: "value",
    };
    // The label has the texts that are shown, for users who name a box to open it.
    const [sign, name] =
      node.kind === "group" ? [this.groupTitle(node).slice(0, 2), this.groupTitle(node).slice(2)] : ["", node.name];
    const label = [name, isOpen ? node.full : "", sub].filter(Boolean).join(" ");
    const title = [sign && svg("tspan", { "aria-hidden": "true" }, sign), name];
    const texts = isOpen
      ? [
          svg("text", { x: 12, y: 21 }, title),
          " ",
          svg("text", { class: "small", x: node.width - 10, y: 21, "text-anchor": "end" }, node.full || ""),
        ]
      : [
          svg("text", { x: node.width / 2, y: sub ? 17 : 25, "text-anchor": "middle" }, title),
          " ",
          sub && svg("text", { class: "small", x: node.width / 2, y: 32, "text-anchor": "middle" }, sub),
        ];
    const place = { class: `node ${kinds[node.kind]}`, transform: `translate(${node.x} ${node.y})` };
    const outline = svg("rect", { width: node.width, height: node.height, rx: node.kind === "value" ? 19 : 7 });
    const button = {
      "data-key": node.key,
      role: "button",
      "aria-label": label,
      "aria-expanded": node.kind === "group" ? String(isOpen) : null,
      ...pressable((event) => {
        event.stopPropagation();
        this.press(node);
      }),
    };
    if (!isOpen) return svg("g", { ...place, ...button }, outline, texts);
    // The head of an open box closes it; the boxes in it are buttons of their own.
    return svg(
      "g",
      { ...place, role: "group", "aria-label": label },
      outline,
      svg("g", { class: "head", ...button }, svg("rect", { width: node.width, height: HEAD, rx: 7 }), texts),
      svg("g", { transform: `translate(${PAD} ${HEAD})` }, node.drawn.parts),
    );
  }

  press(node) {
    if (node.kind === "group") {
      if (!this.open.delete(node.key)) this.open.add(node.key);
      this.draw(node.key);
      this.detail.replaceChildren(
        h("h3", null, this.groupTitle(node).slice(2)),
        facts([
          ["found as", node.full && code(node.full)],
          ["class", node.of],
          ["statements", node.size],
        ]),
      );
    } else {
      this.holder.querySelectorAll("[aria-pressed]").forEach((other) => other.removeAttribute("aria-pressed"));
      this.holder.querySelector(`[data-key="${CSS.escape(node.key)}"]`).setAttribute("aria-pressed", "true");
      this.detail.replaceChildren(...(node.kind === "step" ? this.stepDetail(node) : this.valueDetail(node)));
    }
  }

  stepDetail({ index, statement, name }) {
    const place = ownPlace(this.translation, statement.place);
    const described = (names) =>
      names.map((used) =>
        h(
          "div",
          null,
          code(used),
          " ",
          shapeText(this.values.get(used)),
          " ",
          soft(this.values.get(used)?.role || "", " ", shortened(this.values.get(used)?.from || "")),
        ),
      );
    return [
      h("h3", null, name),
      h("pre", null, statement.text),
      facts([
        ["line", place && lineLink(place.file, place.line)],
        ["takes", described(statement.uses)],
        ["gives", described(statement.outputs)],
        ["object", statement.object && code(statement.object)],
        ["statement", link(`${page(this.translation, "statements")}/n${index}`, `number ${index}`)],
      ]),
    ];
  }

  valueDetail(node) {
    const value = this.values.get(node.value);
    return [
      h("h3", null, node.name),
      facts([
        ["shape and type", shapeText(value)],
        ["from", value?.from && code(shortened(value.from))],
      ]),
    ];
  }

  edge({ ends, names }, way, told) {
    const points = way.map((point, at) => ({ x: point.x, top: point.y, bottom: point.y + point.height, at }));
    let d = `M${points[0].x} ${points[0].bottom}`;
    for (let at = 1; at < points.length; at += 1) {
      const [from, to] = [points[at - 1], points[at]];
      const middleY = (from.bottom + to.top) / 2;
      d += `C${from.x} ${middleY} ${to.x} ${middleY} ${to.x} ${to.top}`;
      if (at + 1 < points.length) d += `L${to.x} ${to.bottom}`;
    }
    const text = names.length === 1 ? shapeText(this.values.get(names[0])) : `${names.length} values`;
    const shown = !told.has(`${ends[0]} ${text}`);
    told.add(`${ends[0]} ${text}`);
    const tip = points[1];
    return [
      svg(
        "path",
        { class: "edge", d, "marker-end": "url(#tip)" },
        svg("title", null, names.map((name) => `${name}: ${shapeText(this.values.get(name))}`).join("\n")),
      ),
      shown &&
        svg(
          "text",
          { class: "label", x: (points[0].x + tip.x) / 2 + 5, y: (points[0].bottom + tip.top) / 2 + 3 },
          text,
        ),
    ];
  }
}
