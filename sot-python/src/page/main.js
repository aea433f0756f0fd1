// The frame of the page: the list of views, and the view that the address names.

const VIEWS = {
  overview: { text: "Overview", view: overview },
  timeline: { text: "Timeline", view: timelinePage, number: simulated.length },
  calls: {
    text: "Calls",
    view: callsPage,
    number: translations.filter((translation) => translation.hits !== null).length,
  },
  source: { text: "Source", view: sourcePage, number: DATA.files.length },
  breaks: { text: "Breaks and fallbacks", view: breaksPage, number: brokenPlaces().length },
  recompiles: { text: "Recompiles", view: recompilesPage, number: changingValues().length || recompiled.length },
  graphs: { text: "Graphs", view: graphsPage, number: sum(translations.map((translation) => translation.graph_count)) },
  process: { text: "Process", view: processPage },
};

function graphsPage() {
  const made = translations.filter((translation) => translation.graph_count > 0);
  return [
    h("h2", null, "Graphs"),
    made.length === 0 && h("p", null, "There are none."),
    h(
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
            [["graph"], ["function"], ["statements", 1], ["inputs", 1], ["run as"], ["hits", 1]].map(([name, number]) =>
              h("th", { scope: "col", class: number && "number" }, name),
            ),
          ),
        ),
        h(
          "tbody",
          null,
          made.map((translation) => {
            const graph = translation.graphs[0];
            return h(
              "tr",
              null,
              h("td", null, graph ? link(page(translation, "graph"), graph.name) : "–"),
              h("td", null, translationLink(translation)),
              h("td", { class: "number" }, translation.statements),
              h("td", { class: "number" }, graph ? graph.inputs.length : "–"),
              h(
                "td",
                null,
                graph &&
                  (graph.replayed
                    ? h("span", { class: "tag replayed" }, "replayed")
                    : h("span", { class: "tag program" }, "program")),
              ),
              h("td", { class: "number" }, translation.hits),
            );
          }),
        ),
      ),
    ),
  ];
}

const main = h("main", { id: "main", tabindex: -1 });

function show() {
  const [name, ...parts] = location.hash.slice(1).split("/");
  const known = VIEWS[name];
  const view = name === "t" ? translationPage(parts) : (known || VIEWS.overview).view(parts);
  main.replaceChildren();
  fill(main, null, [view]);
  document.querySelectorAll(".side a[data-view]").forEach((item) => {
    const current = item.dataset.view === (known ? name : name === "t" ? "graphs" : "overview");
    if (current) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  });
  const heading = main.querySelector("h2");
  if (heading) {
    heading.tabIndex = -1;
    if (show.again) heading.focus({ preventScroll: Boolean(main.querySelector(".marked")) });
    document.title = `${heading.textContent} · ${DATA.title}`;
  }
  if (show.again && !main.querySelector(".marked")) scrollTo(0, 0);
  show.again = true;
}

document.getElementById("app").append(
  h(
    "a",
    {
      class: "skip",
      href: "#main",
      onclick: (event) => {
        event.preventDefault();
        main.focus();
      },
    },
    "To the contents",
  ),
  h(
    "div",
    { class: "frame" },
    h(
      "header",
      { class: "side" },
      h("h1", null, DATA.title),
      h(
        "p",
        { class: "created" },
        `sot ${DATA.versions.sot}`,
        h("br"),
        `${DATA.created.slice(0, 16).replace("T", " ")} UTC`,
      ),
      h(
        "nav",
        { "aria-label": "Views" },
        h(
          "ul",
          null,
          Object.entries(VIEWS).map(([name, { text, number }]) =>
            h(
              "li",
              null,
              h(
                "a",
                { href: `#${name}`, "data-view": name },
                text,
                number !== undefined && h("span", { class: "number" }, number),
              ),
            ),
          ),
        ),
      ),
      DATA.index && h("p", { class: "up" }, h("a", { href: DATA.index }, "All processes of the run")),
      themeButton(),
    ),
    main,
  ),
);
addEventListener("hashchange", show);
show();
