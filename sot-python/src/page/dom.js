"use strict";
// Creates all elements of the page. Text from the data becomes text nodes, never HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const link = (hash, ...children) => h("a", { href: `#${hash}` }, ...children);
const code = (text) => h("code", null, text);
const soft = (...children) => h("span", { class: "soft" }, ...children);

function count(number, noun, plural) {
  return `${number.toLocaleString("en")} ${number === 1 ? noun : plural || `${noun}s`}`;
}

function time(seconds) {
  if (seconds >= 10) return `${seconds.toFixed(1)} s`;
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  return seconds >= 0.01 ? `${(seconds * 1e3).toFixed(0)} ms` : `${(seconds * 1e3).toFixed(1)} ms`;
}

// Formats the time of one call.
function microseconds(seconds) {
  const micros = seconds * 1e6;
  if (micros >= 1e4) return time(seconds);
  return `${micros.toLocaleString("en", { maximumFractionDigits: micros < 10 ? 1 : 0 })} µs`;
}

const about = (seconds) => (seconds < 5e-8 ? "under 0.1 µs" : `about ${microseconds(seconds)}`);

const baseName = (path) => path.split("/").pop();

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}

// Attributes of a control that acts on a click, and on Enter or Space as a button does.
function pressable(action) {
  return {
    tabindex: 0,
    onclick: action,
    onkeydown: (event) => {
      if ((event.key === "Enter" || event.key === " ") && event.target === event.currentTarget) {
        event.preventDefault();
        action(event);
      }
    },
  };
}

function themeButton() {
  const preferred = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const set = (theme) => {
    document.documentElement.dataset.theme = theme;
  };
  set(preferred);
  const toggle = () => set(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  return h("button", { type: "button", onclick: toggle }, "Light or dark");
}
