// Attention over a typed text: all heads, one head, and the answer without some of them.

import { answerBars, headGrid, strongest, tokenLinks, tokenMap, tokenRow } from "../heads.js";
import { buttons, button, controls, h, number, replace, select, textBox } from "../widgets.js";

const MAPS = [["head", "the chosen head"], ["mean", "mean over the heads of its layer"], ["rollout", "rollout through all layers"]];

export default async function attention(view) {
  const { first } = view, values = { text: first.text, layer: first.layer, head: first.head, map: first.map, off: first.off, ...view.state };
  let shown = null, pinned = null, hovered = null;
  const title = (name) => first.layers.find((layer) => layer.name === name)?.title ?? name;
  const pin = (query) => { pinned = pinned === query ? null : query; look(); };
  const hover = (query) => { if (hovered !== query) { hovered = query; look(); } };

  const box = textBox({ label: "Text", value: values.text, rows: 2, maxlength: first.characters, onchange: (text) => change({ text }) });
  const grid = headGrid({ layers: first.layers, onpick: (layer, head) => change({ layer, head, map: values.map === "rollout" ? "head" : values.map }), onremove: (off) => change({ off }) });
  const answers = h("div", { class: "panel" });
  const which = select({ label: "Show", options: MAPS, value: values.map, onchange: (map) => change({ map }) });
  const heading = h("h2", {}), finding = h("p", { class: "finding", "aria-live": "polite" });
  const row = tokenRow({ label: "Tokens: choose one to see where it looks", onhover: hover, onpick: pin });
  const map = tokenMap({ onhover: hover, onpick: pin }), links = tokenLinks({ onhover: hover, onpick: pin });
  const insert = first.mask ? button(`Insert ${first.mask}`, () => {
    const input = box.input, at = input.selectionStart;
    box.set(`${input.value.slice(0, at)}${first.mask}${input.value.slice(input.selectionEnd)}`);
    input.focus();
    change({ text: input.value });
  }) : null;

  function look() {
    const { tokens, map: rows } = shown, valid = (index) => (index !== null && index < tokens.length ? index : null), query = valid(hovered) ?? valid(pinned);
    row.update({ tokens, weights: query === null ? null : rows[query], chosen: query });
    map.update({ rows, queries: tokens, keys: tokens, query, said: said(rows, tokens) });
    links.update({ rows, queries: tokens, keys: tokens, query });
    replace(finding, query === null ? h("span", { class: "muted" }, "Point at a token to see where it looks; a click keeps it.") : [h("bdi", { class: "mono" }, tokens[query]), " looks at ", strongest(rows[query], tokens)]);
  }
  const said = (rows, tokens) => {
    let best = [0, 0];
    rows.forEach((weights, q) => weights.forEach((weight, k) => { if (weight > rows[best[0]][best[1]]) best = [q, k]; }));
    return `Attention weights, ${tokens.length} tokens; the largest is ${number(rows[best[0]][best[1]], 3)}, from ${tokens[best[0]]} to ${tokens[best[1]]}`;
  };

  function show(answer) {
    shown = answer;
    grid.update({ glance: answer.glance, layer: values.map === "rollout" ? null : values.layer, head: values.map === "head" ? values.head : null, off: values.off });
    which.set(values.map);
    heading.textContent = values.map === "rollout" ? "Rollout: how much of each token has reached each other through all layers" : values.map === "mean" ? `Mean over the heads of ${title(values.layer)}` : `Head ${values.head + 1} of ${title(values.layer)}`;
    const removed = values.off.length;
    replace(answers, h("h2", {}, removed ? `Answer without ${removed} head${removed > 1 ? "s" : ""}` : "Answer"), answer.answers.map((each) => answerBars(each, removed > 0)),
      answer.answers.length ? null : h("p", { class: "note" }, `Write ${first.mask} where a word is missing.`));
    look();
  }

  async function change(changes) {
    Object.assign(values, changes);
    view.set(changes);
    show(await view.ask("read", values));
  }

  view.root.append(box, insert ? buttons(insert) : "", h("div", { class: "headpanels" }, h("div", { class: "panel" }, h("h2", {}, "All heads"), grid), answers),
    h("div", { class: "panel" }, heading, controls(which), row, finding, h("div", { class: "row" }, map, links),
      h("p", { class: "note" }, "Attention weights show where information may flow from; by themselves they do not explain a prediction.")));
  show(Object.keys(view.state).length ? await view.ask("read", values) : first.shown);
}
