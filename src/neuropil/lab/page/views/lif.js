// Membrane, raster and rate of LIF neurons under sliders.

import { controls, figure, h, lines, number, raster, replace, slider } from "../widgets.js";

const SLIDERS = [
  ["current", "current", "", 0, 3, 0.01],
  ["spread", "spread of the row", "", 0, 1, 0.01],
  ["noise", "noise", "", 0, 3, 0.05],
  ["tau_m", "membrane time constant τ_m", "ms", 5, 60, 0.5],
  ["tau_ref", "refractory period τ_ref", "ms", 0, 10, 0.1],
];

export default async function lif(view) {
  const { first } = view, values = Object.fromEntries(SLIDERS.map(([name]) => [name, view.state[name] ?? first[name]]));
  const membrane = lines({ title: "Membrane voltage", x: "ms", xRange: [0, first.duration], yRange: [-0.4, 1.25], height: 220 });
  const spikes = raster({ label: "Spikes of the row of neurons", height: 120 });
  const curve = lines({ title: "Rate over current", x: "current", y: "Hz", xRange: [0, 3], height: 220, width: 420, onpoint: (x) => change("current", Math.max(0, Math.min(3, x))) });
  const rate = h("p", {});
  const knobs = SLIDERS.map(([name, label, unit, min, max, step]) => slider({ label, unit, min, max, step, value: values[name], onchange: (value) => change(name, value) }));

  function show(answer) {
    const x = answer.voltage.map((_, index) => (index + 1) * answer.step);
    membrane.update({
      series: [{ name: "voltage", x, y: answer.voltage }, { name: "threshold", x: [0, first.duration], y: [1, 1], key: 5 }, { name: "spikes", x: answer.spikes, y: answer.spikes.map(() => 1.12), dots: 2.5, key: 2 }],
      label: `Membrane voltage with ${answer.spikes.length} spikes in ${first.duration} ms`,
    });
    spikes.update({ times: answer.times, rows: answer.rows, from: 0, to: first.duration, count: first.neurons, said: `${answer.times.length} spikes of ${first.neurons} neurons` });
    curve.update({ series: [{ name: "by the formula", ...answer.curve }, { name: "measured", x: [values.current], y: [answer.rate], dots: 5, key: 2 }] });
    replace(rate, "It fires at ", h("b", {}, figure(answer.rate, number(answer.rate, 3)), " Hz"), "; by the formula, without noise, at ", figure(answer.expected, number(answer.expected, 3)), " Hz.");
  }

  async function change(name, value) {
    values[name] = value;
    knobs[SLIDERS.findIndex(([each]) => each === name)].set(value);
    view.set({ [name]: value });
    show(await view.ask("simulate", values));
  }

  view.root.append(controls(knobs), membrane, h("div", { class: "row" }, h("div", { class: "grow" }, h("h3", {}, "Twenty neurons, less to more current"), spikes), h("div", { class: "grow" }, curve)), rate);
  show(Object.keys(view.state).length ? await view.ask("simulate", values) : first.shown);
}
