// The statements of a graph as a tree: a box for each object whose method is called, and for each called function.
// A box holds statements that follow each other, so that boxes depend on each other in one direction only.

const MAX_CHILDREN = 40;

function statementTree(translation, graph) {
  const paths = new Map();
  const root = { kind: "group", key: "root", name: graph.name, children: [] };
  let open = [root];
  graph.statements.forEach((statement, index) => {
    if (!paths.has(statement.place)) paths.set(statement.place, groupPath(translation, statement.place));
    const path = paths.get(statement.place);
    let depth = 0;
    while (depth < path.length && depth + 1 < open.length && open[depth + 1].step === path[depth].step) depth += 1;
    open = open.slice(0, depth + 1);
    for (const step of path.slice(depth)) {
      const group = { kind: "group", key: `${open[open.length - 1].key}/${step.step}@${index}`, ...step, children: [] };
      open[open.length - 1].children.push(group);
      open.push(group);
    }
    open[open.length - 1].children.push({
      kind: "step",
      key: `s${index}`,
      index,
      statement,
      name: statementName(statement),
    });
  });
  let top = root;
  while (top.children.length === 1 && top.children[0].kind === "group") top = top.children[0];
  divide(top);
  measure(top);
  return { ...top, key: "root" };
}

function statementName(statement) {
  const callee = statement.callee
    .split(".")
    .pop()
    .replace(/^_+|_+$/g, "");
  return statement.object ? `${statement.object.split(".").pop()}: ${callee}` : callee;
}

// The boxes that contain a place, the outermost first.
function groupPath(translation, index) {
  const path = [];
  let place = translation.places[index];
  while (place && place.parent !== null) {
    const caller = translation.places[place.parent];
    if (place.scope) {
      if (place.scope !== caller.scope) {
        path.push({ step: `o ${place.scope}`, name: place.scope.split(".").pop(), full: place.scope, of: place.class });
      }
    } else {
      const name = translation.functions[place.function].name;
      path.push({
        step: `f ${place.parent} ${place.function}`,
        name: `${name.split(".").pop()}()`,
        full: name,
        of: null,
      });
    }
    place = caller;
  }
  return path.reverse();
}

// Puts the children of very large boxes into boxes of their own, on as many levels as necessary.
function divide(group) {
  group.children.forEach((child) => child.kind === "group" && divide(child));
  while (group.children.length > MAX_CHILDREN) {
    const size = Math.min(MAX_CHILDREN, Math.max(8, Math.ceil(group.children.length / MAX_CHILDREN)));
    const parts = [];
    for (let at = 0; at < group.children.length; at += size) {
      const children = group.children.slice(at, at + size);
      parts.push({
        kind: "group",
        key: `${group.key}/part${children[0].key}`,
        name: partName(children, parts.length),
        full: "",
        of: null,
        children,
      });
    }
    group.children = parts;
  }
}

function partName(children, before) {
  const [first, last] = [children[0], children[children.length - 1]];
  return first.kind === "group" && first.name !== last.name ? `${first.name} to ${last.name}` : `part ${before + 1}`;
}

// Sets the number of statements of a box, the values that it takes, and the values that it makes.
function measure(node) {
  if (node.kind === "step") {
    Object.assign(node, { size: 1, uses: new Set(node.statement.uses), gives: new Set(node.statement.outputs) });
    return;
  }
  node.children.forEach(measure);
  node.size = sum(node.children.map((child) => child.size));
  node.uses = new Set();
  node.gives = new Set();
  for (const child of node.children) {
    for (const name of child.uses) if (!node.gives.has(name)) node.uses.add(name);
    for (const name of child.gives) node.gives.add(name);
  }
}
