// Elements, numbers and colours: what every picture is made of.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "indeterminate"]);

// h("button", {class: "main", onclick: start, "aria-label": "Start"}, "Start"): children are nodes, texts, lists, or nothing.
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false && !PROPERTIES.has(name)) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// A number as a person reads it: four digits that matter, no trailing zeros.
export function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2).replace("e", " e").replace("-", "−").replace("+", "");
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return value.toLocaleString("en", { maximumFractionDigits: Math.min(places, 8) }).replace("-", "−");
}

export const percent = (share, digits = 1) => share === null || share === undefined ? "–" : `${(100 * share).toFixed(digits)} %`;

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// A number in an element that a test can read in full.
export function figure(value, shown = number(value)) {
  return h("span", { "data-value": value }, shown);
}

// A colour of page.css as [r, g, b], in the theme that is on.
const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
export function colour(name) {
  const holder = document.createElement("span");
  holder.style.setProperty("color", `var(${name})`);
  holder.hidden = false;
  document.body.append(holder);
  const found = getComputedStyle(holder).color;
  holder.remove();
  probe.fillStyle = found;
  probe.fillRect(0, 0, 1, 1);
  return [...probe.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

// Tells when light becomes dark, for what is drawn on a canvas.
export function onTheme(redraw) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}

// Calls with the newest arguments, once per frame at most.
export function perFrame(action) {
  let waiting = null;
  return (...given) => {
    if (waiting === null) requestAnimationFrame(() => { const latest = waiting; waiting = null; action(...latest); });
    waiting = given;
  };
}

// Calls with the newest arguments, and not before the call before is answered: what moves is followed however fast it moves.
// `waiting()` tells a long call that it is to be done again.
export function inTurn(action) {
  let waiting = null, busy = false;
  const call = async (...given) => {
    waiting = given;
    if (busy) return;
    busy = true;
    try {
      while (waiting !== null) {
        const latest = waiting;
        waiting = null;
        try { await action(...latest); } catch (error) { if (waiting === null) throw error; }
      }
    } finally { busy = false; }
  };
  return Object.assign(call, { waiting: () => waiting !== null });
}

let count = 0;
export const newId = (word = "e") => `${word}-${++count}`;
