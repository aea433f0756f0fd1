// The source, with the state of each line: in a graph, replayed, traced, native, fallback or break.

const STATES = {
  program: ["in a graph", "its operations are in a program"],
  replayed: ["replayed", "its operations are called one by one, as the graph is small"],
  traced: ["traced", "followed while translating: no tensor work, or none that is needed"],
  native: ["native", "CPython runs it: no tensor work"],
  fallback: ["fallback", "the function is left to CPython"],
  break: ["break", "the graph ends here"],
};

function sourcePage(parts) {
  const index = Number(parts[0] || 0);
  const file = DATA.files[index];
  if (!file)
    return [
      h("h2", null, "Source"),
      h("p", null, DATA.details ? "No source was seen." : "Source lines were not collected."),
      note(),
    ];
  const choose = (event) => {
    location.hash = `source/${event.target.value}`;
  };
  const options = DATA.files.map((one, at) =>
    h(
      "option",
      { value: at, selected: at === index },
      `${one.library ? "library: " : ""}${baseName(one.name)} (${count(one.lines.length, "line")} met)`,
    ),
  );
  return [
    h("h2", null, "Source"),
    note(),
    h(
      "div",
      { class: "tools" },
      h("label", null, "File ", h("select", { onchange: choose }, options)),
      soft(file.name),
    ),
    legend(),
    sourceCode(file, Number(parts[1] || 0)),
  ];
}

// The line that the view opens at if the address names none: the first break, else the first line of a function.
function firstLine(file) {
  const broken = file.lines.filter((line) => line.status === "break").map((line) => line.line);
  const functions = translations.flatMap((translation) => translation.functions);
  const begins = functions.filter((one) => one.file === file.name).map((one) => one.line);
  return Math.min(...(broken.length > 0 ? broken : begins));
}

function showRow(row) {
  const { top, bottom } = row.getBoundingClientRect();
  if (top < 0 || bottom > innerHeight) row.scrollIntoView({ block: "center" });
}

function legend() {
  return h(
    "p",
    null,
    Object.entries(STATES).map(([name, [word, meaning]]) =>
      h("span", { class: "key" }, h("span", { class: `tag ${name}` }, word), soft(meaning)),
    ),
    h(
      "span",
      { class: "key" },
      soft(
        DATA.details
          ? "no colour: the tracer has not come there"
          : "no colour: not known, as only breaks and fallbacks were collected",
      ),
    ),
  );
}

function sourceCode(file, marked) {
  const known = new Map(file.lines.map((line) => [line.line, line]));
  const rows = [];
  const first = marked ? 0 : firstLine(file);
  let last = null;
  for (const part of file.source) {
    if (last !== null) rows.push(h("div", { class: "gap" }, "⋯"));
    part.lines.forEach((text, at) => {
      const row = sourceRow(file, part.line + at, text, known.get(part.line + at), marked);
      if (part.line + at === first) requestAnimationFrame(() => showRow(row));
      rows.push(row);
    });
    last = part;
  }
  const head = h(
    "div",
    { class: "row head", "aria-hidden": "true" },
    ["line", "state", "operations", "source"].map((name) => h("span", null, name)),
  );
  return h(
    "div",
    { class: "code mono", role: "region", "aria-label": `Source of ${file.name}`, tabindex: 0 },
    head,
    rows,
  );
}

function sourceRow(file, number, text, line, marked) {
  const cells = [
    h("span", null, number),
    h("span", { class: "state" }, line ? STATES[line.status][0] : ""),
    h(
      "span",
      { class: "how", title: line && line.statements ? "operations of this line, in all graphs together" : null },
      line && line.statements ? line.statements.toLocaleString("en") : "",
    ),
    h("span", { class: "text" }, text),
  ];
  if (!line) return h("div", { class: "row" }, cells);
  const row = h(
    "div",
    {
      class: `row known ${line.status}${number === marked ? " marked" : ""}`,
      id: `L${number}`,
      role: "button",
      "aria-expanded": "false",
      title: STATES[line.status][1],
      ...pressable(() => toggleLine(row, file, line)),
    },
    cells,
  );
  if (number === marked) {
    queueMicrotask(() => toggleLine(row, file, line));
    requestAnimationFrame(() => row.scrollIntoView({ block: "center" }));
  }
  return row;
}

function toggleLine(row, file, line) {
  const open = row.getAttribute("aria-expanded") === "true";
  row.setAttribute("aria-expanded", String(!open));
  if (open) row.nextSibling.remove();
  else row.after(lineDetails(file, line));
}

function lineDetails(file, line) {
  const all = line.translations.map((id) => byId.get(id)).filter(Boolean);
  const here = brokenPlaces().filter((place) =>
    place.reason.stack.some((at) => at.file === file.name && at.line === line.line),
  );
  return h(
    "div",
    { class: "more" },
    h(
      "p",
      null,
      `Line ${line.line}: ${STATES[line.status][1]}`,
      line.statements ? `; ${count(line.statements, "statement")}, those of functions called here included` : "",
      ".",
    ),
    here.map(breakCard),
    h(
      "ul",
      null,
      all
        .slice(0, 20)
        .map((translation) =>
          h(
            "li",
            null,
            translationLink(translation),
            translation.graph_count > 0 && [
              ": ",
              link(page(translation, "graph"), "graph"),
              ", ",
              link(`${page(translation, "statements")}/${line.line}`, "statements of this line"),
            ],
            ", ",
            link(page(translation, "guards"), "guards"),
            ", ",
            link(page(translation, "code"), "code"),
          ),
        ),
    ),
  );
}
