// The stages of a forward pass as small maps of numbers, in which any cell can be clicked or reached by keyboard.

import { colour, h, number, onTheme, replace } from "./dom.js";

const WRAPPED = 32, ACROSS = 96;
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

// Where each number of a shape is drawn: a vector in lines of 32, a matrix as it is, and maps side by side.
function layout(shape) {
  if (shape.length < 2) {
    const count = shape[0] ?? 1, columns = count <= 1.5 * WRAPPED ? count : WRAPPED;
    return { width: columns, height: Math.ceil(count / columns), place: (flat) => [Math.floor(flat / columns), flat % columns], flat: (y, x) => (x < columns && y * columns + x < count ? y * columns + x : null) };
  }
  if (shape.length === 2) return { width: shape[1], height: shape[0], place: (flat) => [Math.floor(flat / shape[1]), flat % shape[1]], flat: (y, x) => y * shape[1] + x };
  const [count, rows, columns] = shape, size = rows * columns;
  const across = Math.max(1, Math.min(count, Math.floor(ACROSS / (columns + 1)))), down = Math.ceil(count / across);
  return {
    width: across * (columns + 1) - 1, height: down * (rows + 1) - 1,
    place: (flat) => { const tile = Math.floor(flat / size), within = flat % size; return [Math.floor(tile / across) * (rows + 1) + Math.floor(within / columns), (tile % across) * (columns + 1) + within % columns]; },
    flat: (y, x) => {
      const tile = Math.floor(y / (rows + 1)) * across + Math.floor(x / (columns + 1)), row = y % (rows + 1), column = x % (columns + 1);
      return row < rows && column < columns && tile < count ? tile * size + row * columns + column : null;
    },
  };
}

function indexOf(flat, shape) {
  const index = [];
  for (const size of [...shape].reverse()) { index.unshift(flat % size); flat = Math.floor(flat / size); }
  return index;
}

// stageMap({onpick, tokens}); update(stage, tokens): onpick(index) gets the index of a number of the model.
export function stageMap({ onpick }) {
  const canvas = h("canvas", { class: "pixels map", tabindex: "0", role: "application" }), over = h("canvas", { class: "over", "aria-hidden": "true" });
  const line = h("output", { class: "note reading" }), title = h("figcaption", {}), box = h("div", { class: "scroll" }, h("div", { class: "layers" }, canvas, over));
  const element = h("figure", { class: "stage" }, title, box, line);
  let stage = null, values = null, grid = null, tokens = [], at = 0, marked = { chosen: null, makers: [] }, cell = 4;

  const indexAt = (flat) => { const index = indexOf(flat, stage.drawn); if (stage.columns) index[index.length - 1] = stage.columns[index[index.length - 1]]; return index; };
  const flatAt = (index) => {
    const within = [...index];
    if (stage.columns) within[within.length - 1] = stage.columns.indexOf(within[within.length - 1]);
    if (within.some((each, axis) => each < 0 || each >= stage.drawn[axis])) return null;
    return within.reduce((flat, each, axis) => flat * stage.drawn[axis] + each, 0);
  };
  const meaning = (axis, index, place) => {
    if (["time", "query", "key"].includes(axis) && tokens[index] !== undefined) return `${axis} ${index} “${tokens[index]}”`;
    if (axis === "class" && stage.names) return `${axis} ${index} “${stage.names[place]}”`;
    return `${axis} ${index}`;
  };
  const reading = (flat) => {
    const drawn = indexOf(flat, stage.drawn), index = indexAt(flat), byte = values[flat];
    const words = stage.axes.map((axis, place) => meaning(axis, index[place], drawn[place])).join(", ");
    return `${words || stage.title}: ${byte === 0 ? "hidden" : `about ${number((byte - 128) / 127 * stage.largest, 2)}`}`;
  };

  function paint() {
    const paper = colour("--paper"), above = colour("--above"), below = colour("--below"), image = new ImageData(grid.width, grid.height);
    for (let flat = 0; flat < values.length; flat++) {
      const [y, x] = grid.place(flat), byte = values[flat], share = byte === 0 ? 0 : Math.abs(byte - 128) / 127, end = byte < 128 ? below : above, i = 4 * (y * grid.width + x);
      for (let c = 0; c < 3; c++) image.data[i + c] = paper[c] + (end[c] - paper[c]) * share;
      image.data[i + 3] = byte === 0 ? 60 : 255;
    }
    canvas.width = grid.width; canvas.height = grid.height;
    canvas.getContext("2d").putImageData(image, 0, 0);
    for (const each of [canvas, over]) { each.style.setProperty("width", `${grid.width * cell}px`); each.style.setProperty("height", `${grid.height * cell}px`); }
    outline();
  }

  function outline() {
    const scale = 2;
    over.width = scale * grid.width * cell; over.height = scale * grid.height * cell;
    const context = over.getContext("2d"), ring = (flat, style, wide) => { const [y, x] = grid.place(flat); context.strokeStyle = style; context.lineWidth = scale * wide; context.strokeRect(scale * x * cell - 1, scale * y * cell - 1, scale * cell + 2, scale * cell + 2); };
    const mark = `rgb(${colour("--mark").join(" ")})`, ink = `rgb(${colour("--ink").join(" ")})`;
    for (const flat of marked.makers) ring(flat, ink, 0.75);
    if (marked.chosen !== null) ring(marked.chosen, mark, 1.5);
    if (document.activeElement === canvas) ring(at, mark, 1);
  }

  element.update = (next, words) => {
    stage = next; tokens = words;
    const shape = stage.shape.length ? stage.shape.join(" × ") : "1", part = stage.drawn.some((size, axis) => size !== stage.shape[axis]);
    replace(title, h("b", {}, stage.title), h("span", { class: "note" }, `${shape} · ${stage.axes.join(" × ")}${part ? `, of which ${stage.drawn.join(" × ")} are drawn` : ""}`));
    canvas.setAttribute("aria-label", `${stage.title}, ${stage.name}: ${shape} numbers. Arrow keys move, Enter opens.`);
    element.dataset.stage = stage.name;
    box.hidden = !stage.picture;
    if (!stage.picture) return;
    values = bytes(stage.picture); grid = layout(stage.drawn);
    cell = Math.max(3, Math.min(16, Math.floor(((box.clientWidth || 324) - 4) / grid.width)));
    at = Math.min(at, values.length - 1);
    paint();
  };

  // Which number of this stage is opened, and which of its numbers made it.
  element.mark = (chosen, makers) => {
    if (!grid) return;
    marked = { chosen: chosen && flatAt(chosen), makers: makers.map(flatAt).filter((flat) => flat !== null) };
    if (marked.chosen !== null) at = marked.chosen;
    outline();
  };

  const under = (event) => { const area = canvas.getBoundingClientRect(); return grid?.flat(Math.min(grid.height - 1, Math.floor((event.clientY - area.top) / area.height * grid.height)), Math.min(grid.width - 1, Math.floor((event.clientX - area.left) / area.width * grid.width))) ?? null; };
  canvas.addEventListener("pointermove", (event) => { const flat = under(event); line.textContent = flat === null ? "" : reading(flat); });
  canvas.addEventListener("pointerleave", () => { line.textContent = ""; });
  canvas.addEventListener("click", (event) => { const flat = under(event); if (flat !== null) { at = flat; onpick(indexAt(flat)); } });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (move) {
      const [y, x] = grid.place(at);
      for (let step = 1; step <= 2; step++) { // over the gap between two maps
        const flat = y + step * move[0] >= 0 && x + step * move[1] >= 0 && x + step * move[1] < grid.width && y + step * move[0] < grid.height ? grid.flat(y + step * move[0], x + step * move[1]) : null;
        if (flat !== null) { at = flat; break; }
      }
      const column = grid.place(at)[1];
      box.scrollLeft = Math.max(Math.min(box.scrollLeft, column * cell), (column + 1) * cell - box.clientWidth);
      line.textContent = reading(at);
    } else if (event.key === "Enter" || event.key === " ") onpick(indexAt(at));
    else return;
    event.preventDefault();
    outline();
  });
  canvas.addEventListener("focus", () => { outline(); if (values) line.textContent = reading(at); });
  canvas.addEventListener("blur", () => { outline(); line.textContent = ""; });
  onTheme(() => canvas.isConnected && values && paint());
  element.largest = () => { // of the last row: the answer
    const width = stage.drawn[stage.drawn.length - 1] ?? 1, from = values.length - width;
    let best = from;
    for (let flat = from; flat < values.length; flat++) if (values[flat] > values[best]) best = flat;
    return indexAt(best);
  };
  return element;
}
