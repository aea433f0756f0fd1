// The overview: counts, advice on what to change, and the timeline of translations.

function overview() {
  return [
    h("h2", null, "Overview"),
    note(),
    tiles(),
    words(),
    advice(),
    uncoveredCard(),
    h("h3", null, "Timeline of translations"),
    timeline(longest(MOST_ROWS)),
    translations.length > MOST_ROWS &&
      h(
        "p",
        null,
        `These took longest. All ${translations.length.toLocaleString("en")}: `,
        link("timeline", "timeline"),
        ".",
      ),
  ];
}

// Number of rows that the overview has of the timeline.
const MOST_ROWS = 50;

// The translations that took longest, in the order of the program.
function longest(number) {
  const kept = new Set([...translations].sort((a, b) => spentOn(b) - spentOn(a)).slice(0, number));
  return translations.filter((translation) => kept.has(translation));
}

function note() {
  if (DATA.details) return null;
  return h(
    "p",
    { class: "card note" },
    "Graphs, guards, source lines and code were not collected: set ",
    code("SOT_REPORT=folder"),
    " for the run, or use ",
    code('sot.explain(fn)(x).save("report.html")'),
    ".",
  );
}

function tiles() {
  const { counts } = DATA;
  const plural = (word) => (word.endsWith("s") ? `${word}es` : `${word}s`);
  const tile = (number, word, hash, bad, more) =>
    h(
      hash ? "a" : "div",
      { class: bad && number ? "tile bad" : "tile", href: hash && `#${hash}`, title: WORDS[word] },
      h("b", null, number.toLocaleString("en")),
      h("span", null, number === 1 ? word : plural(word)),
      more && [" ", h("span", null, more)],
    );
  const at = new Set(breaks.map(({ reason }) => `${reason.stack[0].file}:${reason.stack[0].line}`)).size;
  const costs = brokenPlaces().some((place) => isBreak(place.translations[0]) && !isCheap(place));
  const all = sum(translations.map((translation) => translation.graph_count));
  const statements = sum(translations.map((translation) => translation.statements));
  return h(
    "div",
    { class: "tiles" },
    tile(simulated.length, "translation", "timeline"),
    tile(all, "graph", "graphs"),
    tile(statements, "statement"),
    tile(breaks.length, "graph break", "breaks", costs, at < breaks.length && `in ${count(at, "line")}`),
    tile(fallbacks.length, "fallback", "breaks", true),
    tile(recompiled.length, "recompile", "recompiles", true),
    tile(counts.hits, "hit", "calls"),
    tile(counts.misses, "miss", "calls"),
    h("div", { class: "tile" }, h("b", null, time(sum(translations.map(spentOn)))), h("span", null, "translating")),
  );
}

// Shows the most costly findings first: breaks between graphs, and values that cause recompiles. One card at the end
// has the breaks that cost almost nothing.
function advice() {
  const places = brokenPlaces();
  const costly = places.filter((place) => !isCheap(place)).map(breakCard);
  const changing = changingValues().map(recompileCard);
  const found = [...costly.slice(0, 3), ...changing.slice(0, 2), ...costly.slice(3), ...changing.slice(2)];
  const cheap = cheapCard(places.filter(isCheap));
  if (!found.length) {
    const whole = sum(translations.map((translation) => translation.graph_count)) > 0;
    const again = recompiled.length
      ? `${count(recompiled.length, "call")} needed another translation (which guards failed was not collected).`
      : "no call needed a second translation.";
    const broken = cheap ? "the breaks cost almost nothing" : "no graph break, no fallback";
    const fine = `Nothing to change: ${broken}, and ${again}`;
    const none = translations.length
      ? "No graph was made: there is no tensor work in the code that was looked at."
      : "No graph was made: no translated function was called. " +
        "sot.symbolic_translate(fn) and python -m sot run translate functions.";
    return [h("p", { class: "card note" }, whole ? fine : none), cheap];
  }
  const shown = found.slice(0, 5);
  const more =
    found.length > shown.length &&
    h(
      "p",
      null,
      `${found.length - shown.length} more: `,
      link("breaks", "breaks and fallbacks"),
      ", ",
      link("recompiles", "recompiles"),
      ".",
    );
  return [h("h3", null, "What to look at first"), ...shown, more, cheap];
}

// The terms of the page, for readers who are new to them.
const WORDS = {
  translation:
    "New code for one function, made by simulating its bytecode once. Later calls use it while its guards hold.",
  graph:
    "The tensor operations of a translation, compiled together. " +
    "A graph with few operations is replayed: its operations are called one by one.",
  statement: "One operation of a graph.",
  guard: "A condition on arguments and variables that a translation depends on. Guards are checked before each call.",
  hit: "A call that used a translation, as all its guards held.",
  miss: "A call for which no translation had guards that held.",
  recompile: "A translation of code that already had one, because guards of the earlier ones failed.",
  "graph break":
    "A line where a graph ends. CPython runs the call there, and the rest of the function is a translation of its own.",
  fallback: "A function that CPython runs as a whole.",
};

function words() {
  return h("details", { class: "words" }, h("summary", null, "What the words mean"), facts(Object.entries(WORDS)));
}

function timelinePage() {
  return [h("h2", null, "Timeline of translations"), timeline(translations)];
}

function timeline(shown) {
  if (!translations.length) return h("p", { class: "soft" }, "Nothing was translated.");
  const first = Math.min(...translations.map((translation) => translation.began - thrownAway(translation)));
  const last = Math.max(
    ...translations.flatMap((translation) => [
      translation.began + seconds(translation),
      ...translation.compiled_later.map((later) => later.began + later.seconds),
    ]),
  );
  const keys = [
    ["simulate", "simulate bytecode"],
    ["build", "build statements"],
    ["compile", "compile graph, code, guards"],
    ["later", "compile a graph that has run"],
    ["thrown", "attempts thrown away"],
  ];
  const head = [
    ["function"],
    ["when (of " + time(last - first) + ")"],
    ["time", 1],
    ["statements", 1],
    ["graphs", 1],
    ["guards", 1],
    ["attempts", 1],
    ["hits", 1],
    ["outcome"],
  ];
  return [
    h(
      "p",
      null,
      keys.map(([name, text]) => h("span", { class: "key" }, h("i", { class: name }), text)),
    ),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "timeline" },
        h("caption", { class: "hidden" }, "Translations in order, with their phases"),
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            head.map(([name, number]) => h("th", { scope: "col", class: number && "number" }, name)),
          ),
        ),
        h(
          "tbody",
          null,
          shown.map((translation) => timelineRow(translation, first, last - first)),
        ),
      ),
    ),
  ];
}

function timelineRow(translation, first, length) {
  const number = (value) => h("td", { class: "number" }, value === null ? "–" : value.toLocaleString("en"));
  return h(
    "tr",
    null,
    h("td", null, translationLink(translation), h("br"), soft(lineLink(translation.file, translation.line))),
    h("td", null, phasesBar(translation, first, length), h("span", { class: "repeats" }, repeatedTags(translation))),
    h("td", { class: "number" }, time(spentOn(translation))),
    number(translation.statements),
    number(translation.graph_count),
    number(translation.guard_count),
    number(translation.attempts.length),
    number(translation.hits),
    h("td", null, outcome(translation)),
  );
}

function repeatedTags(translation) {
  const repeated = repeatedLayers(translation);
  const tags = repeated
    .slice(0, 3)
    .map(([of, number]) =>
      h(
        "span",
        { class: "tag repeated", title: `${number} layers of the class ${of} are in the graph` },
        `${of} × ${number}`,
      ),
    );
  return [tags.map((tag) => [tag, " "]), repeated.length > 3 && soft(`and ${repeated.length - 3} more`)];
}

// The cache entries with their calls; the entries that take most time come first.
function callsPage() {
  const run = translations
    .filter((translation) => translation.hits !== null)
    .sort((a, b) => timeOfAll(b) - timeOfAll(a) || b.hits - a.hits);
  const head = [
    ["cache entry"],
    ["hits", 1],
    ["did not fit", 1],
    ["guards", 1],
    ["a call", 1],
    ["all calls", 1],
    ["graph"],
    ["outcome"],
  ];
  const cell = (value) => h("td", { class: "number" }, value);
  const known = (value, text) => cell(value === null ? "–" : text(value));
  return [
    h("h2", null, "Calls"),
    h(
      "p",
      null,
      "A call runs the first translation whose guards hold: a hit. ",
      "The translations before it did not fit the call: a guard failed. ",
      "The time of a call includes everything that it calls, also graphs and the code behind a break, ",
      "but not its guards.",
    ),
    run.length === 0
      ? h("p", null, "Nothing ran translated.")
      : h(
          "div",
          { class: "scroll" },
          h(
            "table",
            { class: "calls" },
            h(
              "caption",
              { class: "hidden" },
              "Cache entries with their hits, failures and times, those that take most first",
            ),
            h(
              "thead",
              null,
              h(
                "tr",
                null,
                head.map(([name, number]) => h("th", { scope: "col", class: number && "number" }, name)),
              ),
            ),
            h(
              "tbody",
              null,
              run.map((translation) =>
                h(
                  "tr",
                  null,
                  h(
                    "td",
                    null,
                    translationLink(translation),
                    h("br"),
                    soft(lineLink(translation.file, translation.line)),
                  ),
                  cell(translation.hits.toLocaleString("en")),
                  cell(
                    timesFailed(translation)
                      ? link(page(translation, "guards"), timesFailed(translation).toLocaleString("en"))
                      : 0,
                  ),
                  known(translation.times && translation.times.guards, microseconds),
                  known(callTime(translation), microseconds),
                  known(translation.times && timeOfAll(translation), time),
                  h(
                    "td",
                    null,
                    translation.graph_count > 0 &&
                      link(page(translation, "graph"), count(translation.statements, "statement")),
                  ),
                  h("td", null, outcome(translation)),
                ),
              ),
            ),
          ),
        ),
  ];
}

// Frames that were left to CPython before they were examined, for example while a trace function is set. They are only
// counted.
function uncovered() {
  const listed = new Set(
    [...breaks, ...fallbacks].map(
      ({ reason: { id, text, stack } }) =>
        `${id}: ${text} at ${stack[0].file}:${stack[0].line} in ${stack[0].function}`,
    ),
  );
  const { counts } = DATA;
  return Object.entries({ ...counts.breaks, ...counts.fallbacks }).filter(([text]) => !listed.has(text));
}

function uncoveredCard() {
  const found = uncovered();
  return (
    found.length > 0 &&
    h(
      "section",
      { class: "card fallback uncovered" },
      h("h3", null, h("span", { class: "tag fallback" }, "fallback"), " Left to CPython without a look"),
      h(
        "ul",
        null,
        found.slice(0, 10).map(([text, times]) => h("li", null, `${count(times, "time")}: ${text}`)),
      ),
      found.length > 10 && h("p", null, `${found.length - 10} more: `, link("process", "process"), "."),
    )
  );
}

function phasesBar(translation, first, length) {
  const parts = [
    ["thrown", thrownAway(translation)],
    ["simulate", translation.seconds.simulate],
    ["build", translation.seconds.build],
    ["compile", translation.seconds.compile],
  ];
  let at = translation.began - thrownAway(translation) - first;
  const percent = (value) => `${(100 * value) / (length || 1)}%`;
  const bars = parts.map(([name, taken]) => {
    const bar = h("i", {
      class: name,
      style: `left:${percent(at)};width:${percent(taken)}`,
      title: `${name}: ${time(taken)}`,
    });
    at += taken;
    return taken > 0 && bar;
  });
  for (const later of translation.compiled_later) {
    bars.push(
      h("i", {
        class: "later",
        style: `left:${percent(later.began - first)};width:${percent(later.seconds)}`,
        title: `compile after the first runs: ${time(later.seconds)}`,
      }),
    );
    parts.push(["compile after the first runs", later.seconds]);
  }
  const text = parts
    .filter(([, taken]) => taken > 0)
    .map(([name, taken]) => `${name} ${time(taken)}`)
    .join(", ");
  return h("div", { class: "bar", role: "img", "aria-label": text }, bars);
}

function outcome(translation) {
  const tags = [];
  if (isBreak(translation)) tags.push(h("span", { class: "tag break" }, "break"));
  else if (isFallback(translation)) tags.push(h("span", { class: "tag fallback" }, "fallback"));
  else if (translation.outcome === "fallback") tags.push(h("span", { class: "tag native" }, "nothing to compile"));
  else tags.push(h("span", { class: "tag program" }, "whole"));
  if (translation.earlier > 0) tags.push(" ", h("span", { class: "tag" }, "recompile"));
  return tags;
}

function processPage() {
  const { counts, process, versions } = DATA;
  const table = (caption, rows) =>
    Object.keys(rows).length > 0 && [
      h("h3", null, caption),
      h(
        "table",
        { class: "long" },
        h(
          "tbody",
          null,
          Object.entries(rows)
            .sort((a, b) => b[1] - a[1])
            .map(([name, times]) => h("tr", null, h("td", { class: "number" }, times), h("td", null, name))),
        ),
      ),
    ];
  return [
    h("h2", null, "Process"),
    facts([
      ["program", code(process.command.join(" "))],
      ["folder", process.folder],
      ["process", process.pid],
      ["running for", time(process.seconds)],
      ["written", DATA.created],
    ]),
    h("h3", null, "Versions"),
    facts(Object.entries(versions)),
    h("h3", null, "Counts"),
    facts([
      ["translations", counts.translations],
      ["graphs", counts.graphs],
      ["of these replayed", counts.replayed],
      ["hits", counts.hits],
      ["misses", counts.misses],
      ["graphs that raised", counts.graph_errors],
    ]),
    h("h3", null, "Time of translations"),
    facts([
      ...Object.entries(counts.seconds).map(([phase, taken]) => [phase, time(taken)]),
      ["attempts thrown away", time(sum(translations.map(thrownAway)))],
    ]),
    table("Breaks", counts.breaks),
    table("Fallbacks", counts.fallbacks),
    DATA.dropped > 0 && h("p", null, `${count(DATA.dropped, "later translation")} are counted, and not listed.`),
  ];
}
