// A value carried by many neurons: tuning curves, a decoded function, and the decoded value of their spikes.

import { compileNote, controls, figure, h, lines, number, player, buttons, raster, replace, select, slider } from "../widgets.js";

const SLIDERS = [
  ["value", "represented value x", "", -2, 2, 0.01],
  ["neurons", "neurons", "", 2, 400, 1],
  ["noise", "noise of the rates", "", 0.01, 1, 0.01],
  ["radius", "radius", "", 0.2, 2, 0.05],
  ["lowest", "lowest intercept", "", -1, 0.9, 0.05],
  ["highest", "highest intercept", "", -1, 0.9, 0.05],
  ["tau", "synaptic time constant", "ms", 1, 100, 1],
];
const SECONDS_AROUND = 6;

export default async function population(view) {
  const { first } = view, values = {}, knobs = {}, span = [0, first.duration];
  for (const name of [...SLIDERS.map(([each]) => each), "signal", "function"]) values[name] = view.state[name] ?? first[name];
  const sliders = SLIDERS.map(([name, label, unit, min, max, step]) => (knobs[name] = slider({ label, unit, min, max, step, value: values[name], onchange: (value) => change({ [name]: value }) })));
  knobs.function = select({ label: "decoded function", options: first.functions, value: values.function, onchange: (value) => change({ function: value }) });
  knobs.signal = select({ label: "signal over time", options: [["step", "step from 0 to x"], ["sine", "sine from −x to x"]], value: values.signal, onchange: (value) => change({ signal: value }) });
  const move = (x) => change({ value: Math.round(100 * Math.max(-2, Math.min(2, x))) / 100 });
  let began = null;
  const moving = player({ label: "Move x", stop: "Hold x", perSecond: 20, onstep: () => {
    began ??= performance.now() - Math.asin(Math.max(-1, Math.min(1, values.value / values.radius))) / (2 * Math.PI) * SECONDS_AROUND * 1000;
    return move(values.radius * Math.sin((performance.now() - began) / SECONDS_AROUND / 1000 * 2 * Math.PI));
  } });
  moving.addEventListener("click", () => { began = null; });

  const tuning = lines({ title: "Tuning curves", x: "x", y: "Hz", height: 240, legend: false, onpoint: move });
  const decoding = lines({ title: "Decoded from exact rates", x: "x", height: 240, onpoint: move });
  const spikes = raster({ label: "Spikes of the population", height: 160 });
  const spoken = lines({ title: "Decoded from spikes", x: "ms", xRange: span, height: 220 });
  const found = h("p", {}), later = h("p", { class: "note" }), note = compileNote();

  function show(answer) {
    const key = (neuron) => (answer.signs[neuron] > 0 ? 1 : 2), x = answer.axis, at = [{ x: values.value, text: `x = ${number(values.value)}` }];
    tuning.update({ series: answer.curves.map((y, index) => ({ x, y, key: key(index) })), marks: at, yRange: [0, 1.05 * Math.max(1, ...answer.curves.flat())], label: `Tuning curves of ${answer.curves.length} neurons` });
    decoding.update({ marks: at, label: `${values.function} and what is decoded of it`, series: [{ name: values.function, x, y: answer.wanted, key: 5 }, { name: "decoded", x, y: answer.decoded, key: 1 }, { name: "now", x: [values.value], y: [answer.said], dots: 5, key: 2 }] });
    spikes.update({ times: answer.spike_times, rows: answer.spike_rows, keys: answer.spike_rows.map(key), from: 0, to: first.duration, count: answer.rows, said: `${answer.spike_times.length} spikes of ${answer.rows} neurons` });
    spoken.update({ series: [{ name: values.function, x: answer.times, y: answer.signal, key: 5 }, { name: "decoded", x: answer.times, y: answer.spoken, key: 1 }], label: `Decoded from spikes, off by ${number(answer.rmse, 2)} on average` });
    replace(found, `${values.function} is `, figure(answer.true, number(answer.true, 3)), "; decoded it is ", h("b", {}, figure(answer.said, number(answer.said, 3))), ". Within the radius the error is ", figure(answer.distortion, number(answer.distortion, 2)), " with exact rates, and noise adds ", figure(answer.noise_error, number(answer.noise_error, 2)), ".");
    replace(later, "From spikes, once the synapse has settled: root mean square error ", figure(answer.rmse, number(answer.rmse, 2)), ", at ", figure(answer.mean_rate, number(answer.mean_rate, 3)), " Hz on average for each neuron.");
  }

  async function change(next) {
    if (next.lowest > values.highest) next.highest = next.lowest;
    if (next.highest < values.lowest) next.lowest = next.highest;
    Object.assign(values, next);
    for (const [name, value] of Object.entries(next)) knobs[name].set(value);
    view.set(next);
    show(await note.during(view.ask("represent", values)));
  }

  view.root.append(buttons(moving), controls(sliders, knobs.function, knobs.signal), note, found, h("div", { class: "sides" }, tuning, decoding),
    h("div", { class: "sides" }, spoken, h("figure", { class: "chartbox" }, h("figcaption", {}, h("b", {}, "Spikes"), h("span", {}, "blue prefers higher values, orange lower ones")), spikes)), later);
  show(await note.during(view.ask("represent", values)));
}
