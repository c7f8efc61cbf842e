// Classes of a text as it is typed, the words that speak for one, and an attack by other words.

import { button, buttons, colouredText, controls, figure, h, number, percent, replace, slider, spaced, textBox } from "../widgets.js";

const MOST_CLASSES = 12;

export default async function textClassification(view) {
  const { first } = view;
  let text = view.state.text ?? first.text, label = view.state.label ?? null;
  const box = textBox({ label: "text", value: text, rows: 3, maxlength: first.characters, onchange: (value) => { text = value; view.set({ text }); ask(); } });
  const verdict = h("p", { class: "verdict", "aria-live": "polite" });
  const classes = h("div", { class: "classes", role: "list", "aria-label": "Probabilities of the classes" });
  const asked = h("h3", {}), words = colouredText({ label: "The text; blue words speak for the class, orange ones against it", scale: "both" }), note = h("p", { class: "note" });
  const share = slider({ label: "share of the words that may change", min: 0.05, max: 1, step: 0.05, value: first.words, show: (x) => percent(x, 0) });
  const near = slider({ label: "least cosine with the word", min: -1, max: 0.95, step: 0.05, value: first.similarity });
  const found = h("div", { class: "stack", "aria-live": "polite" });

  const ask = async () => show(await view.ask("classify", { text, label }));

  function show(answer) {
    const ranked = answer.probabilities.map((value, i) => [first.classes[i], value]).sort((a, b) => b[1] - a[1]);
    replace(verdict, "This is ", h("b", {}, ranked[0][0]), " with ", figure(ranked[0][1], percent(ranked[0][1])), ".");
    replace(classes, ranked.slice(0, MOST_CLASSES).map(([name, value]) => h("div", { role: "listitem" },
      button(name, () => { label = label === name ? null : name; view.set({ label }); ask(); }, { pressed: name === answer.label, label: `Weigh the words for ${name}` }),
      h("span", { class: "track" }, h("div", { class: "fill", style: { width: `${100 * value}%` } })),
      h("span", { class: "numeric", "data-value": value, "data-name": name }, percent(value)))));
    const values = answer.contributions, known = values.filter((value) => value !== null);
    replace(asked, "What each word adds to ", h("code", {}, answer.label), label === null ? ", the likeliest class" : "");
    words.update({
      tokens: answer.pieces, values, high: Math.max(0.02, ...known.map(Math.abs)),
      titles: values.map((value, i) => (value === null ? "" : `${answer.pieces[i]}: ${value < 0 ? "−" : "+"}${percent(Math.abs(value))}`)),
    });
    const best = values.map((value, i) => [answer.pieces[i], value]).filter(([, value]) => value !== null).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 3);
    replace(note, best.length ? [`Probability of ${answer.label} with the word, less that without it. Most: `, best.map(([word, value], i) => [i ? ", " : "", word, " ", h("span", { "data-value": value, "data-word": word }, `${value < 0 ? "−" : "+"}${percent(Math.abs(value))}`)]), ". Words that say the same cover for each other."] : "Type a word.");
  }

  const fool = button("Change words until the class changes", async () => {
    fool.disabled = true;
    try {
      const answer = await view.ask("attack", { text, words: share.value, similarity: near.value });
      replace(found, h("p", {}, answer.fooled ? ["Fooled: ", h("b", {}, answer.before), " became ", h("b", { "data-after": answer.after }, answer.after), "."] : ["Not fooled: it is still ", h("b", { "data-after": answer.after }, answer.after), ". Another search might do it."]),
        h("ul", { class: "swaps" }, answer.substitutions.map(([word, other]) => h("li", {}, h("s", {}, spaced(word)), " → ", spaced(other)))),
        buttons(button("Take the changed text", () => { text = answer.text; box.set(text); view.set({ text }); return ask(); })));
    } finally { fool.disabled = false; }
  });

  view.root.append(box, verdict, h("div", { class: "sides" }, classes, h("div", { class: "stack" }, asked, words, note)),
    h("div", { class: "panel" }, h("h3", {}, "Attack by word substitution"), h("p", { class: "note" }, "Words are replaced by near ones of the model's own embedding, the most important first. What is near for the model need not be a synonym for people."), controls(share, near), buttons(fool), found));
  show(Object.keys(view.state).length ? await view.ask("classify", { text, label }) : first.shown);
}
