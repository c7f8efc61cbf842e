// A translation as it is typed, with its alignment, its alternatives and its heads.

import { headGrid, strongest, tokenLinks, tokenMap, tokenRow } from "../heads.js";
import { bars, controls, figure, h, number, percent, replace, select, slider, table, textBox } from "../widgets.js";

const capital = (text) => text[0].toUpperCase() + text.slice(1);

export default async function translation(view) {
  const { first } = view, names = ["text", "beam", "layer", "head", "map", "off"];
  const values = { ...Object.fromEntries(names.map((name) => [name, first[name]])), ...view.state };
  let shown = null, pinned = null, hovered = null, pointed = null;
  const layer = () => first.layers.find((each) => each.name === values.layer), kind = () => (values.layer.includes("cross") ? "cross" : values.layer.startsWith("encoder") ? "encoder" : "decoder");
  const hover = (query) => { if (hovered !== query || pointed !== null) { hovered = query; pointed = null; look(); } };
  const point = (key) => { if (pointed !== key) { pointed = key; look(); } };
  const pin = (query) => { pinned = pinned === query ? null : query; look(); };

  const box = textBox({ label: "Text", value: values.text, rows: 2, maxlength: first.characters, onchange: (text) => change({ text }) });
  const width = slider({ label: "beam width", min: 1, max: first.beams, step: 1, value: values.beam, onchange: (beam) => change({ beam }) });
  const which = select({ label: "Show", options: [["head", "the chosen head"], ["mean", "mean over the heads of its layer"]], value: values.map, onchange: (map) => change({ map }) });
  const source = tokenRow({ label: "Source tokens", onhover: (index) => (kind() === "encoder" ? hover(index) : point(index)), onpick: (index) => kind() === "encoder" && pin(index) });
  const target = tokenRow({ label: "Written tokens: choose one to see where it looked and what else it could have been", onhover: (index) => (kind() === "encoder" ? choose(index) : hover(index)), onpick: pin });
  const grid = headGrid({ layers: first.layers, onpick: (name, head) => change({ layer: name, head }), onremove: (off) => change({ off }) });
  const map = tokenMap({ room: 380, onhover: hover, onpick: pin }), links = tokenLinks({ onhover: hover, onpick: pin });
  const text = h("p", { class: "translated", "aria-live": "polite" }), finding = h("p", { class: "finding" }), heading = h("h2", {}), others = h("div", { class: "stack" }), beams = h("div", {});
  const likely = bars({ label: "Likeliest tokens at this place" });
  let chosen = null;
  const choose = (index) => { chosen = index; alternatives(index); };

  function alternatives(index) {
    const place = shown.written[index ?? pinned ?? shown.written.length - 1] ?? shown.written.at(-1);
    replace(others, h("h2", {}, "Alternatives"), h("p", {}, "At ", h("bdi", { class: "mono" }, place.token), ", written with ", figure(place.share, percent(place.share)), ":"), likely);
    likely.update(place.alternatives.map(([name, value]) => ({ name, value, best: name === place.token })));
  }

  function look() {
    const { map: rows, queries, keys, written } = shown, valid = (index, list) => (index !== null && index < list.length ? index : null);
    const query = valid(hovered, queries) ?? valid(pinned, queries), key = kind() === "cross" ? valid(pointed, keys) : null;
    const weights = query === null || key !== null ? null : rows[query];
    const tokens = written.map((each) => each.token), titles = written.map((each) => percent(each.share));
    source.update({ tokens: shown.source, weights: kind() === "decoder" ? null : weights, chosen: kind() === "encoder" ? query : key });
    // The decoder's keys begin with the start, so that a token stands one place later among them.
    target.update({ tokens, titles, weights: key !== null ? rows.map((row) => row[key]) : kind() === "decoder" && weights ? tokens.map((_, i) => weights[i + 1] ?? 0) : null, chosen: kind() === "encoder" ? chosen : key === null ? query : null });
    map.update({ rows, queries, keys, query: key === null ? query : null, said: `Attention weights from ${queries.length} to ${keys.length} tokens` });
    links.update({ rows, queries, keys, query: key === null ? query : null });
    if (kind() !== "encoder") alternatives(query); else alternatives(chosen);
    replace(finding, key !== null ? [h("bdi", { class: "mono" }, keys[key]), " is looked at by ", strongest(rows.map((row) => row[key]), queries)]
      : query === null ? h("span", { class: "muted" }, "Point at a token to see where it looks; a click keeps it.") : [h("bdi", { class: "mono" }, queries[query]), " looks at ", strongest(rows[query], keys)]);
  }

  function show(answer) {
    shown = answer;
    const removed = values.off.length;
    replace(text, h("bdi", { "data-translation": answer.translation }, answer.translation || "(nothing)"), removed && answer.before !== answer.translation ? h("span", { class: "note" }, " with all heads: ", h("bdi", {}, answer.before)) : null);
    grid.update({ glance: answer.glance, layer: values.layer, head: values.map === "head" ? values.head : null, off: values.off });
    heading.textContent = capital(values.map === "mean" ? `${layer().title}, mean over its heads` : `${layer().title}, head ${values.head + 1}`);
    replace(beams, answer.beams.length > 1 ? table({ caption: "What the beam search found: ln p over the length factor", columns: ["translation", { name: "score", numeric: true }], rows: answer.beams.map((each) => [h("bdi", {}, each.text), figure(each.score, number(each.score, 3))]) }) : null);
    look();
  }

  async function change(changes) {
    Object.assign(values, changes);
    view.set(changes);
    if (values.text.trim()) show(await view.ask("translate", values)); else replace(text, h("span", { class: "muted" }, "Write something to translate; below is what was there before."));
  }

  view.root.append(controls(box, width), h("div", { class: "panel" }, h("h2", {}, "Translation"), text, source, target, finding, beams),
    h("div", { class: "headpanels" }, h("div", { class: "panel" }, h("h2", {}, "All heads"), grid), h("div", { class: "panel" }, others)),
    h("div", { class: "panel" }, heading, controls(which), h("div", { class: "row" }, map, links)));
  if (Object.keys(view.state).length && values.text.trim()) show(await view.ask("translate", values)); else if (first.shown) show(first.shown);
}
