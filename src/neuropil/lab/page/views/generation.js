// A text written token by token, with the probabilities of the next one before and after the filters.

import { button, buttons, colouredText, controls, figure, h, number, numberBox, percent, player, replace, slider, spaced, textBox } from "../widgets.js";

const SLIDERS = [
  ["temperature", "temperature", 0, 2, 0.01],
  ["top_k", "top-k (0 for all)", 0, 50, 1],
  ["top_p", "top-p (nucleus)", 0.01, 1, 0.01],
  ["min_p", "min-p", 0, 1, 0.01],
  ["repetition_penalty", "repetition penalty", 0.5, 2, 0.01],
];
const bits = (nats) => nats / Math.LN2;

export default async function generation(view) {
  const { first } = view;
  const sampling = Object.fromEntries(SLIDERS.map(([name]) => [name, view.state[name] ?? first[name]]));
  let text = view.state.text ?? first.text, written = view.state.written ?? [], place = view.state.place ?? null;
  const prompt = textBox({ label: "prompt", value: text, rows: 2, maxlength: first.characters, onchange: (value) => change({ text: value, written: [], place: null }) });
  const knobs = SLIDERS.map(([name, label, min, max, step]) => slider({ label, min, max, step, value: sampling[name], onchange: (value) => { sampling[name] = value; view.set({ [name]: value }); ask(); } }));
  const seed = numberBox({ label: "seed", value: view.state.seed ?? 0, min: 0, max: 2 ** 31, step: 1, onchange: (value) => view.set({ seed: value }) });
  const play = player({ label: "Play", onstep: step, perSecond: 8 });
  const reading = colouredText({ label: "The text; the more surprising a token was, the stronger its colour", onpick: (index) => change({ place: index || null }) });
  const said = h("p", { class: "note" }), asked = h("h3", {}), counts = h("p", { class: "note" });
  const table = h("div", { class: "candidates", role: "list", "aria-label": "Next tokens with their probabilities" });
  const lens = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "What each layer would predict" });
  const found = h("ol", { class: "continuations" });

  const request = () => ({ text, written, ...sampling });
  const ask = async () => show(await view.ask("read", { ...request(), place }));

  function change(next) {
    ({ text = text, written = written } = next);
    if ("place" in next) place = next.place;
    view.set({ text, written, place });
    return ask();
  }

  async function step() {
    let answer;
    try { answer = await view.ask("step", { ...request(), seed: seed.value ?? 0 }); } catch { return false; } // refused, or no longer wanted: what plays ends
    if (answer.ended) { view.say("The model ends the text here."); said.textContent = "The model ends the text here."; return false; }
    written = [...written, answer.token];
    place = null;
    view.set({ written, place });
    show(answer.shown);
    return true;
  }

  // Put a token after the place that is looked at; what came after it goes.
  function append(token) {
    const start = shown.tokens.length - written.length;
    if (place !== null && place < start) { prompt.set(shown.tokens.slice(0, place).join(first.separator)); return change({ text: prompt.value, written: [token], place: null }); }
    return change({ written: [...written.slice(0, place === null ? written.length : place - start), token], place: null });
  }

  let shown = null;
  function show(answer) {
    shown = answer;
    const { tokens, nats } = answer, known = nats.filter((value) => value !== null), mean = known.length ? bits(known.reduce((a, b) => a + b, 0) / known.length) : null;
    reading.update({
      tokens, values: nats.map((value) => (value === null ? null : bits(value))), high: 8, chosen: place, underlined: tokens.length - written.length,
      titles: nats.map((value, i) => (value === null ? "the first token" : `${spaced(tokens[i])}: ${number(bits(value), 3)} bits, probability ${percent(Math.exp(-value))}`)),
    });
    replace(said, mean === null ? "Nothing to be surprised at yet." : ["Colour: surprise of each token, here ", figure(mean, number(mean, 3)), " bits on average. Choose a token to see what was expected in its place."]);
    replace(asked, place === null ? "Next token" : ["Expected in place of ", h("code", {}, spaced(tokens[place]))]);
    const top = Math.max(...answer.candidates.flatMap(([, , before, after]) => [before, after]));
    replace(table, h("span", { class: "candidate", "aria-hidden": "true" }, h("span", {}), h("span", {}), h("span", { class: "head" }, "model"), h("span", { class: "head" }, "filtered")),
      answer.candidates.map(([token, label, before, after]) => h("div", { class: `candidate${after === 0 ? " gone" : ""}${token === answer.actual ? " actual" : ""}`, role: "listitem" },
        button(spaced(label), () => append(token), { label: `Append ${spaced(label)}` }),
        h("span", { class: "track" }, h("div", { class: "believed", style: { width: `${100 * before / top}%` } }), h("div", { class: "filtered", style: { width: `${100 * after / top}%` } })),
        h("span", { class: "numeric muted", "data-value": before, "data-token": token }, percent(before)),
        h("span", { class: "numeric", "data-value": after }, percent(after)))));
    const [before, after] = answer.entropies;
    replace(counts, figure(answer.kept, number(answer.kept)), ` of ${number(answer.vocabulary)} tokens may be drawn; the entropy is `, figure(after, number(after, 3)), " bits, before the filters ", figure(before, number(before, 3)), ".");
    if (answer.lens) replace(lens, h("table", { class: "lens" },
      h("tbody", {}, answer.lens.map((row, layer) => h("tr", {}, h("th", { scope: "row" }, layer ? `block ${layer}` : "embedding"),
        row.map(([label, share]) => h("td", { style: { "--share": share.toFixed(3) }, "data-value": share }, h("b", {}, spaced(label)), " ", h("span", {}, percent(share)))))))));
    undo.disabled = !written.length;
  }

  const undo = button("Undo", () => change({ written: written.slice(0, -1), place: null }));
  const beam = numberBox({ label: "beam width", value: 4, min: 2, max: 8, step: 1 });
  const search = button("Search", async () => {
    search.disabled = true;
    try {
      const answer = await view.ask("search", { text, written, beam: beam.value ?? 4 });
      replace(found, answer.continuations.map((each) => h("li", {}, h("b", {}, each.replaceAll("\n", "⏎")), " ", button("Take", () => { text = answer.text + each; prompt.set(text); return change({ written: [], place: null }); }, { label: `Take the continuation ${each}` }))));
    } finally { search.disabled = false; }
  });
  view.root.append(prompt,
    h("div", { class: "row" }, h("div", { class: "buttons" }, button("Step", step), play, undo, button("Erase what was written", () => change({ written: [], place: null })),
      button("Make it the prompt", () => { text = shown.text; prompt.set(text); return change({ written: [], place: null }); })), h("div", {}, seed)),
    reading, said,
    h("div", { class: "sides" }, h("div", { class: "stack" }, asked, table, counts), h("div", { class: "stack" }, h("h3", {}, "Filters"), h("div", { class: "stack" }, knobs))),
    first.shown.lens ? h("div", { class: "stack" }, h("h3", {}, "Logit lens"), h("p", { class: "note" }, "The likeliest next tokens if the model stopped after each block. Early layers were never trained to be read so."), lens) : "",
    h("div", { class: "panel" }, h("h3", {}, "Beam search"), h("p", { class: "note" }, "The likeliest next twelve tokens together, not the likeliest one by one."), controls(beam, buttons(search)), found));
  show(Object.keys(view.state).length ? await view.ask("read", { ...request(), place }) : first.shown);
}
