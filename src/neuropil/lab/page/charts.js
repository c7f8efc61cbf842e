// Pictures of numbers. Each returns an element with update(data), which is cheap enough for every movement of a slider.

import { colour, h, number, onTheme, perFrame, replace, svg } from "./dom.js";

const PAD = { left: 46, right: 10, top: 8, bottom: 30 };

function ticks(low, high, most = 5) {
  const span = high - low || 1, raw = span / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((k) => span / k <= most);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return found;
}

function extent(values, given) {
  if (given) return given;
  let low = Infinity, high = -Infinity;
  for (const value of values) if (value !== null && Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  if (low > high) return [0, 1];
  const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 0.5;
  return [low - room, high + room];
}

// lines({title, label, x, y, xRange, yRange, logY, height, onpoint, ondrag}); update({series: [{name, x, y, dots, low, high, key}], marks: [{x, text}], points}).
// A series with low and high is a band; one with dots has no line. onpoint(x, y) gets where the chart is clicked; ondrag(x, y, phase) a pointer that moves.
export function lines({ title = "", label = title, x = "", y = "", xRange, yRange, logY = false, width = 560, height = 240, legend = true, onpoint, ondrag }) {
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const caption = h("figcaption", {});
  const element = h("figure", { class: "chartbox" }, caption, drawing);
  const usual = { width, height }, inner = {};
  const measure = () => { inner.w = width - PAD.left - PAD.right; inner.h = height - PAD.top - PAD.bottom; drawing.setAttribute("viewBox", `0 0 ${width} ${height}`); };
  let last = { series: [] };
  let ranges = { x: xRange ?? [0, 1], y: yRange ?? [0, 1] };
  const up = (value) => (logY ? Math.log10(Math.max(value, 1e-30)) : value);
  const px = (value) => PAD.left + (value - ranges.x[0]) / (ranges.x[1] - ranges.x[0] || 1) * inner.w;
  const py = (value) => PAD.top + inner.h - (up(value) - ranges.y[0]) / (ranges.y[1] - ranges.y[0] || 1) * inner.h;

  element.update = (data) => {
    last = data;
    const { series = [], marks = [], xRange: xs = xRange, yRange: ys = yRange, label: said } = data;
    const every = series.flatMap((one) => [one.y, one.low, one.high].filter(Boolean).map((list) => list.map((v) => (v === null ? null : up(v))))).flat();
    const allX = series.flatMap((one) => one.x);
    ranges = { x: xs ?? tight(allX), y: extent(every, ys?.map(up)) };
    const parts = [];
    for (const tick of ticks(...ranges.y)) parts.push(
      svg("path", { class: "gridline", d: `M${PAD.left} ${pyRaw(tick)}H${width - PAD.right}` }),
      svg("text", { x: PAD.left - 6, y: pyRaw(tick) + 4, "text-anchor": "end" }, number(logY ? 10 ** tick : tick, 3)));
    const counts = allX.length > 0 && allX.every(Number.isInteger);
    for (const tick of ticks(...ranges.x, width < 360 ? 4 : 7)) if (!counts || Number.isInteger(tick)) parts.push(svg("text", { x: px(tick), y: height - PAD.bottom + 15, "text-anchor": "middle" }, number(tick, 4)));
    parts.push(svg("path", { class: "axis", d: `M${PAD.left} ${PAD.top}V${height - PAD.bottom}H${width - PAD.right}` }));
    if (x) parts.push(svg("text", { x: width - PAD.right, y: height - 2, "text-anchor": "end" }, x));
    if (y) parts.push(svg("text", { x: PAD.left + 4, y: PAD.top + 8 }, y));
    for (const mark of marks) parts.push(
      svg("path", { class: "cursor", d: `M${px(mark.x)} ${PAD.top}V${height - PAD.bottom}` }),
      mark.text ? svg("text", { x: px(mark.x) + 4, y: PAD.top + 20 }, mark.text) : null);
    series.forEach((one, index) => {
      const key = one.key ?? index % 6 + 1;
      if (one.low) parts.push(svg("path", { class: `band f${key}`, d: band(one) }));
      if (one.y && !one.dots) parts.push(svg("path", { class: `line s${key}`, d: path(one.x, one.y) }));
      if (one.dots) parts.push(...one.x.map((value, i) => svg("circle", { class: `f${key}`, cx: px(value), cy: py(one.y[i]), r: one.dots === true ? 3 : one.dots })));
    });
    drawing.replaceChildren(...parts.filter(Boolean));
    if (said) drawing.setAttribute("aria-label", said);
    const named = series.filter((one) => one.name);
    replace(caption, title ? h("b", {}, title) : null, legend && named.length > 1 ? named.map((one) => legendKey(one.name, one.key ?? series.indexOf(one) % 6 + 1, one.dots)) : null);
    caption.hidden = !caption.childNodes.length;
  };
  const tight = (values) => { let [low, high] = [Infinity, -Infinity]; for (const v of values) { low = Math.min(low, v); high = Math.max(high, v); } return low <= high ? [low, high === low ? low + 1 : high] : [0, 1]; };
  const pyRaw = (value) => PAD.top + inner.h - (value - ranges.y[0]) / (ranges.y[1] - ranges.y[0] || 1) * inner.h;
  const path = (xs, ys) => { let d = "", pen = "M"; for (let i = 0; i < xs.length; i++) { if (ys[i] === null || ys[i] === undefined) { pen = "M"; continue; } d += `${pen}${px(xs[i]).toFixed(1)} ${py(ys[i]).toFixed(1)}`; pen = "L"; } return d; };
  const band = (one) => `${path(one.x, one.high)}${path([...one.x].reverse(), [...one.low].reverse()).replace("M", "L")}Z`;
  const place = (event) => {
    const box = drawing.getBoundingClientRect(), scale = width / box.width;
    const left = (event.clientX - box.left) * scale - PAD.left, top = (event.clientY - box.top) * scale - PAD.top;
    const value = ranges.y[0] + (1 - top / inner.h) * (ranges.y[1] - ranges.y[0]);
    return [ranges.x[0] + left / inner.w * (ranges.x[1] - ranges.x[0]), logY ? 10 ** value : value];
  };
  if (onpoint) drawing.addEventListener("click", (event) => onpoint(...place(event)));
  if (ondrag) {
    const moved = perFrame((point) => ondrag(...point, "move"));
    drawing.style.setProperty("touch-action", "none");
    drawing.style.setProperty("user-select", "none");
    drawing.addEventListener("pointerdown", (event) => { drawing.setPointerCapture(event.pointerId); ondrag(...place(event), "down"); });
    drawing.addEventListener("pointermove", (event) => event.buttons && moved(place(event)));
    drawing.addEventListener("pointerup", (event) => ondrag(...place(event), "up"));
  }
  // Where there is less room than usual the drawing gets smaller, and not its letters.
  new ResizeObserver(() => {
    const room = Math.round(drawing.clientWidth), next = Math.min(usual.width, room);
    if (!room || next === width) return;
    width = next;
    height = Math.round(usual.height * Math.max(0.8, width / usual.width));
    measure();
    element.update(last);
  }).observe(drawing);
  measure();
  element.update(last);
  return element;
}

export function legendKey(name, key, dots = false) {
  const mark = dots ? svg("circle", { class: `f${key}`, cx: 11, cy: 4, r: 3.5 }) : svg("path", { class: `line s${key}`, d: "M1 4H21", "stroke-width": 2, fill: "none" });
  return h("span", { class: "key" }, svg("svg", { viewBox: "0 0 22 8", "aria-hidden": "true" }, mark), name);
}

// bars({label, most}); update([{name, value, best}]): shares from 0 to 1, or values with `max`.
export function bars({ label = "", show = (value) => `${(100 * value).toFixed(1)} %`, max = 1 }) {
  const element = h("div", { class: "bars", role: "list", "aria-label": label });
  element.update = (rows) => replace(element, rows.map(({ name, value, best }) => h("div", { class: best ? "line best" : "line", role: "listitem" },
    h("span", { class: "name", title: name }, name),
    h("span", { class: "track" }, h("div", { class: "fill", style: { width: `${Math.min(100, 100 * Math.abs(value ?? 0) / max)}%` } })),
    h("span", { class: "numeric", "data-value": value, "data-name": name }, show(value)))));
  return element;
}

// heatmap({label, scale, onpick, onhover}); update({rows: [[number]], low, high, rowNames, columnNames, said}).
// `scale`: "grey" for pictures, "up" from nothing to much, "both" around zero.
export function heatmap({ label = "", scale = "up", pixels = 220, square = true, onpick, onhover }) {
  const canvas = h("canvas", { class: scale === "grey" ? "pixels" : "pixels map", role: onpick ? "application" : "img", "aria-label": label, tabindex: onpick ? "0" : undefined });
  let shown = null, at = [0, 0];
  const element = canvas;
  element.update = (data) => {
    shown = data;
    const { rows } = data, [height, width] = [rows.length, rows[0]?.length ?? 0];
    if (!width) return;
    canvas.width = width; canvas.height = height;
    const size = square ? pixels / Math.max(width, height) : pixels / width;
    canvas.style.setProperty("width", `${Math.round(width * size)}px`);
    canvas.style.setProperty("aspect-ratio", `${width} / ${height}`);
    if (data.said) canvas.setAttribute("aria-label", data.said);
    paint(canvas, rows, scale, data.low, data.high);
    if (onpick && document.activeElement === canvas) outline();
  };
  const outline = () => { const context = canvas.getContext("2d"); context.fillStyle = "rgb(255 166 102 / 0.85)"; context.fillRect(at[1], at[0], 1, 1); };
  const cell = (event) => { const box = canvas.getBoundingClientRect(); return [Math.floor((event.clientY - box.top) / box.height * canvas.height), Math.floor((event.clientX - box.left) / box.width * canvas.width)]; };
  const valid = ([row, column]) => shown && shown.rows[row]?.[column] !== undefined;
  if (onhover) {
    canvas.addEventListener("pointermove", (event) => { const found = cell(event); if (valid(found)) onhover(...found, shown.rows[found[0]][found[1]]); });
    canvas.addEventListener("pointerleave", () => onhover(null, null, null));
  }
  if (onpick) {
    canvas.addEventListener("click", (event) => { const found = cell(event); if (valid(found)) { at = found; onpick(...found, shown.rows[found[0]][found[1]]); } });
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (move) { const next = [at[0] + move[0], at[1] + move[1]]; if (valid(next)) at = next; element.update(shown); outline(); onhover?.(...at, shown.rows[at[0]][at[1]]); }
      else if (event.key === "Enter" || event.key === " ") onpick(...at, shown.rows[at[0]][at[1]]);
      else return;
      event.preventDefault();
    });
    canvas.addEventListener("focus", () => shown && outline());
    canvas.addEventListener("blur", () => shown && element.update(shown));
  }
  onTheme(() => canvas.isConnected && shown && element.update(shown));
  return element;
}

export function paint(canvas, rows, scale = "up", low, high) {
  const [height, width] = [rows.length, rows[0].length];
  let [least, most] = [Infinity, -Infinity];
  if (low === undefined || high === undefined) for (const row of rows) for (const value of row) if (value !== null) { least = Math.min(least, value); most = Math.max(most, value); }
  least = low ?? (scale === "up" ? Math.min(0, least) : least); most = high ?? most;
  const reach = Math.max(Math.abs(least), Math.abs(most)) || 1;
  const paper = colour("--paper"), above = colour("--above"), below = colour("--below");
  const image = new ImageData(width, height);
  let i = 0;
  for (const row of rows) for (const value of row) {
    let share = 0, ends = [[0, 0, 0], [255, 255, 255]];
    if (value !== null) {
      if (scale === "grey") share = (value - least) / (most - least || 1);
      else if (scale === "both") { share = Math.abs(value) / reach; ends = [paper, value < 0 ? below : above]; }
      else { share = (value - least) / (most - least || 1); ends = [paper, above]; }
    } else ends = [paper, paper];
    share = Math.max(0, Math.min(1, share));
    for (let c = 0; c < 3; c++) image.data[i++] = ends[0][c] + (ends[1][c] - ends[0][c]) * share;
    image.data[i++] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// picture(rows, {pixels, label}): a grey or [r, g, b] picture of numbers from 0 to 255 or, with high: 1, to 1.
export function picture(rows, { pixels = 56, label = "", high = 255 } = {}) {
  const canvas = h("canvas", { class: "pixels", role: "img", "aria-label": label });
  canvas.update = (next) => {
    canvas.width = next[0].length; canvas.height = next.length;
    canvas.style.setProperty("width", `${pixels}px`);
    canvas.style.setProperty("aspect-ratio", `${canvas.width} / ${canvas.height}`);
    const image = new ImageData(canvas.width, canvas.height);
    next.flat().forEach((value, i) => { const [r, g, b] = Array.isArray(value) ? value : [value, value, value]; image.data.set([r, g, b].map((v) => v / high * 255).concat(255), 4 * i); });
    canvas.getContext("2d").putImageData(image, 0, 0);
  };
  canvas.update(rows);
  return canvas;
}

// scatter({label, xRange, yRange, onpick}); update([{x, y, name, key, size, glyph}], {highlight, arrows: [[from, to]]}) on a canvas: thousands of points;
// a glyph is written in place of a dot.
export function scatter({ label = "", pixels = 420, xRange, yRange, onpick, onhover, axes = false }) {
  const canvas = h("canvas", { class: "scatter", role: "img", "aria-label": label, width: 2 * pixels, height: 2 * pixels, style: { width: `${pixels}px`, "aspect-ratio": "1" } });
  let points = [], ranges = [[0, 1], [0, 1]], highlighted = new Set(), pointed = [];
  const px = (point) => [20 + (point.x - ranges[0][0]) / (ranges[0][1] - ranges[0][0]) * (canvas.width - 40), canvas.height - 20 - (point.y - ranges[1][0]) / (ranges[1][1] - ranges[1][0]) * (canvas.height - 40)];
  const css = (name) => `rgb(${colour(name).join(" ")})`;
  const draw = () => {
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    const colours = [1, 2, 3, 4, 5, 6].map((key) => css(`--line-${key}`)), ink = css("--ink"), rule = css("--rule");
    if (axes) { context.strokeStyle = rule; context.beginPath(); const [ox, oy] = px({ x: 0, y: 0 }); context.moveTo(ox, 0); context.lineTo(ox, canvas.height); context.moveTo(0, oy); context.lineTo(canvas.width, oy); context.stroke(); }
    context.font = "22px system-ui";
    for (const point of points) {
      const [x, y] = px(point);
      context.globalAlpha = point.faint ? 0.25 : 0.85;
      context.fillStyle = colours[((point.key ?? 1) - 1) % 6];
      if (point.glyph) { context.textAlign = "center"; context.fillText(point.glyph, x, y + 8); context.textAlign = "start"; continue; }
      context.beginPath(); context.arc(x, y, 2 * (point.size ?? 3), 0, 7); context.fill();
      if (point.name && (point.labelled || highlighted.has(point.name))) { context.globalAlpha = 1; context.fillStyle = ink; context.fillText(point.name, x + 8, y - 6); }
    }
    context.globalAlpha = 1;
    context.strokeStyle = context.fillStyle = css("--mark");
    context.lineWidth = 4;
    for (const [from, to] of pointed) {
      const [x0, y0] = px(from), [x1, y1] = px(to), angle = Math.atan2(y1 - y0, x1 - x0);
      const wing = (turn) => [x1 - 22 * Math.cos(angle + turn), y1 - 22 * Math.sin(angle + turn)];
      context.beginPath(); context.moveTo(x0, y0); context.lineTo(x1, y1); context.stroke();
      context.beginPath(); context.moveTo(x1, y1); context.lineTo(...wing(0.4)); context.lineTo(...wing(-0.4)); context.fill();
    }
  };
  canvas.update = (next, { highlight = [], arrows = [] } = {}) => {
    points = next; highlighted = new Set(highlight); pointed = arrows;
    ranges = [xRange ?? extent(points.map((p) => p.x)), yRange ?? extent(points.map((p) => p.y))];
    draw();
  };
  const value = (event) => {
    const box = canvas.getBoundingClientRect(), at = [(event.clientX - box.left) / box.width * canvas.width, (event.clientY - box.top) / box.height * canvas.height];
    return { at, x: ranges[0][0] + (at[0] - 20) / (canvas.width - 40) * (ranges[0][1] - ranges[0][0]), y: ranges[1][0] + (canvas.height - 20 - at[1]) / (canvas.height - 40) * (ranges[1][1] - ranges[1][0]) };
  };
  const nearest = ({ at }) => { let best = null, least = 900; for (const point of points) { const [x, y] = px(point), far = (x - at[0]) ** 2 + (y - at[1]) ** 2; if (far < least) { least = far; best = point; } } return best; };
  if (onpick) canvas.addEventListener("click", (event) => { const found = value(event); onpick(nearest(found), found.x, found.y); });
  if (onhover) canvas.addEventListener("pointermove", perFrame((event) => { const found = value(event); onhover(nearest(found), found.x, found.y); }));
  onTheme(() => canvas.isConnected && draw());
  return canvas;
}

// raster({label, height}); update({times, rows, groups, from, to, count}): spikes of neurons over time.
export function raster({ label = "", width = 560, height = 200 }) {
  const canvas = h("canvas", { class: "raster", role: "img", "aria-label": label, width: 2 * width, height: 2 * height, style: { width: "100%", "aspect-ratio": `${width} / ${height}` } });
  let shown = null;
  canvas.update = (data) => {
    shown = data;
    const context = canvas.getContext("2d"), { times, rows, from, to, count, keys } = data;
    context.clearRect(0, 0, canvas.width, canvas.height);
    const colours = [1, 2, 3, 4, 5, 6].map((key) => `rgb(${colour(`--line-${key}`).join(" ")})`);
    const tall = Math.max(2, Math.min(14, 0.8 * canvas.height / count));
    times.forEach((time, i) => { context.fillStyle = colours[((keys?.[i] ?? 1) - 1) % 6]; context.fillRect((time - from) / (to - from) * canvas.width - 1, canvas.height - (rows[i] + 0.5) / count * canvas.height - tall / 2, 2.5, tall); });
    if (data.said) canvas.setAttribute("aria-label", data.said);
  };
  onTheme(() => canvas.isConnected && shown && canvas.update(shown));
  return canvas;
}

export function sparkline(values) {
  const drawing = svg("svg", { class: "spark", viewBox: "0 0 110 28", "aria-hidden": "true" });
  const known = values.filter((value) => value !== null);
  if (known.length > 1) {
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const d = values.map((value, i) => (value === null ? "" : `${i && values[i - 1] !== null ? "L" : "M"}${(2 + 106 * i / (values.length - 1)).toFixed(1)} ${(25 - 22 * (value - low) / (high - low || 1)).toFixed(1)}`)).join("");
    drawing.append(svg("path", { class: "s1", d, fill: "none", "stroke-width": 1.6 }));
  }
  return drawing;
}

// table({caption, columns: [name | {name, numeric}], rows: [[cell]]})
export function table({ caption = "", columns, rows, whole = false }) {
  const heads = columns.map((each) => (typeof each === "string" ? { name: each } : each));
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption || heads.map((each) => each.name).join(", ") }, h("table", { class: whole ? "whole" : "" },
    caption ? h("caption", {}, caption) : null,
    h("thead", {}, h("tr", {}, heads.map((each) => h("th", { scope: "col", class: each.numeric ? "numeric" : "" }, each.name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) => h("td", { class: heads[i].numeric ? "numeric" : "" }, typeof cell === "number" ? number(cell) : cell)))))));
}
