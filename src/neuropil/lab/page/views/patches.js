// Attention over the patches of a picture: where each head looks from a chosen patch, drawn over the picture.

import { chooser, gallery } from "../chooser.js";
import { answerBars, headGrid, overlay, strongest } from "../heads.js";
import { button, buttons, figure, h, inTurn, number, picture, replace, textBox } from "../widgets.js";

export default async function patches(view) {
  const { first } = view, [rows, columns] = first.grid, clip = first.texts !== null;
  const values = { layer: first.layer, head: first.head, query: first.query, off: first.off };
  for (const name of Object.keys(values)) if (view.state[name] !== undefined) values[name] = view.state[name];
  let shown = null, example = Math.min(view.state.example ?? 0, first.examples.length - 1);
  const choice = clip
    ? h("div", { class: "stack" }, h("h3", {}, "Held-out pictures"), gallery({ label: "Held-out pictures", pictures: first.examples, value: example, pixels: 64, onchange: (index) => { example = index; view.set({ example }); ask(); } }))
    : chooser({ view, first, onchange: () => ask() });
  const ask = inTurn(async () => show(await view.ask("look", { ...values, ...(clip ? { example } : choice.chosen.request) })));
  const change = (changes) => { Object.assign(values, changes); view.set(changes); ask(); if (clip && changes.off) compare(); };
  const place = (index) => `row ${Math.floor(index / columns) + 1}, column ${index % columns + 1}`;
  const looker = () => (values.query < 0 ? "the class token" : `the patch at ${place(values.query)}`);

  const whole = first.class_token ? button("Class token", () => change({ query: -1 }), { pressed: values.query < 0 }) : null;
  const grid = headGrid({ layers: first.layers, unit: "patches", onpick: (layer, head) => change({ layer, head }), onremove: (off) => change({ off }) });
  const one = overlay({ grid: first.grid, label: "The chosen head over the picture", onpick: (query) => change({ query }) });
  const all = overlay({ grid: first.grid, label: "Rollout over the picture", onpick: (query) => change({ query }) });
  const heading = h("h3", {}), finding = h("p", { class: "finding", role: "status" }), answers = h("div", { class: "panel" });
  const names = Array.from({ length: rows * columns }, (_, index) => place(index));

  function show(answer) {
    shown = answer;
    const layer = first.layers.find((each) => each.name === values.layer), map = answer.glance.find((each) => each.name === values.layer).maps[values.head];
    grid.update({ ...values, glance: answer.glance.map((each) => ({ ...each, pictures: each.maps.map(asBytes) })) });
    one.update({ picture: answer.picture, map, query: values.query });
    all.update({ picture: answer.picture, map: answer.rollout, query: values.query });
    whole?.setAttribute("aria-pressed", String(values.query < 0));
    heading.textContent = `${layer.title[0].toUpperCase()}${layer.title.slice(1)}, head ${values.head + 1}`;
    const flat = map.flat(), kept = 1 - flat.reduce((sum, weight) => sum + weight, 0);
    replace(finding, `${looker()[0].toUpperCase()}${looker().slice(1)} looks at `, strongest(flat, names, 3), first.class_token ? ["; at the class token ", figure(kept, number(Math.max(0, kept), 3))] : null, ".");
    if (clip) match(); else answered(answer.answers);
  }

  const similarity = clip ? texts(view, first, (given) => compare(given)) : null;
  let lines = view.state.texts ?? first.texts, matched = first.match;
  async function compare(given = lines) {
    lines = given;
    view.set({ texts: given });
    matched = await view.ask("compare", { texts: given, off: values.off });
    match();
  }
  function match() {
    similarity.update(lines, matched, example);
    const best = lines.map((name, index) => ({ name, before: matched.before[index][example], after: matched.probabilities[index][example] })).sort((a, b) => b.after - a.after);
    answered([{ title: "Which text fits this picture", rows: best }]);
  }
  function answered(each) {
    const removed = values.off.length;
    replace(answers, h("h2", {}, removed ? `Answer without ${removed} head${removed > 1 ? "s" : ""}` : "Answer"), each.map((one) => answerBars(one, removed > 0)));
  }

  view.root.append(choice,
    h("div", { class: "panel" }, h("h2", {}, "Where it looks"), h("p", { class: "note" }, `Click a patch, or choose it with the arrow keys and Enter, to see where it looks${first.class_token ? "; the class token stands for the whole picture" : ""}.`), whole ? buttons(whole) : null,
      h("div", { class: "row" }, h("div", { class: "stack" }, heading, one), h("div", { class: "stack" }, h("h3", {}, "Rollout through all layers"), all)), finding),
    h("div", { class: "headpanels" }, h("div", { class: "panel" }, h("h2", {}, "All heads"), grid), answers), clip ? similarity : "");
  const changed = Object.keys(view.state).length;
  if (clip && changed) matched = await view.ask("compare", { texts: lines, off: values.off });
  if (changed) await ask(); else show(first.shown);
}

// Each head by its own largest weight, in the bytes of a thumbnail.
function asBytes(map) {
  const most = Math.max(...map.flat(), 1e-9);
  return map.map((row) => row.map((weight) => Math.round(255 * Math.sqrt(Math.max(0, weight) / most))));
}

// Texts beside pictures: the cosine of each pair.
function texts(view, first, onchange) {
  const wanted = inTurn((given) => onchange(given));
  const box = textBox({ label: `Texts, one a line (${first.texts.length} at most)`, rows: 5, value: (view.state.texts ?? first.texts).join("\n"), maxlength: 900, onchange: (value) => {
    const given = value.split("\n").map((text) => text.trim()).filter(Boolean).slice(0, first.texts.length);
    if (given.length) wanted(given);
  } });
  const matrix = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Cosine of each text and picture" });
  const element = h("div", { class: "panel" }, h("h2", {}, "Texts and pictures"), box, h("p", { class: "note" }, "Cosine of each text and picture, from −1 to 1; the text that fits a picture best is framed."), matrix);
  element.update = (given, { similarity }, chosen) => {
    const best = similarity[0].map((_, column) => { const values = similarity.map((row) => row[column]); return values.indexOf(Math.max(...values)); });
    replace(matrix, h("table", { class: "matrix" },
      h("thead", {}, h("tr", {}, h("td", {}), first.examples.map((each, index) => h("th", { scope: "col", class: index === chosen ? "chosen" : "" }, picture(each.picture, { pixels: 38, label: `Picture ${index + 1}: ${each.name}` }))))),
      h("tbody", {}, given.map((text, row) => h("tr", {}, h("th", { scope: "row" }, text), similarity[row].map((value, column) => h("td", {
        class: best[column] === row ? "numeric best" : "numeric", "data-text": row, "data-picture": column,
        style: { background: `color-mix(in srgb, var(${value < 0 ? "--below" : "--above"}) ${(60 * Math.abs(value)).toFixed(0)}%, transparent)` },
      }, figure(value, value.toFixed(2).replace("-", "−")))))))));
  };
  return element;
}
