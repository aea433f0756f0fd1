// One translation: its graphs as pictures and as statements, its guards, its trackers, and its code.

const TABS = [
  ["graph", "Graph"],
  ["statements", "Statements"],
  ["guards", "Guards"],
  ["trackers", "Trackers"],
  ["code", "Code"],
];

function translationPage(parts) {
  const translation = byId.get(Number(parts[0]));
  if (!translation) return [h("h2", null, "There is no such translation")];
  const tab = parts[1] || (translation.graph_count ? "graph" : "guards");
  const views = { graph: graphTab, statements: statementsTab, guards: guardsTab, trackers: trackersTab, code: codeTab };
  return [
    h("h2", null, title(translation), soft(` #${translation.id}`)),
    summary(translation),
    translation.reason &&
      (isBreak(translation) || isFallback(translation)
        ? h(
            "details",
            { class: "reason" },
            h(
              "summary",
              null,
              reasonTag(translation),
              " ",
              translation.reason.text,
              " ",
              soft(`at ${baseName(translation.reason.stack[0].file)}:${translation.reason.stack[0].line}`),
            ),
            breakCard({ reason: translation.reason, translations: [translation], hits: translation.hits || 0 }),
          )
        : h("p", { class: "card" }, translation.reason.text)),
    translation.code &&
      h(
        "nav",
        { class: "tabs", "aria-label": "Views of this translation" },
        TABS.map(([name, text]) =>
          h("a", { href: `#${page(translation, name)}`, "aria-current": name === tab ? "page" : null }, text),
        ),
      ),
    translation.code ? (views[tab] || graphTab)(translation, parts[2]) : note(),
  ];
}

function summary(translation) {
  const next = resumesOf(translation);
  const before = resumedBy(translation);
  const later = compiledLater(translation);
  const phases = [
    ...Object.entries(translation.seconds),
    ...(later ? [["compile after the first runs", later]] : []),
    ...(thrownAway(translation) ? [["attempts thrown away", thrownAway(translation)]] : []),
  ]
    .map(([name, taken]) => `${name} ${time(taken)}`)
    .join(", ");
  return facts([
    ["function", lineLink(translation.file, translation.line)],
    ["outcome", outcome(translation)],
    ["hits", translation.hits === null ? "" : translation.hits.toLocaleString("en")],
    ["did not fit", timesFailed(translation) ? count(timesFailed(translation), "call") : ""],
    [
      "a call takes",
      callTime(translation) === null
        ? ""
        : `${microseconds(callTime(translation))} with what it calls, on average of ` +
          `${count(translation.times.calls, "call")}; its guards ${microseconds(translation.times.guards)}`,
    ],
    ["repeated layers", repeatedLayers(translation).length ? repeatedTags(translation) : ""],
    ["translating took", `${time(spentOn(translation))} (${phases})`],
    ["attempts thrown away", abandonedAttempts(translation)],
    [
      "guards",
      `${translation.guard_count.toLocaleString("en")}, compiled to ${count(translation.guard_steps, "step")}`,
    ],
    [
      "translated again because",
      translation.recompiled.length
        ? translation.recompiled.map((failed) =>
            h(
              "div",
              null,
              link(`t/${failed.translation}/guards`, `#${failed.translation}`),
              ": ",
              code(shortened(failed.guard)),
              change(failed),
            ),
          )
        : "",
    ],
    [
      "registrations",
      translation.registrations.length ? translation.registrations.map((one) => h("div", null, one)) : "",
    ],
    ["goes on behind", before.length ? before.map((one) => [translationLink(one), " "]) : ""],
    ["goes on in", next.length ? next.map((one) => [translationLink(one), " "]) : ""],
  ]);
}

// The attempts that were thrown away, with the reason and the line of each.
function abandonedAttempts(translation) {
  const abandoned = translation.attempts.filter((attempt) => !attempt.stood);
  return abandoned.length
    ? abandoned.map((attempt) =>
        h("div", null, time(attempt.seconds), attempt.abandoned && [": ", whyAbandoned(attempt.abandoned)]),
      )
    : "";
}

function whyAbandoned({ text, assumes, stack }) {
  const at = ownEntry(stack);
  const sizes = assumes.slice(0, 4).map((size, index) => [index ? ", " : "", code(shortened(size))]);
  return [
    at && [lineLink(at.file, at.line), ": "],
    text,
    sizes.length > 0 && [
      ". So it is assumed: ",
      sizes,
      assumes.length > sizes.length && ` and ${assumes.length - sizes.length} more`,
    ],
  ];
}

function graphTab(translation) {
  if (!translation.graphs.length) return h("p", null, "No graph was made.");
  return translation.graphs.map((graph) => [h("h3", null, graph.name), new Picture(translation, graph).element()]);
}

function statementsTab(translation, marked) {
  if (!translation.graphs.length) return h("p", null, "No graph was made.");
  return translation.graphs.map((graph) => {
    const values = new Map(graph.values.map((value) => [value.name, value]));
    const list = h("div", { class: "statements mono", role: "list", "aria-label": "Statements", tabindex: 0 });
    const rows = graph.statements.map((statement, index) => ({
      statement,
      index,
      place: ownPlace(translation, statement.place),
    }));
    const heading = h(
      "div",
      { class: "heading", "aria-hidden": "true" },
      ["number", "line", "result", "statement"].map((name) => h("span", null, name)),
    );
    const isMarked = ({ index, place }) => marked === `n${index}` || (place && marked === String(place.line));
    const show = (filter) => {
      const found = rows.filter((row) => !filter || row.statement.text.includes(filter));
      const blocks = [];
      for (let at = 0; at < found.length; at += 200) {
        blocks.push(
          h(
            "div",
            { class: "block" },
            found
              .slice(at, at + 200)
              .map(({ statement, index, place }) =>
                h(
                  "div",
                  { class: marked && isMarked({ index, place }) ? "row marked" : "row", role: "listitem" },
                  h("span", null, index),
                  h("span", null, place && lineLink(place.file, place.line)),
                  soft(shapesText(statement.outputs.map((name) => shapeText(values.get(name))))),
                  h("span", null, statement.text),
                ),
              ),
          ),
        );
      }
      list.replaceChildren(heading, ...blocks);
    };
    list.style.setProperty(
      "--longest",
      `${Math.min(
        160,
        rows.reduce((most, row) => Math.max(most, row.statement.text.length), 0),
      )}ch`,
    );
    show("");
    requestAnimationFrame(() => list.querySelector(".marked")?.scrollIntoView({ block: "center" }));
    return [
      h("h3", null, `StatementIR: ${graph.name}`),
      h(
        "p",
        null,
        "inputs: ",
        graph.inputs.map((name) => [code(name), " ", soft(shapeText(values.get(name))), " "]),
        h("br"),
        "outputs: ",
        graph.outputs.map((name) => [code(name), " ", soft(shapeText(values.get(name))), " "]),
      ),
      h(
        "div",
        { class: "tools" },
        h("label", null, "Filter ", h("input", { type: "search", oninput: (event) => show(event.target.value) })),
        soft(count(rows.length, "statement")),
      ),
      list,
      graph.folded &&
        h(
          "details",
          null,
          h("summary", null, "With the calls of functions that are translated themselves"),
          h("pre", null, graph.folded),
        ),
    ];
  });
}

function shapesText(shapes) {
  const same = shapes.length > 1 && shapes.every((shape) => shape === shapes[0]);
  return same ? `${shapes.length} times ${shapes[0]}` : shapes.join(", ");
}

// Guards as a tree: below each value are the guards on it, and the values that are found in it.
function guardsTab(translation) {
  const failed = failuresOf(translation);
  const times = new Map(failed.map((failure) => [failure.guard, failure]));
  const { trackers } = translation;
  const guardsOf = new Map();
  translation.guards.forEach((guard) => {
    const key = guard.tracker === null ? -1 : guard.tracker;
    guardsOf.set(key, [...(guardsOf.get(key) || []), guard]);
  });
  const children = new Map();
  trackers.forEach((tracker, index) => {
    const key = tracker.parents.length ? tracker.parents[0] : -1;
    children.set(key, [...(children.get(key) || []), index]);
  });
  // The work of a branch: values that are fetched, and guards that are tested.
  const inside = trackers.map(() => 0);
  const steps = trackers.map(() => 1);
  for (let index = trackers.length - 1; index >= 0; index -= 1) {
    const here = (guardsOf.get(index) || []).length;
    inside[index] += here;
    steps[index] += here;
    if (trackers[index].parents.length) {
      inside[trackers[index].parents[0]] += inside[index];
      steps[trackers[index].parents[0]] += steps[index];
    }
  }
  const allSteps = trackers.length + translation.guards.length;
  const measured = (share) => (translation.times ? `, ${about(share * translation.times.guards)}` : "");
  const shareOf = (share) =>
    h("span", { class: "share", "aria-hidden": "true" }, h("i", { style: `width:${100 * share}%` }));
  const cost = (index) => {
    const share = steps[index] / allSteps;
    return [shareOf(share), soft(` ${count(inside[index], "guard")}${measured(share)}`)];
  };
  const guardItem = (guard) => {
    const failure = times.get(guard.text);
    return h(
      "li",
      { class: failure ? "guard mono failed" : "guard mono" },
      shortened(guard.text),
      failure && [h("strong", null, ` failed ${count(failure.times, "time")}`), change(failure)],
    );
  };
  const branch = (index) => {
    const tracker = trackers[index];
    const list = h("ul");
    const item = h(
      "details",
      null,
      h(
        "summary",
        null,
        h("span", { class: "mono" }, tracker.step),
        " ",
        cost(index),
        " ",
        tracker.symbol && h("span", { class: "tag program" }, tracker.symbol),
      ),
      list,
    );
    item.addEventListener("toggle", () => {
      if (item.open && !list.firstChild) fill(list, null, [level(index)]);
    });
    return h("li", null, item);
  };
  const level = (index) => [(guardsOf.get(index) || []).map(guardItem), (children.get(index) || []).map(branch)];
  // One branch for all functions and classes that the tracer knows without a path from the frame.
  const top = () => {
    const isKnown = (index) => trackers[index].step.startsWith("<") && !(children.get(index) || []).length;
    const roots = children.get(-1) || [];
    const known = roots.filter(isKnown);
    if (known.length < 4) return level(-1);
    const guards = known.flatMap((index) => guardsOf.get(index) || []);
    const share = sum(known.map((index) => steps[index])) / allSteps;
    const heading = h(
      "summary",
      null,
      "known functions and classes ",
      shareOf(share),
      soft(` ${count(guards.length, "guard")}${measured(share)}`),
    );
    return [
      (guardsOf.get(-1) || []).map(guardItem),
      roots.filter((index) => !isKnown(index)).map(branch),
      h("li", null, h("details", { class: "known" }, heading, h("ul", null, guards.map(guardItem)))),
    ];
  };
  const tree = h("div", { class: "tree" });
  const show = (filter) => {
    const found = translation.guards.filter((guard) => shortened(guard.text).includes(filter));
    tree.replaceChildren(filter ? h("ul", null, found.slice(0, 500).map(guardItem)) : h("ul", null, top()));
    if (!filter)
      tree.querySelectorAll(":scope > ul > li > details:not(.known)").forEach((item) => {
        item.open = true;
      });
  };
  show("");
  return [
    failed.length > 0 && [
      h("h3", null, "Guards that did not hold for some call"),
      h(
        "ul",
        { class: "failures" },
        failed.map((failure) =>
          h("li", null, code(shortened(failure.guard)), ` failed ${count(failure.times, "time")}:`, change(failure)),
        ),
      ),
    ],
    h("h3", null, `${count(translation.guards.length, "guard")}, by the value they are about`),
    h(
      "p",
      { class: "soft" },
      "A hit tests them natively, in ",
      count(translation.guard_steps, "step"),
      translation.times && ` and ${microseconds(translation.times.guards)}`,
      "; while the memory they rest on stays the same, it is only compared. The bars show the share of each branch: " +
        "values fetched and guards tested.",
    ),
    h(
      "div",
      { class: "tools" },
      h("label", null, "Filter ", h("input", { type: "search", oninput: (event) => show(event.target.value) })),
    ),
    tree,
  ];
}

const MOST_TRACKERS = 50;

// Draws the paths from the frame to the values. If there are very many values, only the most important ones are drawn.
function trackersTab(translation) {
  const { trackers } = translation;
  const wanted = new Set();
  const want = (index) => {
    if (!wanted.has(index)) {
      wanted.add(index);
      trackers[index].parents.forEach(want);
    }
  };
  const failed = new Set(failuresOf(translation).map((failure) => failure.guard));
  const about = trackers.map(() => 0);
  const failing = new Set();
  translation.guards.forEach((guard) => {
    if (guard.tracker === null) return;
    about[guard.tracker] += failed.has(guard.text) ? 1e6 : 1;
    if (failed.has(guard.text)) failing.add(trackers[guard.tracker]);
  });
  const weight = (index) => (trackers[index].symbol ? 1e7 : 0) + about[index];
  const byWeight = trackers.map((_, index) => index).sort((a, b) => weight(b) - weight(a) || a - b);
  byWeight.forEach((index) => wanted.size < MOST_TRACKERS && want(index));
  const all = wanted.size === trackers.length;
  const chosen = [...wanted].sort((a, b) => a - b);
  const position = new Map(chosen.map((index, at) => [index, at]));
  const nodes = chosen.map((index) => ({
    tracker: trackers[index],
    width: Math.max(60, textWidth(trackers[index].step) + 24),
    height: trackers[index].symbol ? 40 : 28,
  }));
  const edges = chosen.flatMap((index) =>
    trackers[index].parents.map((parent) => [position.get(parent), position.get(index)]),
  );
  if (!nodes.length) return h("p", null, "Nothing is taken from the frame.");
  const { width, height, ways } = layered(nodes, edges);
  return [
    h(
      "p",
      { class: "soft" },
      all
        ? "All values that guards look at or the graph takes, and what each is found in."
        : "The ways to the inputs of the graph, and to the values that most guards are about: " +
            `${nodes.length} of ${trackers.length}. The tree of guards has the others.`,
      trackers.some((tracker) => tracker.symbol) && " Green: an input of the graph.",
      failing.size > 0 && " Red frame: a guard on it failed.",
    ),
    inTheMiddle(
      h(
        "div",
        {
          class: "picture",
          tabindex: 0,
          role: "img",
          "aria-label": `Trackers: ${nodes.map(({ tracker }) => tracker.text).join(", ")}`,
        },
        svg(
          "svg",
          { width: width + 2 * PAD, height: height + 2 * PAD },
          svg(
            "g",
            { transform: `translate(${PAD} ${PAD})` },
            ways.map(([from, ...rest]) =>
              svg("path", {
                class: "edge",
                d: `M${from.x} ${from.y + from.height}${rest.map((to) => `L${to.x} ${to.y}`).join("")}`,
              }),
            ),
            nodes.map(({ tracker, x, y, width: wide, height: high }) =>
              svg(
                "g",
                {
                  class: `node${tracker.symbol ? " step" : ""}${failing.has(tracker) ? " failing" : ""}`,
                  transform: `translate(${x} ${y})`,
                },
                svg("title", null, tracker.text, failing.has(tracker) && ": a guard on it failed"),
                svg("rect", { width: wide, height: high, rx: 6 }),
                svg("text", { x: wide / 2, y: 18, "text-anchor": "middle" }, tracker.step),
                tracker.symbol &&
                  svg("text", { class: "small", x: wide / 2, y: 33, "text-anchor": "middle" }, tracker.symbol),
              ),
            ),
          ),
        ),
      ),
    ),
  ];
}

// A picture that is wider than its frame is scrolled to its middle, where the first boxes are.
function inTheMiddle(picture) {
  requestAnimationFrame(() => {
    picture.scrollLeft = (picture.scrollWidth - picture.clientWidth) / 2;
  });
  return picture;
}

// The callables at the end of new code that call the resume functions behind a break.
const GOES_ON = /__(resume|continue|resumed|suspended)__/;

// The load of a graph's callable in new code.
const RUNS_GRAPH = /LOAD_CONST .*\(graph\)$/;

function markLine(line) {
  document.querySelectorAll(".listing .row").forEach((row) => row.classList.toggle("same", row.dataset.line === line));
}

// Marks the next or the previous source line of a listing that has the focus.
function moveLine(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || event.target !== event.currentTarget) return;
  event.preventDefault();
  const rows = [...event.currentTarget.children];
  const lines = [...new Set(rows.map((row) => row.dataset.line))];
  const marked = lines.indexOf(rows.find((row) => row.classList.contains("same"))?.dataset.line);
  const line = lines[Math.max(0, Math.min(lines.length - 1, marked + step))];
  markLine(line);
  rows.find((row) => row.dataset.line === line).scrollIntoView({ block: "nearest" });
}

function codeTab(translation) {
  const next = resumesOf(translation);
  const side = (heading, listing) => {
    let line = "";
    return h(
      "div",
      null,
      h("h3", null, heading),
      h(
        "div",
        { class: "code mono listing", tabindex: 0, role: "region", "aria-label": heading, onkeydown: moveLine },
        listing
          .trimEnd()
          .split("\n")
          .map((text) => {
            line = (/^ *(\d+) {4}/.exec(text.slice(0, 9)) || [null, line])[1];
            return h(
              "div",
              {
                class: GOES_ON.test(text) ? "row goes" : "row",
                "data-line": line,
                onclick: (event) => markLine(event.currentTarget.dataset.line),
              },
              text,
              GOES_ON.test(text) && next.map((one) => [" ", link(page(one, "code"), `→ #${one.id}`)]),
              translation.graph_count > 0 &&
                RUNS_GRAPH.test(text) && [" ", link(page(translation, "graph"), "→ graph")],
            );
          }),
      ),
    );
  };
  const { old, new: fresh } = translation.code;
  return [
    next.length > 0 &&
      h(
        "p",
        null,
        "The new code ends in resume functions: ",
        next.map((one) => [translationLink(one, "code"), " "]),
      ),
    resumedBy(translation).length > 0 &&
      h(
        "p",
        null,
        "This code goes on behind: ",
        resumedBy(translation).map((one) => [translationLink(one, "code"), " "]),
      ),
    h(
      "p",
      { class: "soft" },
      "Choose an instruction, or press an arrow key in a listing, ",
      "to mark all instructions of a source line on both sides.",
    ),
    h(
      "div",
      { class: "sides" },
      side("Old bytecode", old),
      fresh
        ? side("New bytecode", fresh)
        : h("div", null, h("h3", null, "New bytecode"), h("p", null, "There is none: CPython runs the old code.")),
    ),
  ];
}
