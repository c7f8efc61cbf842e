// A caption word by word, and where the model looks at each.

import { gallery } from "../chooser.js";
import { overlay, tokenRow } from "../heads.js";
import { bars, button, controls, figure, h, inTurn, number, percent, replace, slider } from "../widgets.js";

export default async function captions(view) {
  const { first } = view, values = { example: view.state.example ?? first.example, beam: view.state.beam ?? first.beam };
  let shown = null, pinned = view.state.word ?? 0, hovered = null;
  const ask = inTurn(async () => show(await view.ask("caption", values)));
  const change = (changes) => { Object.assign(values, changes); view.set(changes); ask(); };
  const pictures = gallery({ label: "Held-out pictures", pictures: first.examples, value: values.example, pixels: 56, onchange: (example) => change({ example }) });
  const width = slider({ label: "beam width", min: 1, max: first.beams, step: 1, value: values.beam, onchange: (beam) => change({ beam }) });
  const said = h("p", { class: "captioned", role: "status" }), references = h("p", { class: "note" });
  const row = tokenRow({ label: "Words of the caption: choose one to see where it looks", onhover: (index) => { hovered = index; look(); }, onpick: (index) => { pinned = index; view.set({ word: index }); look(); } });
  const large = overlay({ grid: first.grid, label: "Attention over the picture", pixels: 288 });
  const heading = h("h3", {}), finding = h("p", {}), likely = bars({ label: "Likeliest words at this place" }), film = h("div", { class: "pictures" });

  function look() {
    const words = shown.words, index = Math.min(hovered ?? pinned, words.length - 1), word = words[index];
    row.update({ tokens: words.map((each) => each.word), titles: words.map((each) => percent(each.share)), chosen: index });
    large.update({ picture: shown.picture, map: word.map });
    heading.textContent = word.word === "◁" ? "At the end of the caption" : `At “${word.word}”`;
    const flat = word.map.flat(), best = flat.indexOf(Math.max(...flat)), [, columns] = first.grid;
    replace(finding, "Said with ", figure(word.share, percent(word.share)), `; it looks most at row ${Math.floor(best / columns) + 1}, column ${best % columns + 1}, with weight `, figure(flat[best], number(flat[best], 3)), ".");
    likely.update(word.alternatives.map(([name, value]) => ({ name, value, best: name === word.word })));
    [...film.children].forEach((each, place) => each.classList.toggle("chosen", place === index));
  }

  function show(answer) {
    shown = answer;
    replace(said, h("bdi", { "data-caption": answer.caption }, answer.caption || "(nothing)"));
    replace(references, "Others say: ", answer.references.join("; "), ". ln p = ", figure(answer.log_probability, number(answer.log_probability, 3)), ".");
    replace(film, answer.words.map((each, index) => {
      const small = overlay({ grid: first.grid, label: `At ${each.word}`, pixels: 84 });
      small.update({ picture: answer.picture, map: each.map });
      return h("figure", { onpointerenter: () => { hovered = index; look(); }, onpointerleave: () => { hovered = null; look(); } }, small, h("figcaption", {}, each.word));
    }));
    look();
  }

  const turn = (by) => { pinned = (Math.min(pinned, shown.words.length - 1) + by + shown.words.length) % shown.words.length; view.set({ word: pinned }); look(); };
  view.root.append(h("div", { class: "stack" }, h("h3", {}, "Held-out pictures"), pictures), controls(width),
    h("div", { class: "panel" }, said, references, row, h("div", { class: "row" }, h("div", { class: "stack" }, large, h("div", { class: "buttons" }, button("Word before", () => turn(-1)), button("Next word", () => turn(1)))), h("div", { class: "grow stack" }, heading, finding, likely))),
    h("div", { class: "panel" }, h("h2", {}, "Word by word"), film));
  if (Object.keys(view.state).length) await ask(); else show(first.shown);
}
