// The systems as a map from the neuron to the transformer, by family.

import { get, once } from "./api.js";
import { h, replace } from "./dom.js";
import { link } from "./lab.js";

const ORDER = ["biological neurons", "learning machinery", "feed-forward networks", "recurrent networks", "energy-based models", "generative models", "attention and transformers"];

export default async function home({ main, query }) {
  const [systems, views, runs] = await Promise.all([once("/api/systems"), once("/api/views"), get("/api/runs").catch(() => ({ runs: [] }))]);
  const of = new Map();
  for (const run of runs.runs) of.set(run.system, [...(of.get(run.system) ?? []), run]);
  const input = h("input", { type: "search", class: "search", placeholder: "Search: attention, spikes, forecast …", "aria-label": "Search the systems", value: query.get("q") ?? "" });
  const map = h("div", { class: "stack" }), found = h("p", { class: "note", role: "status" });
  const texts = new Map(systems.map((system) => [system, [system.name, title(system.name), system.name.replaceAll("_", " "), system.family, system.summary,
    ...views.filter((view) => view.systems.includes(system.name)).flatMap((view) => [view.title, view.idea])].join(" ").toLowerCase()]));
  const draw = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (system) => words.every((word) => texts.get(system).includes(stem(word)));
    const families = ORDER.map((family) => [family, systems.filter((system) => system.family === family && fits(system))]).filter(([, list]) => list.length);
    found.textContent = words.length && !families.length ? "No system has these words. Search for what goes in or comes out (text, picture, translation) or for a name (LSTM, GPT-2)." : words.length ? `${families.reduce((sum, [, list]) => sum + list.length, 0)} of ${systems.length} systems` : "";
    replace(map, families.map(([family, list]) => h("section", { class: "family", "aria-label": family }, h("h2", {}, capital(family), h("small", { class: "muted" }, String(list.length))),
      h("div", { class: "cards" }, list.map((system) => card(system, of.get(system.name) ?? []))))));
  };
  input.addEventListener("input", draw);
  replace(main, h("div", { class: "head" }, h("h1", {}, "Every network, from the neuron to the transformer"), input),
    h("p", { class: "muted" }, "Train one, look inside it, question it and break it: on the data that comes with it or on your own. Everything happens on this machine."), found, map);
  draw();
}

function card(system, runs) {
  const best = bestOf(runs);
  const state = runs.length ? `${runs.length} run${runs.length > 1 ? "s" : ""}${best ? ` · ${best.headline.title} ${best.headline.text}` : ""}` : system.views.length ? "no run yet" : "";
  return h("a", { class: "card", href: link(`/system/${system.name}`), "data-system": system.name },
    h("span", { class: "picture" }, h("img", { src: `/page/pictures/${system.name}.webp`, alt: "", loading: "lazy", decoding: "async" })),
    h("span", { class: "body" }, h("b", {}, title(system.name)), h("span", { class: "idea" }, system.summary), h("span", { class: "state muted" }, state)));
}

// "spikes" finds "spiking", and "translate" finds "translation".
const stem = (word) => word.replace(/(?<=.{4})(ations?|ating|ates?|ings?|ify|ers?|ed|es|s|e|y)$/, "");

export const NAMES = { lif: "LIF", hodgkin_huxley: "Hodgkin–Huxley", mlp: "MLP", cnn: "CNN", word2vec: "word2vec", rnn: "RNN", lstm: "LSTM", gru: "GRU", mingru: "minGRU", rbm: "RBM", vae: "VAE", gan: "GAN", seq2seq: "seq2seq", gpt2: "GPT-2", bert: "BERT", bert_classifier: "BERT classifier", vit: "ViT", clip: "CLIP" };
// Of the runs with the metric of the newest.
function bestOf(runs) {
  const known = runs.filter((run) => run.headline && run.headline.value !== null), metric = known[0]?.headline.metric;
  const sign = known[0]?.headline.better === "lower" ? 1 : -1;
  return known.filter((run) => run.headline.metric === metric).sort((a, b) => sign * (a.headline.value - b.headline.value))[0];
}

export const title = (name) => NAMES[name] ?? name.replaceAll("_", " ");
export const capital = (text) => text[0].toUpperCase() + text.slice(1);
