// A plane of two numbers: a map of a function below, and points, paths and arrows over it.

import { colour, h, onTheme, perFrame } from "./dom.js";

const DASHES = [[], [12, 5], [4, 4], [18, 5, 4, 5], [8, 4], [24, 6]];
const KEYBOARD = 0.02;

// plane({label, xRange, yRange, pixels, tall, bands, onpoint}); map({rows, low, high, scale}), rows from the bottom up;
// over({paths: [{x, y, key}], points: [{x, y, key, size, open}], arrows: [{x, y, dx, dy, key}], said}). `scale` as of a heatmap,
// with `bands` steps of one colour each. onpoint(x, y) gets where it is pressed or dragged, or where arrow keys move to.
export function plane({ label = "", xRange = [0, 1], yRange = [0, 1], pixels = 420, tall = 1, bands = 0, onpoint }) {
  const canvas = h("canvas", {
    class: "plane", role: onpoint ? "application" : "img", tabindex: onpoint ? "0" : undefined, "aria-label": label, width: 2 * pixels, height: Math.round(2 * pixels * tall),
    style: { width: `${pixels}px`, "aspect-ratio": `${pixels} / ${Math.round(pixels * tall)}`, cursor: onpoint ? "crosshair" : "default" },
  });
  const ground = document.createElement("canvas");
  let shown = null, above = {}, at = null;
  const px = (x) => (x - xRange[0]) / (xRange[1] - xRange[0]) * canvas.width;
  const py = (y) => canvas.height - (y - yRange[0]) / (yRange[1] - yRange[0]) * canvas.height;
  const draw = () => {
    const context = canvas.getContext("2d"), ink = `rgb(${colour("--ink").join(" ")})`, paper = `rgb(${colour("--paper").join(" ")})`;
    const lines = [1, 2, 3, 4, 5, 6].map((key) => `rgb(${colour(`--line-${key}`).join(" ")})`), of = (key) => lines[((key ?? 1) - 1) % 6];
    context.clearRect(0, 0, canvas.width, canvas.height);
    if (shown) context.drawImage(ground, 0, 0, canvas.width, canvas.height);
    for (const { x, y, dx, dy, key } of above.arrows ?? []) {
      const [fromX, fromY, toX, toY] = [px(x), py(y), px(x + dx), py(y + dy)], turn = Math.atan2(toY - fromY, toX - fromX);
      if (Math.hypot(toX - fromX, toY - fromY) < 3) continue;
      context.strokeStyle = key ? of(key) : ink; context.lineWidth = 2;
      context.beginPath(); context.moveTo(fromX, fromY); context.lineTo(toX, toY);
      for (const side of [-0.5, 0.5]) { context.moveTo(toX, toY); context.lineTo(toX - 8 * Math.cos(turn + side), toY - 8 * Math.sin(turn + side)); }
      context.stroke();
    }
    for (const [width, style] of [[7, paper], [4, null]]) for (const { x, y, key } of above.paths ?? []) {
      context.strokeStyle = style ?? of(key); context.lineWidth = width; context.lineJoin = "round";
      context.setLineDash(style ? [] : DASHES[((key ?? 1) - 1) % 6]);
      context.beginPath();
      for (let i = 0; i < x.length && x[i] !== null && y[i] !== null; i++) context.lineTo(clamp(px(x[i])), clamp(py(y[i])));
      context.stroke();
    }
    context.setLineDash([]);
    for (const { x, y, key, size = 3, open } of above.points ?? []) {
      if (x === null || y === null) continue;
      context.beginPath(); context.arc(clamp(px(x)), clamp(py(y)), 2 * size, 0, 7);
      context.fillStyle = open ? paper : key ? of(key) : ink; context.fill();
      context.strokeStyle = open ? key ? of(key) : ink : paper; context.lineWidth = open ? 4 : 1.5; context.stroke();
    }
  };
  const clamp = (value) => Math.max(-4000, Math.min(4000, value));
  canvas.map = (data, ranges = {}) => { shown = data; xRange = ranges.xRange ?? xRange; yRange = ranges.yRange ?? yRange; paintGround(ground, data, bands, canvas); draw(); };
  canvas.over = (next) => { above = next; if (next.said) canvas.setAttribute("aria-label", next.said); draw(); };
  if (onpoint) {
    const place = (event) => {
      const box = canvas.getBoundingClientRect(), across = (event.clientX - box.left) / box.width, up = 1 - (event.clientY - box.top) / box.height;
      return [xRange[0] + Math.max(0, Math.min(1, across)) * (xRange[1] - xRange[0]), yRange[0] + Math.max(0, Math.min(1, up)) * (yRange[1] - yRange[0])];
    };
    const pressed = perFrame((event) => { at = place(event); onpoint(...at); });
    canvas.style.setProperty("touch-action", "none");
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); pressed(event); });
    canvas.addEventListener("pointermove", (event) => event.buttons && pressed(event));
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!move) return;
      event.preventDefault();
      const ranges = [xRange, yRange];
      at = (canvas.at ?? at ?? ranges.map(([low, high]) => (low + high) / 2)).map((value, axis) => Math.max(ranges[axis][0], Math.min(ranges[axis][1], value + move[axis] * KEYBOARD * (ranges[axis][1] - ranges[axis][0]))));
      canvas.at = at;
      onpoint(...at);
    });
  }
  onTheme(() => { if (canvas.isConnected) { if (shown) paintGround(ground, shown, bands, canvas); draw(); } });
  return canvas;
}

// At the resolution of the map, where drawing it larger smooths it; with bands at that of the canvas, so that their edges are sharp.
function paintGround(ground, { rows, low, high, scale = "up" }, bands, canvas) {
  const [down, across] = [rows.length, rows[0].length], [width, height] = bands ? [canvas.width / 2, Math.round(canvas.height / 2)] : [across, down];
  let [least, most] = [low, high];
  if (least === undefined || most === undefined) { const known = rows.flat().filter((value) => value !== null); least ??= Math.min(...known); most ??= Math.max(...known); }
  const paper = colour("--paper"), up = colour("--above"), under = colour("--below"), reach = Math.max(Math.abs(least), Math.abs(most)) || 1;
  const image = new ImageData(width, height);
  let i = 0;
  for (let row = 0; row < height; row++) {
    const y = height === 1 ? 0 : (height - 1 - row) / (height - 1) * (down - 1), y0 = Math.floor(y), y1 = Math.min(y0 + 1, down - 1);
    for (let column = 0; column < width; column++) {
      const x = width === 1 ? 0 : column / (width - 1) * (across - 1), x0 = Math.floor(x), x1 = Math.min(x0 + 1, across - 1);
      const value = (rows[y0][x0] * (x0 + 1 - x) + rows[y0][x1] * (x - x0)) * (y0 + 1 - y) + (rows[y1][x0] * (x0 + 1 - x) + rows[y1][x1] * (x - x0)) * (y - y0);
      let share = scale === "both" ? Math.abs(value) / reach : (value - least) / (most - least || 1);
      share = Math.max(0, Math.min(1, share));
      if (bands) share = Math.floor(share * bands) / bands;
      const end = scale === "both" && value < 0 ? under : up;
      for (let c = 0; c < 3; c++) image.data[i++] = paper[c] + (end[c] - paper[c]) * share * 0.75;
      image.data[i++] = 255;
    }
  }
  ground.width = width; ground.height = height;
  ground.getContext("2d").putImageData(image, 0, 0);
}
