// Which picture a view is about: one that is drawn, or one of the held-out examples.

import { picture } from "./charts.js";
import { button, buttons, drawingPad } from "./controls.js";
import { h } from "./dom.js";

const DEEPEST = 15;
const packed = (rows) => rows.flat().map((ink) => Math.round(ink * DEEPEST).toString(16)).join("");
const unpacked = (text, size) => Array.from({ length: size }, (_, y) => Array.from(text.slice(y * size, (y + 1) * size), (digit) => parseInt(digit, 16) / DEEPEST));

// An example on the pad, to draw on.
function enlarged(rows, size) {
  const [height, width] = [rows.length, rows[0].length], side = Math.max(height, width), top = (side - height) / 2, left = (side - width) / 2;
  const shade = (value) => (Array.isArray(value) ? value.reduce((sum, each) => sum + each, 0) / value.length : value ?? 0) / 255;
  return Array.from({ length: size }, (_, y) => Array.from({ length: size }, (_, x) => shade(rows[Math.floor((y + 0.5) / size * side - top)]?.[Math.floor((x + 0.5) / size * side - left)])));
}

// gallery({label, pictures: [{name, picture}], value, onchange}): small pictures of which one is chosen.
export function gallery({ label, pictures, value = null, pixels = 34, onchange }) {
  const choices = pictures.map((each, index) => h("button", {
    type: "button", "aria-pressed": String(index === value), title: each.name, onclick: () => { element.set(index); onchange(index); },
    "aria-label": `Example ${index + 1}${each.name ? `: ${each.name}` : ""}`,
  }, picture(each.picture, { pixels, label: each.name || `example ${index + 1}` })));
  const element = h("div", { class: "gallery", role: "group", "aria-label": label }, choices);
  element.set = (next) => choices.forEach((each, index) => each.setAttribute("aria-pressed", String(index === next)));
  return element;
}

// chooser({view, first, onchange}): `first` is what `offered` of lab/pictures.py answers. `request` is the part
// of a question that names the picture, `name` the class of an example.
export function chooser({ view, first, label = "Draw a digit", onchange }) {
  const { state } = view, { examples, pad: size, title = "Held-out examples" } = first;
  const drawn = typeof state.drawing === "string" && state.drawing.length === size * size;
  const number = Math.min(state.example ?? 0, examples.length - 1);
  const chosen = { request: drawn ? { drawing: state.drawing } : { example: number }, name: drawn ? null : examples[number].name };
  const take = (request, name) => {
    Object.assign(chosen, { request, name });
    view.set({ drawing: request.drawing, example: request.example });
    onchange();
  };
  const pad = drawingPad({ size, pixels: 224, label, brush: 1.45, onchange: (rows) => { small.set(null); take({ drawing: packed(rows) }, null); } });
  const small = gallery({
    label: title, pictures: examples, value: drawn ? null : number,
    onchange: (index) => { pad.set(enlarged(examples[index].picture, size)); take({ example: index }, examples[index].name); },
  });
  pad.set(drawn ? unpacked(state.drawing, size) : enlarged(examples[number].picture, size));
  const element = h("div", { class: "chooser" },
    h("div", { class: "stack" }, pad, buttons(button("Clear", () => pad.clear()), h("small", {}, "Draw with the pointer or the arrow keys and space."))),
    h("div", { class: "stack" }, h("h3", {}, title), small));
  return Object.assign(element, { chosen });
}
