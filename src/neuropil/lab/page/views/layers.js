// Gradients backward and the signal forward, layer by layer and step by step, for a run's weights or its first ones.

import { button, buttons, controls, h, lines, number, percent, replace, select, slider, table } from "../widgets.js";

const WORDS = { trained: "trained", initial: "before training" };
const TINY = 1e-20;

export default async function layers(view) {
  const { first, state } = view;
  const values = { weights: state.weights ?? first.weights, scale: state.scale ?? first.scale, examples: state.examples ?? first.examples };
  let shown = null, beside = null;
  const waiting = h("p", { class: "waiting", role: "status" }, "Reading the data that the run was trained on …");
  const gradients = lines({ title: "Gradient norm of each layer", x: "layer", logY: true, width: 480, height: 260 });
  const signal = lines({ title: "Spread of the signal in each layer", x: "layer", logY: true, width: 480, height: 260 });
  const memory = lines({ title: "Gradient of a cell's last output by its input", x: "steps before the last", logY: true, width: 480, height: 230 });
  const over = lines({ title: "Spread of the states at each time step", x: "time step", width: 480, height: 230 });
  const said = h("div", { class: "panel", "aria-live": "polite" }), list = h("div", {}), inTime = h("div", { class: "sides" }, memory, over);
  const weights = select({ label: "weights", options: Object.entries(WORDS), value: values.weights, onchange: (value) => { beside = null; change({ weights: value }); } });
  const scale = slider({ label: "scale of the weights", min: 0.1, max: 10, log: true, value: values.scale, show: (value) => `× ${number(value, 3)}`, onchange: (value) => change({ scale: Math.round(value * 1000) / 1000 }) });
  const examples = select({ label: "examples", options: [[8, "8"], [16, "16"], [64, "64"], [1024, "the whole batch"]], value: values.examples, onchange: (value) => { beside = null; change({ examples: value }); } });
  const one = button("As they are", () => { scale.set(1); change({ scale: 1 }); });

  async function change(next) {
    Object.assign(values, next);
    view.set(next);
    await read();
  }
  async function read() {
    shown = await view.ask("read", values);
    if (!beside) beside = values.scale === 1 ? shown : await view.ask("read", { ...values, scale: 1 });
    waiting.hidden = true;
    draw();
  }
  const known = (value) => (value === null || value === undefined ? null : Math.max(value, TINY));
  function flow(chart, part, title) {
    const series = (answer, name, key) => { const on = answer.layers.filter((layer) => layer[part] !== null); return { name, key, x: on.map((_, i) => i + 1), y: on.map((layer) => known(layer[part])) }; };
    const now = series(shown, `× ${number(values.scale, 3)}`, 1), plain = values.scale === 1 ? [] : [series(beside, "× 1", 5)];
    chart.update({ series: [now, { ...now, name: "", dots: 3 }, ...plain], label: `${title}: from ${number(now.y[0], 3)} in the first layer to ${number(now.y.at(-1), 3)} in the last` });
  }
  function draw() {
    flow(gradients, "flow", "Gradient norm");
    flow(signal, "spread", "Spread of the signal");
    const cells = Object.entries(shown.time), steps = Object.entries(shown.steps);
    inTime.hidden = !cells.length && !steps.length;
    memory.hidden = !cells.length;
    over.hidden = !steps.length;
    if (cells.length) memory.update({ series: cells.map(([name, norms]) => ({ name, x: norms.map((_, i) => i), y: norms.map(known) })), label: cells.map(([name]) => `${name}: ${shown.time_words[name].join(" ")}`).join(" ") });
    if (steps.length) over.update({ series: steps.map(([name, spreads]) => ({ name, x: spreads.map((_, i) => i + 1), y: spreads })), label: "Spread of the states at each time step" });
    replace(said, h("h3", {}, "Backward"), shown.gradient_words.map((words) => h("p", {}, words)), h("h3", {}, "Forward"), shown.signal_words.map((words) => h("p", {}, words)),
      cells.length ? [h("h3", {}, "In time"), cells.flatMap(([name, _]) => shown.time_words[name].map((words) => h("p", {}, cells.length > 1 ? `${name}: ` : "", words)))] : null);
    const on = shown.layers.filter((layer) => layer.flow !== null), place = new Map(on.map((layer, i) => [layer.name, i + 1]));
    const share = (value) => (value === null ? "–" : percent(value, 0));
    replace(list, table({
      caption: `The ${WORDS[values.weights]} weights × ${number(values.scale, 3)}; loss ${number(shown.loss)}`,
      columns: [{ name: "#", numeric: true }, "layer", { name: "weights", numeric: true }, { name: "gradient", numeric: true }, { name: shown.at_outputs ? "at its outputs" : "flow", numeric: true }, { name: "dead", numeric: true }, { name: "spread", numeric: true }, "activation", { name: "saturated", numeric: true }, { name: "silent", numeric: true }],
      rows: shown.layers.map((layer) => [place.get(layer.name) ?? "", layer.name, number(layer.parameter_norm, 3), h("span", { "data-value": layer.gradient_norm, "data-gradient": layer.name }, number(layer.gradient_norm, 3)), number(layer.flow, 3), share(layer.dead_share), h("span", { "data-value": layer.spread, "data-spread": layer.name }, number(layer.spread, 3)), layer.activation || "–", share(layer.saturated_share), share(layer.silent_share)]),
    }));
  }

  view.root.append(controls(weights, scale, examples), buttons(one), waiting, h("div", { class: "sides" }, gradients, signal), inTime, said, list);
  inTime.hidden = true;
  view.say("Reading the data that the run was trained on.");
  await read();
}
