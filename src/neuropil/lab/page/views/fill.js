// Fillings of a text with [MASK], and what was expected in the place of each other word.

import { button, buttons, colouredText, figure, h, number, percent, replace, textBox } from "../widgets.js";

export default async function fill(view) {
  const { first } = view, { mask } = first;
  let text = view.state.text ?? first.text, place = view.state.place ?? null, shown = null;
  const box = textBox({ label: `text, with ${mask} where a word is missing`, value: text, rows: 2, maxlength: first.characters, onchange: (value) => change({ text: value, place: null }) });
  const blanks = h("div", { class: "blanks" });
  const reading = colouredText({ label: "The text; the less a word was expected, the stronger its colour", onpick: (index) => change({ place: index }) });
  const said = h("p", { class: "note" }), expected = h("div", { class: "blank" });

  async function change(next) {
    ({ text = text } = next);
    if ("place" in next) place = next.place;
    view.set({ text, place });
    show("text" in next ? await view.ask("read", { text }) : shown);
  }

  const rows = (pairs, pick) => pairs.map(([word, share, whole]) => h("div", { role: "listitem" },
    button(word, () => pick(word, whole), { label: `Write ${word}` }),
    h("span", { class: "track" }, h("div", { class: "fill", style: { width: `${100 * share}%` } })),
    h("span", { class: "numeric", "data-value": share, "data-word": word }, percent(share))));

  // The n-th of the open places gets the word; the others stay open.
  function write(number, word) {
    const parts = text.split(mask);
    const joined = parts.reduce((left, right, i) => `${left}${i - 1 === number ? word : mask}${right}`);
    box.set(joined);
    return change({ text: joined, place: null });
  }

  // Where a token stands in the text, found from the left; null if the tokenizer has changed its letters.
  function span(index) {
    let at = 0;
    for (let i = 0; i <= index; i++) {
      const word = shown.tokens[i].replace(/^##/, ""), found = text.toLowerCase().indexOf(word.toLowerCase(), at);
      if (found < 0) return null;
      if (i === index) return [found, found + word.length];
      at = found + word.length;
    }
    return null;
  }

  function put(index, word) {
    const found = span(index);
    if (!found) return;
    const next = text.slice(0, found[0]) + word.replace(/^##/, "") + text.slice(found[1]);
    box.set(next);
    return change({ text: next, place: null });
  }

  function show(answer) {
    shown = answer;
    replace(blanks, answer.places.map((pairs, i) => h("div", { class: "blank" }, h("h3", {}, answer.places.length > 1 ? `Place ${i + 1}` : "Fillings"), h("div", { role: "list", "aria-label": `Words for place ${i + 1}` }, rows(pairs, (word) => write(i, word))))),
      answer.places.length ? null : h("p", { class: "note" }, `Write ${mask} where a word is missing, or choose a word below and hide it.`));
    const { tokens, bits, shares } = answer, known = bits.filter((value) => value !== null), mean = known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
    if (place !== null && place >= tokens.length) place = null;
    reading.update({ tokens, values: bits, high: 10, chosen: place, gaps: true, titles: tokens.map((token, i) => (shares[i] === null ? "open" : `${token}: expected with ${percent(shares[i], shares[i] < 0.01 ? 4 : 1)}`)) });
    replace(said, mean === null ? "" : ["Each word was hidden in turn and guessed from the others: the stronger the colour, the less it was expected, ", figure(mean, number(mean, 3)), " bits on average. Choose one to see what was."]);
    replace(expected, place === null ? "" : [h("h3", {}, "Expected in place of ", h("code", {}, tokens[place]), shares[place] === null ? "" : [", which had ", figure(shares[place], percent(shares[place], shares[place] < 0.01 ? 4 : 1))]),
      h("div", { role: "list", "aria-label": `Words expected in place of ${tokens[place]}` }, rows(answer.expected[place], (word) => put(place, word)))]);
    hide.disabled = place === null || shares[place] === null;
  }

  const hide = button("Hide the chosen word", () => put(place, mask));
  view.root.append(box, blanks, reading, said, buttons(hide), expected);
  show(Object.keys(view.state).length ? await view.ask("read", { text }) : first.shown);
}
