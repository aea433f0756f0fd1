// Breaks, fallbacks and recompiles: what happened, where, why, and what to do.

// Breaks and fallbacks by reason and line: one source line is one finding, however many translations meet it.
function brokenPlaces() {
  const places = new Map();
  for (const translation of [...breaks, ...fallbacks]) {
    const { id, text, stack } = translation.reason;
    const key = JSON.stringify([id, text, stack[0].file, stack[0].line]);
    if (!places.has(key)) places.set(key, { reason: translation.reason, translations: [], hits: 0 });
    const place = places.get(key);
    place.translations.push(translation);
    place.hits += translation.hits || 0;
  }
  return [...places.values()].sort((a, b) => weightOf(b) - weightOf(a));
}

const hasGraph = (translation) => translation.graph_count > 0;

// Says whether there are graphs before and behind a break.
function graphsAround({ translations: all }) {
  return { before: all.some(hasGraph), behind: all.some((translation) => [...allBehind(translation)].some(hasGraph)) };
}

// Sort key: a break costs most if there are graphs before and behind it. Among equal breaks, hits decide.
function weightOf(place) {
  const { before, behind } = graphsAround(place);
  return (before && behind ? 2e9 : before || behind ? 1e9 : 0) + place.hits;
}

// True if a break is known to cost no more than one call in CPython, because it does not cut a graph in two.
function isCheap(place) {
  const { before, behind } = graphsAround(place);
  return DATA.details && isBreak(place.translations[0]) && !(before && behind);
}

// Says what a break costs, as far as that is known.
function costOf(place) {
  if (!DATA.details || !isBreak(place.translations[0])) return null;
  const { before, behind } = graphsAround(place);
  if (before && behind) return "Tensor work before it and behind it is in graphs of its own.";
  if (before) return "No graph follows in this function: the break costs next to nothing.";
  if (behind) return "No graph is before it: the tensor work is behind it.";
  return "There is no graph on either side: the break costs next to nothing.";
}

function breaksPage() {
  const places = brokenPlaces();
  return [
    h("h2", null, "Graph breaks and fallbacks"),
    places.length ? places.map(breakCard) : h("p", null, "There are none: each translated function is one graph."),
  ];
}

const KINDS = {
  DDCF: "data-dependent control flow",
  UNSPS: "unsupported simulation",
  CDBL: "on the list of what breaks the graph",
  UNIMP: "unimplemented opcode",
  FRAME: "about the frame as a whole",
};

function reasonTag(translation) {
  const kind = isBreak(translation) ? "break" : "fallback";
  return h("span", { class: `tag ${kind}` }, kind === "break" ? "graph break" : "fallback");
}

function breakCard(place) {
  const { reason, translations: all } = place;
  const first = all[0];
  const kind = isBreak(first) ? "break" : "fallback";
  const resumed = resumesOf(first);
  const cost = costOf(place);
  const cheap = isCheap(place);
  return h(
    "section",
    { class: `card ${kind}${cheap ? " cheap" : ""}`, "data-reason": reason.id },
    h("h3", null, reasonTag(first), " ", reason.text),
    h(
      "p",
      { class: "soft" },
      KINDS[reason.kind],
      " (",
      h("abbr", { title: KINDS[reason.kind] }, reason.kind),
      ") · ",
      code(reason.id),
      first.attempts.length > 0 && ` · in ${count(all.length, "translation")}`,
      kind === "break" ? `; met again in ${count(place.hits, "hit")}` : "",
    ),
    stackExcerpt(reason.stack),
    cost && h("p", { class: "cost" }, h("b", null, "What it costs:"), " ", cost),
    h(
      "p",
      { class: "remedy" },
      h("b", null, "What to do:"),
      cheap ? " nothing has to change. If there is tensor work on both sides: " : " ",
      reason.remedy,
    ),
    h(
      "ul",
      { class: "links", "aria-label": "More on this" },
      h("li", null, "line: ", lineLink(reason.stack[0].file, reason.stack[0].line)),
      reason.page && h("li", null, h("a", { href: reason.page }, "about this reason")),
      first.graph_count > 0 && h("li", null, link(page(first, "graph"), "graph before it")),
      resumed
        .slice(0, 4)
        .map((next) =>
          h("li", null, link(page(next, "graph"), `behind it, from line ${next.line}`), soft(` #${next.id}`)),
        ),
      first.code && h("li", null, link(page(first, "guards"), count(first.guard_count, "guard"))),
      first.code && h("li", null, link(page(first, "code"), "old and new code")),
      all.length > 1 &&
        h(
          "li",
          null,
          "translations: ",
          all.slice(0, 12).map((at) => [link(page(at), `#${at.id}`), " "]),
        ),
    ),
  );
}

// One card for all breaks that cost almost nothing.
function cheapCard(places) {
  return (
    places.length > 0 &&
    h(
      "section",
      { class: "card cheap" },
      h(
        "h3",
        null,
        reasonTag(places[0].translations[0]),
        ` ${count(places.length, "line ends", "lines end")} a graph at almost no cost`,
      ),
      h(
        "p",
        null,
        "There is no tensor work before or none behind each of them, so no graph is cut in two. Nothing has to change.",
      ),
      h(
        "ul",
        null,
        places
          .slice(0, 10)
          .map(({ reason }) => h("li", null, lineLink(reason.stack[0].file, reason.stack[0].line), ": ", reason.text)),
      ),
      h(
        "ul",
        { class: "links" },
        h("li", null, link("breaks", "all breaks and fallbacks, with graphs, guards and code")),
      ),
    )
  );
}

// The stack, outermost call first, each with its source line and the expression marked.
function stackExcerpt(stack) {
  return h(
    "div",
    { class: "excerpt mono" },
    [...stack].reverse().map((at) => {
      const source = sourceLine(at.file, at.line);
      const text = source === null ? "" : source.trim();
      const indent = source === null ? 0 : source.length - source.trimStart().length;
      const [start, end] = at.columns ? [at.columns[0] - indent, at.columns[1] - indent] : [0, text.length];
      const shown =
        text &&
        (start >= 0 && end > start
          ? [text.slice(0, start), h("mark", null, text.slice(start, end)), text.slice(end)]
          : text);
      return [
        h("span", { class: "at soft" }, lineLink(at.file, at.line), ` in ${at.function}`),
        shown && h("pre", null, "    ", shown),
      ];
    }),
  );
}

// Returns the text of the value that a guard tests.
function subjectOf(guard) {
  const [, subject] = /^is_tensor_like\((.*?), shape: /.exec(guard) ||
    /^(.+?) (?:==|is|in|not in|not) /.exec(guard) || [null, guard];
  return subject;
}

// Returns the values whose guards failed, each with these guards; the most important value comes first.
function changingValues() {
  const values = new Map();
  for (const failure of DATA.failures) {
    const translation = byId.get(failure.translation);
    const subject = subjectOf(failure.guard);
    const key = JSON.stringify([translation && translation.file, translation && translation.line, subject]);
    if (!values.has(key)) values.set(key, { subject, times: 0, failures: [], owners: [] });
    const value = values.get(key);
    value.times += failure.times;
    value.failures.push(failure);
    if (translation) value.owners.push(translation);
  }
  const weight = (value) => (value.owners.some((translation) => translation.graph_count > 0) ? 1e6 : 0) + value.times;
  return [...values.values()].sort((a, b) => weight(b) - weight(a));
}

function recompilesPage() {
  const values = changingValues();
  return [
    h("h2", null, "Recompiles"),
    h(
      "p",
      null,
      "A function is translated again when a call does not fit what earlier translations assume. ",
      "Each guard below did not hold for some call.",
    ),
    note(),
    values.length
      ? values.map(recompileCard)
      : h("p", null, recompiled.length ? "Which guards failed was not collected." : "There are none."),
    recompiled.length > 0 && [
      h("h3", null, "Translations that were not the first"),
      h(
        "ul",
        null,
        recompiled.map((translation) =>
          h(
            "li",
            null,
            translationLink(translation),
            translation.recompiled.length > 0 && ": ",
            translation.recompiled.map((failed) => [code(shortened(failed.guard)), change(failed), " "]),
          ),
        ),
      ),
    ],
  ];
}

function change(failed) {
  if (failed.expected === null && failed.seen === null) return null;
  return [
    " expected ",
    marked(failed.expected, failed.seen) || "something else",
    ", was ",
    marked(failed.seen, failed.expected) || "something else",
    ". ",
  ];
}

// Shows a text in which the part that differs from another text is marked.
function marked(text, other) {
  if (text === null || text === undefined) return null;
  if (!other) return code(text);
  let [start, end] = [0, 0];
  const most = Math.min(text.length, other.length);
  while (start < most && text[start] === other[start]) start += 1;
  while (end < most - start && text[text.length - 1 - end] === other[other.length - 1 - end]) end += 1;
  return h(
    "code",
    null,
    text.slice(0, start),
    h("mark", null, text.slice(start, text.length - end)),
    text.slice(text.length - end),
  );
}

function recompileCard(value) {
  const owner = value.owners[0];
  const guards = new Set(value.failures.map(({ translation, guard }) => `${translation} ${guard}`));
  const ledTo = recompiled.filter((translation) =>
    translation.recompiled.some((failed) => guards.has(`${failed.translation} ${failed.guard}`)),
  );
  const [first] = value.failures;
  const needed = sizesNeeded(value);
  return h(
    "section",
    { class: "card recompile", "data-value": value.subject },
    h(
      "h3",
      null,
      h("span", { class: "tag" }, "recompile"),
      " ",
      code(shortened(value.subject)),
      ` changes: ${count(value.times, "guard")} failed`,
      owner && soft(` in ${title(owner)}`),
    ),
    changesTable(value.failures),
    needed.length > 0 &&
      h(
        "div",
        { class: "needed" },
        h("b", null, "Why its size is not left open:"),
        h(
          "ul",
          null,
          needed.map((abandoned) => h("li", null, whyAbandoned(abandoned))),
        ),
      ),
    h(
      "p",
      { class: "remedy" },
      h("b", null, "What to do:"),
      " ",
      needed.length > 0 ? remedyForSizes(needed) : remedyFor(first),
    ),
    h(
      "ul",
      { class: "links", "aria-label": "More on this" },
      owner && h("li", null, "line: ", lineLink(owner.file, owner.line)),
      [...new Set(value.owners)].map((translation) =>
        h("li", null, link(page(translation, "guards"), `guards of #${translation.id}`)),
      ),
      ledTo.slice(0, 8).map((translation) => h("li", null, link(page(translation), `led to #${translation.id}`))),
    ),
  );
}

function remedyForSizes(needed) {
  const breaks = needed.every(({ text }) => text.startsWith("the graph breaks with open sizes"));
  return breaks
    ? "Remove the break, pad to few sizes, or ask for the size to be left open: sot.mark_dynamic(t, dim)."
    : "Change that line so that it does not need the size, or pad to few sizes: each is a translation of its own.";
}

// The attempts that were abandoned because the program needs a size of the value, one for each line.
function sizesNeeded({ subject, failures, owners }) {
  if (!failures.some(({ guard }) => guard.startsWith("is_tensor_like"))) return [];
  const name = `${shortened(subject)}.shape[`;
  const codes = new Set(owners.map((translation) => translation.code?.id));
  const found = new Map();
  for (const { abandoned } of translations.filter((at) => codes.has(at.code?.id)).flatMap((at) => at.attempts)) {
    if (abandoned?.assumes.some((size) => shortened(size).startsWith(name)))
      found.set(JSON.stringify(abandoned), abandoned);
  }
  return [...found.values()];
}

// Lists the expected and the actual value for each failed guard on a value.
function changesTable(failures) {
  const rows = new Map();
  for (const failure of failures) {
    const key = JSON.stringify([failure.guard, failure.seen]);
    rows.set(key, { ...failure, times: failure.times + (rows.has(key) ? rows.get(key).times : 0) });
  }
  const row = ({ guard, expected, seen, times }) =>
    h(
      "tr",
      null,
      h("td", null, marked(expected, seen) || code(shortened(guard))),
      h("td", null, marked(seen, expected) || "something else"),
      h("td", { class: "number" }, times.toLocaleString("en")),
    );
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col" }, "expected"),
          h("th", { scope: "col" }, "seen last"),
          h("th", { scope: "col", class: "number" }, "times"),
        ),
      ),
      h("tbody", null, [...rows.values()].slice(0, 8).map(row)),
    ),
  );
}

function remedyFor({ guard, expected, seen }) {
  if (guard.startsWith("is_tensor_like")) return tensorRemedy(expected || "", seen || "");
  if (guard.includes("state("))
    return (
      "The mode of the framework differs (gradients, mixed precision): " +
      "one translation for each mode is as it should be."
    );
  if (/==/.test(guard) && !/^(len|list)\(/.test(guard))
    return "A number or text differs from call to call: pass it as a tensor, or keep it the same.";
  if (guard.startsWith("list("))
    return "A dict has other keys, or other ones first: keep what the function looks at the same.";
  if (guard.startsWith("len(")) return "A container has another length: pass one of a fixed length, or a tensor.";
  if (/^type\(/.test(guard)) return "An argument is of another type: call with one type.";
  if (/ is /.test(guard)) return "Another object stands there: make it once, outside the function, and reuse it.";
  return "Keep what the guard names the same from call to call.";
}

// The remedy depends on the attribute of the tensor that differs.
function tensorRemedy(expected, seen) {
  const differs = (name) => [expected, seen].map((text) => new RegExp(`${name}: (\\[.*?\\]|[^,]*)`).exec(text)?.[1]);
  const changed = ["shape", "dtype", "stop_gradient"].filter((name) => {
    const [before, now] = differs(name);
    return before !== now;
  });
  if (changed.includes("dtype"))
    return "A tensor has another element type: keep it the same, as each type is a translation of its own.";
  if (changed.includes("stop_gradient"))
    return (
      "A tensor has another gradient flag: keep stop_gradient the same, " +
      "as with and without gradients are two translations."
    );
  if (changed.includes("shape")) {
    return (
      "A tensor has another size. " +
      "A size is left open at its second value where the program does not need the number; " +
      "else each is a translation of its own: pad to few sizes. " +
      "sot.mark_dynamic(t, dim) leaves one open from the first call on."
    );
  }
  return "A tensor differs in what a graph rests on: keep size, element type and gradient flag the same.";
}

// Shortens the text of a guard: the frame's variables are shown by their names.
function shortened(text) {
  return text
    .replace(/ at 0x[0-9a-f]+>/g, ">")
    .replace(/frame\.f_locals\['([^']*)'\]/g, "$1")
    .replace(/\._sub_layers\['([^']*)'\]/g, ".$1")
    .replace(/\._parameters\['([^']*)'\]/g, ".$1")
    .replace(/frame\.f_globals\['([^']*)'\]/g, "$1");
}
