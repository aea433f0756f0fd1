// The data of the report, and the lookups that the views need.

const DATA = JSON.parse(document.getElementById("data").textContent);
const HARMLESS = new Set(["nothing-to-compile", "raises"]);
const translations = DATA.translations;
const byId = new Map(translations.map((translation) => [translation.id, translation]));
const byCode = new Map();
for (const translation of translations) {
  if (!translation.code) continue;
  const id = translation.code.id;
  if (!byCode.has(id)) byCode.set(id, []);
  byCode.get(id).push(translation);
}

const isBreak = (translation) => translation.outcome === "translated" && Boolean(translation.reason);
const isFallback = (translation) =>
  translation.outcome === "fallback" && Boolean(translation.reason) && !HARMLESS.has(translation.reason.id);
const breaks = translations.filter(isBreak);
const fallbacks = translations.filter(isFallback);
// Frames that were left to CPython at once were not simulated, so they have no attempts.
const simulated = translations.filter((translation) => translation.attempts.length > 0);
const recompiled = simulated.filter((translation) => translation.earlier > 0);
const graphs = translations.flatMap((translation) => translation.graphs.map((graph) => ({ translation, graph })));
const fileIndex = new Map(DATA.files.map((file, index) => [file.name, index]));

const total = (counts) => Object.values(counts).reduce((sum, times) => sum + times, 0);
const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);
const seconds = (translation) => sum(Object.values(translation.seconds));
const thrownAway = (translation) => sum(translation.attempts.filter((at) => !at.stood).map((at) => at.seconds));
const compiledLater = (translation) => sum(translation.compiled_later.map((later) => later.seconds));
// All seconds that a translation has taken.
const spentOn = (translation) => seconds(translation) + thrownAway(translation) + compiledLater(translation);

const title = (translation) =>
  translation.resume ? `${translation.function}, from line ${translation.resume.line}` : translation.function;
const page = (translation, tab) => `t/${translation.id}${tab ? `/${tab}` : ""}`;
const translationLink = (translation, tab) =>
  link(page(translation, tab), title(translation), soft(` #${translation.id}`));

// A link to a source line, or its text alone if the report does not have the source.
function lineLink(file, line, text) {
  const shown = text || `${baseName(file)}:${line}`;
  return fileIndex.has(file) ? link(`source/${fileIndex.get(file)}/${line}`, shown) : shown;
}

function sourceLine(file, line) {
  const found = DATA.files[fileIndex.get(file)];
  for (const part of found ? found.source : []) {
    const text = part.lines[line - part.line];
    if (text !== undefined) return text;
  }
  return null;
}

function shapeText(value) {
  if (!value || !value.shape) return value && value.dtype ? value.dtype : "";
  const sizes = value.shape.map((size) => (size === null ? "?" : size)).join("×") || "scalar";
  return value.dtype ? `${sizes} ${value.dtype.replace("float", "f").replace(/^int/, "i")}` : sizes;
}

// The guard failures that kept a translation from being used, the most frequent first.
function failuresOf(translation) {
  return DATA.failures.filter((failure) => failure.translation === translation.id).sort((a, b) => b.times - a.times);
}

// Number of calls for which a guard of this translation failed.
const timesFailed = (translation) => sum(failuresOf(translation).map((failure) => failure.times));

// Seconds of one call, including the functions that it calls, without the guards.
const callTime = ({ times }) => (times && times.calls ? times.seconds / times.calls : null);
const timeOfAll = ({ times }) => (times ? times.seconds + times.calls * times.guards : 0);

// Classes of which several objects have statements in the graphs: the layers that repeat.
function repeatedLayers(translation) {
  const byClass = new Map();
  for (const graph of translation.graphs) {
    for (const { place } of graph.statements) {
      for (let at = translation.places[place]; at; at = at.parent === null ? null : translation.places[at.parent]) {
        if (!at.scope || !at.class) continue;
        if (!byClass.has(at.class)) byClass.set(at.class, new Set());
        byClass.get(at.class).add(at.scope);
      }
    }
  }
  return [...byClass]
    .map(([of, scopes]) => [of, scopes.size])
    .filter(([, number]) => number > 1)
    .sort((a, b) => b[1] - a[1]);
}

// The translations that resume behind the breaks of this one.
const resumesOf = (translation) =>
  translation.code ? translation.code.resumes.flatMap((id) => byCode.get(id) || []) : [];
// All translations that resume behind the breaks of this one, directly or through other resume functions.
function allBehind(translation) {
  const found = new Set();
  const visit = (at) =>
    resumesOf(at).forEach((next) => {
      if (!found.has(next)) {
        found.add(next);
        visit(next);
      }
    });
  visit(translation);
  return found;
}

const resumedBy = (translation) =>
  translation.code
    ? translations.filter((other) => other.code && other.code.resumes.includes(translation.code.id))
    : [];

// The innermost call of a stack in the program's own files, else the innermost one.
function ownEntry(stack) {
  return stack.find((at) => DATA.files[fileIndex.get(at.file)]?.library === false) || stack[0];
}

// The source line of a statement: the innermost line in the program's own files, else the innermost line.
function ownPlace(translation, index) {
  let place = translation.places[index];
  const innermost = place;
  while (place) {
    const file = DATA.files[fileIndex.get(translation.functions[place.function].file)];
    if (file && !file.library) return { file: file.name, line: place.line };
    place = place.parent === null ? null : translation.places[place.parent];
  }
  return innermost ? { file: translation.functions[innermost.function].file, line: innermost.line } : null;
}
