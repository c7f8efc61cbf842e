// Pictures of attention that several views share: all heads in small, one map with its labels, links between two texts, and answers before and after.

import { button } from "./controls.js";
import { colour, figure, h, number, onTheme, percent, replace, svg } from "./dom.js";

const MOST_LETTERS = 12, FAINT = 0.02;
const short = (text) => { const letters = [...text]; return letters.length > MOST_LETTERS ? `${letters.slice(0, MOST_LETTERS - 1).join("")}…` : text; };
const css = (rgb, alpha = 1) => `rgb(${rgb.join(" ")} / ${alpha})`;
const mixed = (from, to, share) => from.map((part, i) => Math.round(part + (to[i] - part) * share));

// Weights are small for most: the square root tells them apart, here and in reports.
export const shade = (weight) => Math.sqrt(Math.max(0, Math.min(1, weight ?? 0)));

// headGrid({layers: [{name, title, heads, removable}], onpick(layer, head), onremove(off)}); update({glance, layer, head, off}).
export function headGrid({ layers, onpick, onremove, unit = "tokens" }) {
  let shown = null;
  const off = new Set(), cells = new Map();
  const key = (layer, head) => `${layer}:${head}`;
  const toggle = (keys, remove) => { for (const each of keys) if (remove) off.add(each); else off.delete(each); onremove([...off]); };
  const removable = layers.some((layer) => layer.removable);
  const cell = (layer, head) => {
    const canvas = h("canvas", { class: "thumb", "aria-hidden": "true" }), measures = h("span", { class: "measures" });
    const pick = h("button", { type: "button", class: "pick", onclick: () => onpick(layer.name, head), "data-head": key(layer.name, head) }, canvas);
    const box = h("input", { type: "checkbox", checked: true, "aria-label": `keep head ${head + 1} of ${layer.title}`, onchange: () => toggle([key(layer.name, head)], !box.checked) });
    const element = h("div", { class: "headcell" }, pick, layer.removable ? h("label", {}, box, String(head + 1)) : null, measures);
    cells.set(key(layer.name, head), { canvas, pick, box, measures, element, says: `head ${head + 1} of ${layer.title}` });
    return element;
  };
  const row = (layer) => {
    const keys = Array.from({ length: layer.heads }, (_, head) => key(layer.name, head));
    const whole = layer.removable ? button("all", () => toggle(keys, !keys.every((each) => off.has(each))), { kind: "plain small", label: `remove or restore all heads of ${layer.title}` }) : null;
    return h("div", { class: "layerrow" }, h("div", { class: "layername", title: layer.name }, layer.title, whole), h("div", { class: "headcells" }, keys.map((_, head) => cell(layer, head))));
  };
  const restore = button("Restore all", () => { off.clear(); onremove([]); });
  const note = h("p", { class: "note" }, "H: entropy of a head's weights in bits. d: mean distance that it looks, in ", unit, removable ? ". Untick a head to remove it." : ".");
  const element = h("div", { class: "headgrid" }, h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "All heads" }, layers.map(row)), note, removable ? restore : null);
  element.update = (data) => {
    shown = data;
    off.clear();
    for (const each of data.off ?? []) off.add(each);
    const paper = colour("--paper"), above = colour("--above");
    for (const layer of data.glance) layer.pictures.forEach((picture, head) => {
      const each = cells.get(key(layer.name, head));
      if (!each) return;
      const chosen = layer.name === data.layer && head === data.head, gone = off.has(key(layer.name, head));
      bytes(each.canvas, picture, paper, above);
      each.box.checked = !gone;
      each.element.classList.toggle("gone", gone);
      each.pick.setAttribute("aria-pressed", String(chosen));
      const far = layer.distance[head];
      each.pick.setAttribute("aria-label", `${each.says}${gone ? ", removed" : ""}: entropy ${number(layer.entropy[head], 3)} bits${far === null ? "" : `, distance ${number(far, 3)}`}`);
      replace(each.measures, "H ", figure(layer.entropy[head], number(layer.entropy[head], 2)), far === null ? null : [" d ", figure(far, number(far, 2))]);
    });
    restore.disabled = !off.size;
  };
  onTheme(() => element.isConnected && shown && element.update(shown));
  return element;
}

function bytes(canvas, rows, from, to) {
  const [height, width] = [rows.length, rows[0].length], image = new ImageData(width, height);
  canvas.width = width; canvas.height = height;
  let i = 0;
  for (const row of rows) for (const value of row) { image.data.set([...mixed(from, to, value / 255), 255], i); i += 4; }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// tokenMap({label, onhover(query, key), onpick(query)}); update({rows, queries, keys, query, said}): a heat map with tokens on both axes.
export function tokenMap({ label = "Attention weights", room = 300, onhover, onpick }) {
  const canvas = h("canvas", { class: "tokenmap", role: "img", "aria-label": label });
  const element = h("div", { class: "scroll mapbox", tabindex: "0", role: "group", "aria-label": "Weights of the head" }, canvas);
  let shown = null, place = null;
  element.update = (data) => {
    shown = data;
    const { rows, queries, keys, query = null } = data, scale = devicePixelRatio || 1;
    const size = Math.max(11, Math.min(26, Math.floor(room / Math.max(queries.length, keys.length))));
    const font = `${Math.min(13, size)}px ui-monospace, monospace`, context = canvas.getContext("2d");
    context.font = font;
    const side = (names) => Math.ceil(Math.max(...names.map((name) => context.measureText(short(name)).width))) + 8;
    const upright = keys.every((name) => [...name].length === 1), left = side(queries), top = upright ? size : side(keys), width = left + keys.length * size + 1, height = top + queries.length * size + 1;
    canvas.width = width * scale; canvas.height = height * scale;
    canvas.style.setProperty("width", `${width}px`);
    context.scale(scale, scale);
    context.font = font;
    place = { left, top, size };
    const paper = colour("--paper"), above = colour("--above"), ink = colour("--ink"), mark = colour("--mark"), rule = colour("--rule");
    rows.forEach((row, y) => row.forEach((weight, x) => { context.fillStyle = css(mixed(paper, above, shade(weight))); context.fillRect(left + x * size, top + y * size, size, size); }));
    context.strokeStyle = css(rule);
    context.strokeRect(left + 0.5, top + 0.5, keys.length * size, queries.length * size);
    context.textBaseline = "middle";
    queries.forEach((name, y) => { context.fillStyle = css(y === query ? mark : ink); context.textAlign = "right"; context.fillText(short(name), left - 4, top + (y + 0.5) * size); });
    keys.forEach((name, x) => { context.save(); context.translate(left + (x + 0.5) * size, upright ? top - size / 2 : top - 4); if (!upright) context.rotate(-Math.PI / 2); context.textAlign = upright ? "center" : "left"; context.fillStyle = css(ink); context.fillText(short(name), 0, 0); context.restore(); });
    if (query !== null) { context.strokeStyle = css(mark); context.lineWidth = 1.5; context.strokeRect(left + 0.5, top + query * size + 0.5, keys.length * size, size); }
    if (data.said) canvas.setAttribute("aria-label", data.said);
  };
  const cell = (event) => {
    const box = canvas.getBoundingClientRect(), found = [Math.floor((event.clientY - box.top - place.top) / place.size), Math.floor((event.clientX - box.left - place.left) / place.size)];
    return shown.rows[found[0]] === undefined ? [null, null] : [found[0], shown.rows[found[0]][found[1]] === undefined ? null : found[1]];
  };
  canvas.addEventListener("pointermove", (event) => shown && onhover?.(...cell(event)));
  canvas.addEventListener("pointerleave", () => onhover?.(null, null));
  canvas.addEventListener("click", (event) => { const [query] = cell(event); if (query !== null) onpick?.(query); });
  onTheme(() => element.isConnected && shown && element.update(shown));
  return element;
}

// tokenLinks({label, onhover(query)}); update({rows, queries, keys, query}): lines from each token to what it looks at.
export function tokenLinks({ label = "Links between tokens", onhover, onpick }) {
  const drawing = svg("svg", { class: "links", role: "img", "aria-label": label });
  const element = h("div", { class: "scroll linkbox", tabindex: "0", role: "group", "aria-label": "Links of the head" }, drawing);
  const STEP = 21, WIDTH = 300, SIDE = 96;
  let drawn = null;
  element.update = ({ rows, queries, keys, query = null }) => {
    const height = STEP * Math.max(queries.length, keys.length) + 6, y = (index) => STEP * index + 14;
    drawing.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
    drawing.style.setProperty("width", `${WIDTH}px`);
    const lines = [];
    rows.forEach((row, from) => (query === null || query === from) && row.forEach((weight, to) => weight > FAINT && lines.push(
      svg("path", { class: "link", d: `M${SIDE + 4} ${y(from)}L${WIDTH - SIDE - 4} ${y(to)}`, "stroke-opacity": (query === null ? weight : shade(weight)).toFixed(3), "stroke-width": 1 + 2 * weight }))));
    const chosen = query === null ? null : rows[query];
    const name = (text, index, right) => svg("g", { class: `linkname${!right && index === query ? " chosen" : ""}`, onpointerenter: right ? undefined : () => onhover?.(index), onclick: right ? undefined : () => onpick?.(index) },
      svg("rect", { x: right ? WIDTH - SIDE : 0, y: y(index) - 10, width: SIDE, height: 20, rx: 3, "fill-opacity": right && chosen ? shade(chosen[index]).toFixed(3) : 0 }),
      svg("text", { x: right ? WIDTH - SIDE + 4 : SIDE - 2, y: y(index) + 4, "text-anchor": right ? "start" : "end" }, short(text)));
    drawing.replaceChildren(...lines, ...queries.map((text, i) => name(text, i, false)), ...keys.map((text, i) => name(text, i, true)));
    drawn = { queries, keys };
  };
  element.addEventListener("pointerleave", () => drawn && onhover?.(null));
  return element;
}

// tokenRow({label, onhover(index), onpick(index)}); update({tokens, weights, chosen}): a text whose tokens are shaded, and can be chosen.
export function tokenRow({ label, onhover, onpick }) {
  const element = h("div", { class: "tokens", role: "group", "aria-label": label });
  let made = [];
  element.update = ({ tokens, weights = null, chosen = null, titles = null }) => {
    if (made.length !== tokens.length || made.some((each, i) => each.textContent !== tokens[i])) {
      made = tokens.map((token, index) => h("button", { type: "button", class: "token", dir: "auto", onpointerenter: () => onhover?.(index), onfocus: () => onhover?.(index), onblur: () => onhover?.(null), onclick: () => onpick?.(index) }, token));
      replace(element, made);
    }
    made.forEach((each, index) => {
      each.style.setProperty("background", weights ? `color-mix(in srgb, var(--above) ${(70 * shade(weights[index])).toFixed(1)}%, transparent)` : "none");
      each.classList.toggle("chosen", index === chosen);
      each.setAttribute("aria-pressed", String(index === chosen));
      if (weights) each.title = number(weights[index], 3); else each.removeAttribute("title");
      if (titles) each.title = titles[index];
    });
  };
  element.addEventListener("pointerleave", () => onhover?.(null));
  return element;
}

// strongest(row, names): in words, what one query looks at most.
export function strongest(weights, names, most = 5) {
  const order = weights.map((_, index) => index).sort((a, b) => weights[b] - weights[a]).slice(0, most);
  return order.flatMap((index, i) => [i ? ", " : "", h("bdi", { class: "mono" }, names[index]), " ", figure(weights[index], number(weights[index], 3))]);
}

// answerBars({title, rows: [{name, before, after}]}, changed): probabilities of the whole model, and without the removed heads; the longest bar is the largest.
export function answerBars({ title, rows }, changed) {
  const most = Math.max(...rows.flatMap(({ before, after }) => [before, after])) || 1;
  return h("div", {}, h("h3", {}, title), h("div", { class: "answers", role: "list", "aria-label": title }, rows.map(({ name, before, after }) => h("div", { class: "line", role: "listitem" },
    h("span", { class: "name mono", dir: "auto", title: name }, name),
    h("span", { class: "track" }, changed ? h("div", { class: "fill before", style: { width: `${100 * before / most}%` } }) : null, h("div", { class: "fill", style: { width: `${100 * after / most}%` } })),
    h("span", { class: "numeric" }, changed ? [h("span", { class: "muted", "data-before": before, "data-name": name }, percent(before)), " → "] : null, h("span", { "data-value": after, "data-name": name }, percent(after)))))));
}

// overlay({grid, label, onpick}); update({picture, map, query}): weights over the picture, and the patch that looks framed.
export function overlay({ grid: [rows, columns], label, pixels = 264, onpick }) {
  const canvas = h("canvas", { class: "patches", role: onpick ? "application" : "img", tabindex: onpick ? "0" : undefined, "aria-label": label });
  let shown = null, at = 0;
  canvas.update = (data) => {
    shown = data;
    const { picture: shades, map, query = -1 } = data, scale = pixels / Math.max(rows, columns), [height, width] = [shades.length, shades[0].length];
    canvas.width = columns * scale; canvas.height = rows * scale;
    canvas.style.setProperty("width", `${columns * scale}px`);
    const context = canvas.getContext("2d"), image = new ImageData(width, height), mark = colour("--below").join(" ");
    shades.flat().forEach((value, i) => image.data.set([...(Array.isArray(value) ? value : [value, value, value]).map((shade) => 0.75 * shade), 255], 4 * i));
    const small = new OffscreenCanvas(width, height);
    small.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, canvas.width, canvas.height);
    const most = Math.max(...map.flat(), 1e-9);
    map.forEach((row, y) => row.forEach((weight, x) => { context.fillStyle = `rgb(${mark} / ${(0.85 * (Math.max(0, weight) / most) ** 1.5).toFixed(3)})`; context.fillRect(x * scale, y * scale, scale, scale); }));
    context.strokeStyle = "rgb(128 128 128 / 0.45)";
    for (let x = 1; x < columns; x++) context.strokeRect(x * scale, -1, 0, canvas.height + 2);
    for (let y = 1; y < rows; y++) context.strokeRect(-1, y * scale, canvas.width + 2, 0);
    if (query >= 0) frame(query, "#ffffff", 3);
    if (document.activeElement === canvas) frame(at, `rgb(${colour("--accent").join(" ")})`, 2);
    const best = map.flat().indexOf(Math.max(...map.flat()));
    canvas.setAttribute("aria-label", `${label}: most at row ${Math.floor(best / columns) + 1}, column ${best % columns + 1}`);
    function frame(index, style, thick) { context.strokeStyle = style; context.lineWidth = thick; context.strokeRect(index % columns * scale + 2, Math.floor(index / columns) * scale + 2, scale - 4, scale - 4); context.lineWidth = 1; }
  };
  onTheme(() => canvas.isConnected && shown && canvas.update(shown));
  if (!onpick) return canvas;
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect(), x = Math.floor((event.clientX - box.left) / box.width * columns), y = Math.floor((event.clientY - box.top) / box.height * rows);
    at = Math.max(0, Math.min(rows - 1, y)) * columns + Math.max(0, Math.min(columns - 1, x));
    onpick(at);
  });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (move) at = Math.max(0, Math.min(rows - 1, Math.floor(at / columns) + move[0])) * columns + Math.max(0, Math.min(columns - 1, at % columns + move[1]));
    else if (event.key === "Enter" || event.key === " ") onpick(at);
    else return;
    event.preventDefault();
    if (shown) canvas.update(shown);
  });
  for (const name of ["focus", "blur"]) canvas.addEventListener(name, () => shown && canvas.update(shown));
  return canvas;
}
