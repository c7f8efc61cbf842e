// Controls with their labels. Each returns an element with `value` to read and set(value) to change it silently.

import { h, newId, number, perFrame } from "./dom.js";

function field(label, control, output = null) {
  const id = newId("control");
  control.id = id;
  return h("div", { class: "field" }, h("label", { class: "name", for: id }, h("span", {}, label), output), control);
}

// slider({label, min, max, step, value, unit, show, onchange}); `log: true` moves over powers of ten.
export function slider({ label, min, max, step = "any", value, unit = "", log = false, show = number, onchange }) {
  const to = (x) => (log ? Math.log10(x) : x), from = (x) => (log ? 10 ** x : x);
  const input = h("input", { type: "range", min: to(min), max: to(max), step: log ? "any" : step, value: to(value) });
  const output = h("output", {});
  const element = field(label, input, output);
  const say = () => { output.textContent = `${show(element.value)}${unit ? ` ${unit}` : ""}`; input.setAttribute("aria-valuetext", output.textContent); };
  Object.defineProperty(element, "value", { get: () => from(Number(input.value)) });
  element.set = (next) => { input.value = to(next); say(); };
  element.disable = (off) => { input.disabled = off; };
  const changed = perFrame((value) => onchange?.(value));
  input.addEventListener("input", () => { say(); changed(element.value); });
  input.setAttribute("aria-label", label);
  element.set(value);
  return element;
}

// select({label, options: [value | [value, text] …], value, onchange})
export function select({ label, options, value, onchange }) {
  const input = h("select", {});
  const element = field(label, input);
  let values = [];
  element.offer = (next) => {
    values = next.map((each) => (Array.isArray(each) ? each[0] : each));
    input.replaceChildren(...next.map((each, index) => h("option", { value: index }, String(Array.isArray(each) ? each[1] : each))));
  };
  element.offer(options);
  Object.defineProperty(element, "value", { get: () => values[Number(input.value)] });
  element.set = (next) => { input.value = Math.max(0, values.indexOf(next)); };
  if (value !== undefined) element.set(value);
  input.addEventListener("change", () => onchange?.(element.value));
  return element;
}

// textBox({label, value, rows, placeholder, maxlength, onchange}): one line unless there are rows.
export function textBox({ label, value = "", rows = 0, placeholder = "", maxlength = 2000, onchange }) {
  const attributes = { placeholder, maxlength, spellcheck: "false", autocomplete: "off", dir: "auto" };
  const input = rows ? h("textarea", { ...attributes, rows }) : h("input", { ...attributes, type: "text" });
  const element = field(label, input);
  Object.defineProperty(element, "value", { get: () => input.value });
  element.set = (next) => { input.value = next; };
  element.input = input;
  element.set(value);
  const changed = perFrame((value) => onchange?.(value));
  input.addEventListener("input", () => changed(input.value));
  return element;
}

export function numberBox({ label, value, min, max, step = "any", onchange }) {
  const input = h("input", { type: "number", min, max, step, value });
  const element = field(label, input);
  Object.defineProperty(element, "value", { get: () => (input.value === "" ? null : Number(input.value)) });
  element.set = (next) => { input.value = next; };
  element.input = input;
  input.addEventListener("input", () => input.validity.valid && onchange?.(element.value));
  return element;
}

export function toggle({ label, value = false, onchange }) {
  const input = h("input", { type: "checkbox", checked: value });
  const element = h("label", { class: "switch" }, input, label);
  Object.defineProperty(element, "value", { get: () => input.checked });
  element.set = (next) => { input.checked = next; };
  input.addEventListener("change", () => onchange?.(input.checked));
  return element;
}

export function button(text, onclick, { kind = "", label, pressed } = {}) {
  return h("button", { type: "button", class: kind, onclick, "aria-label": label, "aria-pressed": pressed === undefined ? undefined : String(pressed) }, text);
}

export const buttons = (...each) => h("div", { class: "buttons" }, each);
export const controls = (...each) => h("div", { class: "controls" }, each);

// player({label, onstep, perSecond}): a button that calls onstep again and again, waiting for each, until it is pressed again.
export function player({ label = "Run", stop = "Pause", onstep, perSecond = 30 }) {
  let running = false;
  const element = button(label, () => element.toggle(), { kind: "main", pressed: false });
  element.toggle = async (on = !running) => {
    if (on === running) return;
    running = on;
    element.textContent = running ? stop : label;
    element.setAttribute("aria-pressed", String(running));
    while (running && element.isConnected) {
      const began = performance.now();
      try { if (await onstep() === false) break; } catch (error) { if (error.name !== "AbortError") throw error; }
      await new Promise((next) => setTimeout(next, Math.max(0, 1000 / perSecond - (performance.now() - began))));
    }
    running = false;
    element.textContent = label;
    element.setAttribute("aria-pressed", "false");
  };
  return element;
}

// oneByOne(): a function that calls actions in turn, each when those before it are done; for a simulation of which no piece may be lost.
export function oneByOne() {
  let last = Promise.resolve();
  return (action) => (last = last.catch(() => null).then(action));
}

// compileNote(): says so when an answer is slow because a simulator is compiled first. `await note.during(view.ask(…))`
export function compileNote(after = 1000) {
  const element = h("p", { class: "note", role: "status" });
  element.during = async (asking) => {
    const slow = setTimeout(() => { element.textContent = "The simulator is being made ready. It is compiled once after an installation, which takes up to a minute."; }, after);
    try { return await asking; } finally { clearTimeout(slow); element.textContent = ""; }
  };
  return element;
}

// drawingPad({size, label, onchange}): a picture of size × size numbers from 0 to 1, drawn with a pointer or, by
// keyboard, with the arrow keys (space or enter draws, delete clears).
export function drawingPad({ size = 28, pixels = 280, label = "Draw a digit", brush = 1.1, onchange }) {
  const canvas = h("canvas", {
    class: "pixels pad", width: size, height: size, tabindex: "0", role: "application",
    "aria-label": `${label}. Arrow keys move, space draws, delete clears.`, style: { width: `${pixels}px`, height: `${pixels}px` },
  });
  let values = new Float32Array(size * size), at = [size / 2, size / 2], last = null;
  const changed = perFrame(() => onchange?.(rows()));
  const rows = () => Array.from({ length: size }, (_, y) => Array.from(values.slice(y * size, (y + 1) * size), (v) => Math.round(v * 1000) / 1000));
  const draw = () => {
    const context = canvas.getContext("2d"), image = context.createImageData(size, size);
    values.forEach((value, i) => image.data.set([value * 255, value * 255, value * 255, 255], 4 * i));
    context.putImageData(image, 0, 0);
    if (document.activeElement === canvas && last === null) { context.fillStyle = "#ffa666"; context.fillRect(Math.floor(at[0]), Math.floor(at[1]), 1, 1); }
  };
  const dab = (x, y) => {
    const reach = Math.ceil(brush) + 1;
    for (let j = Math.floor(y - reach); j <= y + reach; j++) for (let i = Math.floor(x - reach); i <= x + reach; i++) {
      if (i < 0 || j < 0 || i >= size || j >= size) continue;
      const far = Math.hypot(i + 0.5 - x, j + 0.5 - y), ink = Math.max(0, Math.min(1, brush + 0.5 - far));
      values[j * size + i] = Math.max(values[j * size + i], ink);
    }
  };
  const place = (event) => { const box = canvas.getBoundingClientRect(); return [(event.clientX - box.left) / box.width * size, (event.clientY - box.top) / box.height * size]; };
  const stroke = (to) => {
    const from = last ?? to, steps = Math.max(1, Math.ceil(2 * Math.hypot(to[0] - from[0], to[1] - from[1])));
    for (let k = 0; k <= steps; k++) dab(from[0] + (to[0] - from[0]) * k / steps, from[1] + (to[1] - from[1]) * k / steps);
    last = to; draw(); changed();
  };
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); last = null; stroke(place(event)); event.preventDefault(); });
  canvas.addEventListener("pointermove", (event) => last && event.buttons && stroke(place(event)));
  canvas.addEventListener("pointerup", () => { last = null; });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (move) at = at.map((value, axis) => Math.max(0, Math.min(size - 1, value + move[axis])));
    else if (event.key === " " || event.key === "Enter") { dab(at[0] + 0.5, at[1] + 0.5); changed(); }
    else if (event.key === "Delete" || event.key === "Backspace") { canvas.clear(); }
    else return;
    event.preventDefault(); draw();
  });
  canvas.addEventListener("focus", draw);
  canvas.addEventListener("blur", draw);
  canvas.clear = () => { values.fill(0); draw(); changed(); };
  canvas.set = (picture) => { values = Float32Array.from(picture.flat()); draw(); };
  Object.defineProperty(canvas, "value", { get: rows });
  draw();
  return canvas;
}
