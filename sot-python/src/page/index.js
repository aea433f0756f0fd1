// The processes of a run, and where they differ.

const RUN = JSON.parse(document.getElementById("data").textContent);
const COUNTS = ["translations", "graphs", "breaks", "fallbacks", "recompiles", "hits"];

const nameOf = ({ folder, process }) =>
  process && process.rank !== null && process.rank !== undefined ? `${folder}, rank ${process.rank}` : folder;
const reportOf = (process, hash) => `${process.folder}/report.html${hash ? `#${hash}` : ""}`;

const rankOf = ({ process }) => Number(process?.rank ?? 0);
RUN.processes.sort((one, other) => one.title.localeCompare(other.title) || rankOf(one) - rankOf(other));

function processesTable() {
  const numbers = [...COUNTS, "time translating"].map((name) => h("th", { scope: "col", class: "number" }, name));
  const texts = ["process", "program", "written"].map((name) => h("th", { scope: "col" }, name));
  const row = (process) =>
    h(
      "tr",
      null,
      h("td", null, h("a", { href: reportOf(process) }, nameOf(process))),
      h("td", null, process.title),
      h("td", null, process.created.slice(0, 19).replace("T", " ")),
      COUNTS.map((name) => h("td", { class: "number" }, process[name].toLocaleString("en"))),
      h("td", { class: "number" }, time(process.seconds)),
    );
  const body = h("tbody", null, RUN.processes.map(row));
  return h("div", { class: "scroll" }, h("table", null, h("thead", null, h("tr", null, texts, numbers)), body));
}

// The processes that run the same program, by program: only these should do the same.
function programs() {
  const byTitle = new Map();
  for (const process of RUN.processes) {
    if (!byTitle.has(process.title)) byTitle.set(process.title, []);
    byTitle.get(process.title).push(process);
  }
  return [...byTitle.values()].filter((processes) => processes.length > 1);
}

const key = ({ function: name, file, line, resume }) => JSON.stringify([name, file, line, resume]);
// What processes have in common if they agree on a function.
const outcomeOf = (one) => one && JSON.stringify([one.translations, one.breaks, one.fallbacks, one.graphs]);

// The functions on which processes differ: for each, the processes by what became of the function.
function differences(processes) {
  const byProcess = processes.map((process) => new Map(process.functions.map((one) => [key(one), one])));
  const all = new Map(byProcess.flatMap((functions) => [...functions]));
  const found = [];
  for (const [at, example] of all) {
    const groups = new Map();
    processes.forEach((process, index) => {
      const one = byProcess[index].get(at);
      const outcome = outcomeOf(one);
      if (!groups.has(outcome)) groups.set(outcome, []);
      groups.get(outcome).push({ process, one });
    });
    if (groups.size > 1) found.push({ example, groups: [...groups.values()] });
  }
  return found;
}

function groupRow(group) {
  const [{ one }] = group;
  const shown = group
    .slice(0, MOST_LINKS)
    .map(({ process, one: at }, index) => [
      index > 0 && ", ",
      h("a", { href: reportOf(process, at && `t/${at.first}`) }, nameOf(process)),
    ]);
  const more = group.length > MOST_LINKS && `, and ${group.length - MOST_LINKS} more`;
  const number = (value) => h("td", { class: "number" }, value);
  const graphs =
    one &&
    one.graphs.map(({ statements, digest }) => [
      h("code", { title: `operations and shapes: ${digest}` }, `${statements} [${digest.slice(0, 4)}]`),
      " ",
    ]);
  return h(
    "tr",
    null,
    h("td", null, shown, more),
    one
      ? [number(one.translations), number(one.breaks), number(one.fallbacks), h("td", null, graphs)]
      : h("td", { colspan: 4 }, "not translated"),
  );
}

const MOST_LINKS = 8;

function differenceCard({ example, groups }) {
  const title = example.resume === null ? example.function : `${example.function}, from line ${example.resume}`;
  const heads = [["processes"], ["translations", 1], ["breaks", 1], ["fallbacks", 1], ["graphs: statements [digest]"]];
  const head = heads.map(([name, number]) => h("th", { scope: "col", class: number && "number" }, name));
  return h(
    "section",
    { class: "card difference" },
    h("h3", null, title, soft(` ${baseName(example.file)}:${example.line}`)),
    h(
      "div",
      { class: "scroll" },
      h("table", null, h("thead", null, h("tr", null, head)), h("tbody", null, groups.map(groupRow))),
    ),
  );
}

const MOST_CARDS = 20;

function comparison() {
  return programs().map((processes) => {
    const found = differences(processes);
    const heading = h("h2", null, `Do the ${processes.length} processes of ${processes[0].title} agree?`);
    if (!found.length) {
      return [
        heading,
        h("p", { class: "card note agree" }, "Yes: the same functions, breaks and graphs in all of them."),
      ];
    }
    return [
      heading,
      h(
        "p",
        null,
        `They differ in ${count(found.length, "function")}. Graphs with the same digest have the same operations, `,
        "on the same shapes and types. Processes that wait for each other in collective operations should agree.",
      ),
      found.slice(0, MOST_CARDS).map(differenceCard),
      found.length > MOST_CARDS && h("p", null, `${found.length - MOST_CARDS} more are not listed.`),
    ];
  });
}

document
  .getElementById("app")
  .append(
    h(
      "main",
      null,
      h("h1", null, "Processes of a run"),
      h("p", { class: "soft" }, `${count(RUN.processes.length, "process", "processes")} with translations`),
      processesTable(),
      comparison(),
      h(
        "p",
        null,
        h("a", { href: RUN.trace }, RUN.trace),
        " has the timeline of all processes: open it in ",
        h("a", { href: "https://ui.perfetto.dev" }, "ui.perfetto.dev"),
        ".",
      ),
      h("p", null, themeButton()),
    ),
  );
