// A few examples as pictures, texts, rows or curves: of data before training, and of what a model makes of a fixed set.

import { lines, picture, table } from "./charts.js";
import { h, number } from "./dom.js";

export function sample(found) {
  if (!found || found.kind === "none") return found?.reason ? h("p", { class: "note" }, found.reason) : null;
  if (found.kind === "pictures") return pictures(found);
  if (found.kind === "texts") return h("div", { class: "stack" }, found.texts.map(({ prompt, text }) => h("p", { class: "written", dir: "auto" }, prompt ? h("b", {}, prompt) : null, text)));
  if (found.kind === "pairs") return table({ columns: found.columns, rows: found.rows.map((row) => row.map((cell) => cell ?? "–")) });
  return h("div", { class: "sides" }, found.curves.map(curve));
}

function pictures({ count, height, width, channels, pixels, captions, right, originals }) {
  const decode = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const [made, given] = [decode(pixels), originals ? decode(originals) : null];
  const rows = (bytes, index) => Array.from({ length: height }, (_, y) => Array.from({ length: width }, (_, x) => {
    const at = ((index * height + y) * width + x) * channels;
    return channels === 3 ? [...bytes.slice(at, at + 3)] : bytes[at];
  }));
  return h("div", { class: "pictures" }, Array.from({ length: count }, (_, index) => h("figure", { class: right[index] === false ? "bad" : "" },
    given ? picture(rows(given, index), { pixels: 48, label: "given" }) : null,
    picture(rows(made, index), { pixels: 48, label: captions[index] ?? `example ${index + 1}` }), captions[index] ? h("figcaption", {}, captions[index]) : null)));
}

function curve({ name, history, forecast, truth, low, high }) {
  const chart = lines({ title: name, height: 160, width: 420 }), after = (values) => values.map((_, index) => history.length + index);
  chart.update({ series: [
    { name: "history", x: history.map((_, index) => index), y: history, key: 5 },
    ...(low?.length ? [{ x: after(low), y: null, low, high, key: 1 }] : []),
    ...(forecast?.length ? [{ name: "forecast", x: after(forecast), y: forecast, key: 1 }] : []),
    ...(truth?.length ? [{ name: "truth", x: after(truth), y: truth, key: 2 }] : []),
  ] });
  return chart;
}

// What was understood of data: its parts, columns, classes and what is odd about it.
export function dataPreview(found) {
  const { understood, parts, classes } = found;
  return h("section", { class: "panel data-preview" }, h("h2", {}, "What was understood of the data"),
    h("p", {}, found.source, ": ", Object.entries(parts).map(([part, count]) => `${number(count, 9)} ${understood.unit} for ${part}`).join(", "), understood.target ? `; to predict: ${understood.target}${understood.task ? ` (${understood.task})` : ""}` : "", "."),
    [...found.warnings, ...found.notes].map((sentence) => h("p", { class: "sentence" }, sentence)),
    h("div", { class: "sides" },
      understood.columns.length ? table({ caption: "Columns", columns: ["column", "kind", "values"], rows: understood.columns.slice(0, 30).map((each) => [each.name, each.kind, `${each.values.join(", ")}${each.count > each.values.length ? " …" : ""}${each.missing ? " (some are missing)" : ""}`]) }) : null,
      classes.length ? table({ caption: `Classes (${found.num_classes})`, columns: ["class", ...Object.keys(parts).map((part) => ({ name: part, numeric: true }))], rows: classes.slice(0, 20).map((each) => [each.name, ...Object.keys(parts).map((part) => each[part])]) }) : null),
    understood.sample ? [h("h3", {}, "A few of them"), sample(understood.sample)] : null);
}
