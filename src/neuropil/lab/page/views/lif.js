// Membrane, raster and rate of LIF neurons under sliders, or under a current that is drawn over time.

import { controls, figure, h, lines, number, raster, replace, select, slider } from "../widgets.js";

const SLIDERS = [
  ["current", "current", "", 0, 3, 0.01],
  ["spread", "spread of the row", "", 0, 1, 0.01],
  ["noise", "noise", "", 0, 3, 0.05],
  ["tau_m", "membrane constant τ_m", "ms", 5, 60, 0.5],
  ["tau_ref", "refractory period τ_ref", "ms", 0, 10, 0.1],
];
const POINTS = 61, MOST = 3;
// What share of the current flows at a share of the time.
const SHAPES = {
  step: (t) => (t < 0.3 ? 0 : 1),
  pulses: (t) => (Math.floor(6 * t) % 2 ? 1 : 0),
  ramp: (t) => t,
  sine: (t) => 0.5 - 0.5 * Math.cos(4 * Math.PI * t),
};

export default async function lif(view) {
  const { first } = view, values = Object.fromEntries(SLIDERS.map(([name]) => [name, view.state[name] ?? first[name]]));
  let shape = view.state.shape ?? "constant", drawing = view.state.drawing ?? null, last = null;
  const span = [0, first.duration], knobs = {};
  const membrane = lines({ title: "Membrane voltage", x: "ms", xRange: span, yRange: [-0.4, 1.25], height: 220 });
  const stimulus = lines({ title: "Current: draw it with a pointer", x: "ms", xRange: span, yRange: [0, MOST], height: 150, ondrag: draw });
  const spikes = raster({ label: "Spikes of the row of neurons", height: 180 });
  const curve = lines({ title: "Rate over constant current", x: "current", y: "Hz", xRange: [0, 3], height: 220, onpoint: (x) => change({ current: Math.round(100 * Math.max(0, Math.min(3, x))) / 100 }) });
  const rate = h("p", {});
  for (const [name, label, unit, min, max, step] of SLIDERS) knobs[name] = slider({ label, unit, min, max, step, value: values[name], onchange: (value) => change({ [name]: value }) });
  knobs.shape = select({ label: "current over time", options: ["constant", ...Object.keys(SHAPES), "drawn"], value: shape, onchange: (value) => change({}, value) });

  const points = () => Array.from({ length: POINTS }, (_, i) => {
    if (shape === "drawn" && drawing) return drawing[i];
    return Math.round(1000 * values.current * (SHAPES[shape]?.(i / (POINTS - 1)) ?? 1)) / 1000;
  });

  // A stroke sets all points between where the pointer was and where it is.
  function draw(x, y, phase) {
    const place = (ms) => Math.max(0, Math.min(POINTS - 1, Math.round(ms / first.duration * (POINTS - 1))));
    const at = place(x), value = Math.round(1000 * Math.max(0, Math.min(MOST, y))) / 1000;
    if (phase === "down" || !last) { drawing = points(); last = [at, value]; }
    const [from, before] = last, count = Math.abs(at - from);
    for (let k = 0; k <= count; k++) drawing[from + Math.sign(at - from) * k] = count ? Math.round(1000 * (before + (value - before) * k / count)) / 1000 : value;
    last = phase === "up" ? null : [at, value];
    change({}, "drawn");
  }

  function show(answer, input) {
    const x = answer.voltage.map((_, index) => (index + 1) * answer.step), count = answer.spikes.length;
    membrane.update({
      series: [{ name: "voltage", x, y: answer.voltage }, { name: "threshold", x: span, y: [1, 1], key: 5 }, { name: "spikes", x: answer.spikes, y: answer.spikes.map(() => 1.12), dots: 2.5, key: 2 }],
      label: `Membrane voltage with ${count} spikes in ${first.duration} ms`,
    });
    stimulus.update({ series: [{ name: "current", x: input.map((_, i) => i / (input.length - 1) * first.duration), y: input, key: 2 }, { name: "threshold", x: span, y: [1, 1], key: 5 }], label: `Current over time: ${shape}. Draw with a pointer, or choose a shape above.` });
    spikes.update({ times: answer.times, rows: answer.rows, from: 0, to: first.duration, count: first.neurons, said: `${answer.times.length} spikes of ${first.neurons} neurons` });
    curve.update({ series: [{ name: "by the formula", ...answer.curve }, ...(answer.expected === null ? [] : [{ name: "measured", x: [values.current], y: [answer.rate], dots: 5, key: 2 }])] });
    replace(rate, "It fires at ", h("b", {}, figure(answer.rate, number(answer.rate, 3)), " Hz"),
      answer.expected === null ? [" between its first and its last spike, ", figure(count), " spikes in all."] : ["; by the formula, without noise, at ", figure(answer.expected, number(answer.expected, 3)), " Hz."]);
  }

  async function ask() {
    const input = points();
    show(await view.ask("simulate", { ...values, drawn: shape === "constant" ? [] : input }), input);
  }

  async function change(next, nextShape = shape) {
    Object.assign(values, next);
    if (nextShape === "drawn" && !drawing) drawing = points();
    shape = nextShape;
    for (const [name, value] of Object.entries(next)) knobs[name].set(value);
    knobs.shape.set(shape);
    view.set({ ...next, shape, ...(shape === "drawn" ? { drawing } : {}) });
    await ask();
  }

  view.root.append(controls(Object.values(knobs)), rate,
    h("div", { class: "sides" }, h("div", { class: "stack" }, membrane, stimulus), h("div", { class: "stack" }, h("figure", { class: "chartbox" }, h("figcaption", {}, h("b", {}, "Twenty neurons, less to more current")), spikes), curve)));
  if (Object.keys(view.state).length) await ask();
  else show(first.shown, points());
}
