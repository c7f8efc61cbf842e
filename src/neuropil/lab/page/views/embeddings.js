// A map of words, their neighbours, analogies and the odd one out.

import { button, buttons, controls, h, number, replace, scatter, select, slider, spaced, textBox } from "../widgets.js";

const NAMED = 90; // of the words that a closer look shows, the most frequent

export default async function embeddings(view) {
  const { first } = view, { words } = first;
  const where = new Map(words.map((word, index) => [word, index]));
  let places = first.places, word = view.state.word ?? first.example, near = [], answers = null, zoom = view.state.zoom ?? 1;
  const terms = view.state.analogy ?? first.analogy;
  const map = scatter({ label: `Map of ${words.length} words`, pixels: Math.max(280, Math.min(680, view.root.clientWidth)), onpick: (point) => point && look(point.name), onhover: (point) => { hovered.textContent = point ? spaced(point.name) : "Point at a dot, or choose it, to see its word and neighbours."; } });
  const hovered = h("p", { class: "note" });
  const search = textBox({ label: "word", value: word, maxlength: first.characters, onchange: (value) => value && look(value, false) });
  const layout = select({ label: "layout", options: [["pca", `PCA of ${number(words.length)} words`], ["tsne", `t-SNE of ${number(Math.min(first.tsne, words.length))} words (slow)`]], onchange: async (value) => {
    hovered.textContent = value === "tsne" ? "t-SNE is computed once; this takes some seconds …" : "";
    ({ places } = await view.ask("layout", { layout: value }));
    hovered.textContent = "";
    draw();
  } });
  const closer = slider({ label: "zoom on the word", min: 1, max: 20, step: 0.5, value: zoom, show: (x) => `${number(x)} ×`, onchange: (value) => { zoom = value; view.set({ zoom }); draw(); } });
  const heading = h("h3", {}), list = h("div", { class: "near", role: "list" });
  const boxes = ["a", "b", "c"].map((name, i) => textBox({ label: name, value: terms[i], maxlength: first.characters, onchange: (value) => { terms[i] = value; if (terms.every(Boolean)) solve(); } }));
  const solved = h("div", { class: "near", role: "list", "aria-label": "Answers of the analogy" });
  const several = textBox({ label: "words, with spaces between them", value: first.odd.map((each) => each.trim()).join(" "), onchange: odd });
  const ranked = h("div", { class: "near", role: "list", "aria-label": "Words by their cosine with all of them together" });

  function draw() {
    const centre = places[where.get(word)], reach = 0.5 / zoom, chosen = new Set([word, ...near.map(([each]) => each)]);
    const parts = answers ? [...answers.asked, answers.answers[0][0]] : [];
    const inside = (at) => zoom === 1 || !centre || Math.abs(at[0] - centre[0]) <= reach && Math.abs(at[1] - centre[1]) <= reach;
    const faint = [], strong = [];
    places.forEach((at, index) => {
      const name = words[index], marked = chosen.has(name) || parts.includes(name);
      if (!inside(at)) return;
      (marked ? strong : faint).push({ x: at[0], y: at[1], name, key: name === word ? 4 : chosen.has(name) ? 2 : marked ? 3 : 5, size: name === word ? 6 : marked ? 4.5 : 2, faint: !marked, labelled: marked });
    });
    if (zoom > 1) for (const point of faint.slice(0, NAMED)) { point.labelled = true; point.faint = false; }
    const at = (name) => { const place = places[where.get(name)]; return place && { x: place[0], y: place[1] }; };
    const seen = (place) => place && inside([place.x, place.y]);
    const arrows = parts.length ? [[at(parts[1]), at(parts[0])], [at(parts[2]), at(parts[3])]].filter((pair) => pair.every(seen)) : [];
    map.update([...faint, ...strong], { arrows });
    map.setAttribute("aria-label", `Map of ${places.length} words; nearest to ${word}: ${near.slice(0, 5).map(([each]) => each).join(", ")}`);
  }

  const rows = (pairs, pick, last = null) => pairs.map(([each, cosine]) => h("div", { role: "listitem", class: each === last ? "odd" : "" },
    button(spaced(each), () => pick(each)), h("span", { class: "track" }, h("div", { class: "fill", style: { width: `${Math.max(0, 100 * cosine)}%` } })),
    h("span", { class: "numeric", "data-value": cosine, "data-name": each }, number(cosine, 3), where.has(each) && where.get(each) < places.length ? "" : " *")));

  async function look(next, typed = true) {
    const answer = await view.ask("neighbours", { word: next });
    word = answer.word; near = answer.neighbours;
    if (typed) search.set(word.trim());
    view.set({ word });
    replace(heading, "Nearest to ", h("code", {}, spaced(word)));
    replace(list, rows(near, look));
    draw();
  }

  async function solve() {
    answers = await view.ask("analogy", { a: terms[0], b: terms[1], c: terms[2] });
    view.set({ analogy: [...terms] });
    replace(solved, rows(answers.answers, look));
    draw();
  }

  async function odd(text) {
    const asked = text.split(/\s+/).filter(Boolean).slice(0, 12);
    if (new Set(asked).size < 3) return;
    const answer = await view.ask("odd", { words: asked }), last = answer.ranked.at(-1)[0];
    replace(ranked, rows(answer.ranked, look, last));
  }

  view.root.append(controls(search, layout, closer),
    h("div", { class: "wordmap" }, map, hovered),
    h("div", { class: "sides" },
      h("div", { class: "panel" }, heading, list),
      h("div", { class: "panel" }, h("h3", {}, "Analogy: a − b + c"), h("div", { class: "sum" }, boxes[0], h("span", {}, "−"), boxes[1], h("span", {}, "+"), boxes[2]), h("p", { class: "note" }, "a is to b as the answer is to c; the arrows on the map go from b to a and from c to the answer."), solved,
        buttons(button("Take the arrows away", () => { answers = null; draw(); }, { kind: "plain" }))),
      h("div", { class: "panel" }, h("h3", {}, "Odd one out"), several, ranked, h("p", { class: "note" }, "By the cosine with all of them together; the last is the odd one."))),
    h("p", { class: "note" }, `Vectors of ${first.width} numbers for ${number(first.vocabulary)} words; cosines in all of their dimensions, of which a map keeps two. * is not on the map.`));
  draw();
  await look(word);
  await solve();
  await odd(several.value);
}
