// The processes of a run.

const RUN = JSON.parse(document.getElementById("data").textContent);

document.getElementById("app").append(h("main", null,
  h("h1", null, "Processes of a run"), h("p", { class: "soft" }, `${count(RUN.processes.length, "process", "processes")} with translations`),
  h("div", { class: "scroll" }, h("table", null,
    h("thead", null, h("tr", null, ["process", "program", "written", "translations", "graphs", "breaks", "fallbacks", "recompiles", "hits", "time translating"]
      .map((name, at) => h("th", { scope: "col", class: at > 2 && "number" }, name)))),
    h("tbody", null, RUN.processes.map((process) => h("tr", null,
      h("td", null, h("a", { href: `${process.folder}/report.html` }, process.folder)), h("td", null, process.title),
      h("td", null, process.created.slice(0, 19).replace("T", " ")),
      ["translations", "graphs", "breaks", "fallbacks", "recompiles", "hits"].map((name) => h("td", { class: "number" }, process[name].toLocaleString("en"))),
      h("td", { class: "number" }, time(process.seconds))))))), h("p", null, themeButton())));
