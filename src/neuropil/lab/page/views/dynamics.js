// An integrator or oscillator of spiking neurons that goes on piece by piece, with input and feedback under sliders.

import { button, buttons, compileNote, controls, figure, h, lines, number, oneByOne, player, raster, replace, select, slider } from "../widgets.js";

const SPAN = 2000;
const SLIDERS = [
  ["input", "input u (per second)", "", -4, 4, 0.05],
  ["feedback", "feedback strength", "", 0, 1.5, 0.01],
  ["tau", "feedback time constant", "ms", 5, 300, 5],
  ["frequency", "oscillator frequency", "Hz", -3, 3, 0.1],
];
const SIZES = [20, 50, 100, 200, 500, 1000];
const NAMES = ["x", "y"];
const newSession = () => Math.floor(Math.random() * 2 ** 48);

export default async function dynamics(view) {
  const { first } = view, values = {}, knobs = {};
  for (const name of [...SLIDERS.map(([each]) => each), "equation", "neurons"]) values[name] = view.state[name] ?? first[name];
  let session, kept, changed = false;
  const inTurn = oneByOne();
  const sliders = SLIDERS.map(([name, label, unit, min, max, step]) => (knobs[name] = slider({ label, unit, min, max, step, value: values[name], onchange: (value) => change({ [name]: value }) })));
  const choices = [
    (knobs.equation = select({ label: "what it does", options: ["integrator", "oscillator"], value: values.equation, onchange: (value) => change({ equation: value }) })),
    (knobs.neurons = select({ label: "neurons", options: SIZES, value: values.neurons, onchange: (value) => change({ neurons: value }) })),
  ];
  const run = player({ onstep: () => inTurn(() => advance(first.duration)), perSecond: 25 });
  // A push of half a second, as much as one unit.
  const push = (sign) => button(sign > 0 ? "Push up" : "Push down", () => inTurn(() => advance(500, { input: 2 * sign })));
  const decoded = lines({ title: "Decoded value", x: "ms", height: 220 });
  const plane = lines({ title: "Path in the plane", x: "x", y: "y", xRange: [-1.5, 1.5], yRange: [-1.5, 1.5], width: 360, height: 330, legend: false });
  plane.classList.add("dynamics-plane");
  const spikes = raster({ label: "Spikes of the population", height: 170 });
  const found = h("p", {}), equation = h("p", { class: "note" }), note = compileNote();

  function change(next) {
    Object.assign(values, next);
    for (const [name, value] of Object.entries(next)) knobs[name].set(value);
    view.set(next);
    knobs.frequency.disable(values.equation !== "oscillator");
    if (next.equation || next.neurons) return restart();
    changed = true;
    if (run.getAttribute("aria-pressed") !== "true") inTurn(() => (changed ? advance(first.duration) : null));
  }

  const restart = () => inTurn(() => {
    session = newSession();
    kept = { times: [], values: [], spikeTimes: [], spikeRows: [] };
    return advance(200);
  });

  async function advance(duration, moved = {}) {
    changed = false;
    const answer = await note.during(view.ask("follow", { ...values, ...moved, session, duration }));
    const old = answer.end - SPAN, last = (list, times) => list.filter((_, i) => times[i] >= old);
    const times = [...kept.times, ...answer.times], spikeTimes = [...kept.spikeTimes, ...answer.spike_times], rows = [...kept.spikeRows, ...answer.spike_rows];
    kept = {
      times: last(times, times), values: answer.values.map((each, k) => last([...(kept.values[k] ?? []), ...each], times)),
      spikeTimes: last(spikeTimes, spikeTimes), spikeRows: last(rows, spikeTimes),
    };
    show(answer);
  }

  function show(answer) {
    const to = Math.max(answer.end, SPAN), xRange = [to - SPAN, to], two = answer.values.length > 1, [x, y] = answer.last;
    decoded.update({ xRange, yRange: [-1.5, 1.5], series: kept.values.map((each, k) => ({ name: NAMES[k], x: kept.times, y: each })), label: `Decoded value over time, now ${number(x, 2)}` });
    plane.hidden = !two;
    if (two) plane.update({ series: [{ x: kept.values[0].slice(-500), y: kept.values[1].slice(-500) }, { x: [x], y: [y], dots: 5, key: 2 }], label: `Path in the plane, now at ${number(x, 2)}, ${number(y, 2)}` });
    const count = Math.min(first.rows, values.neurons);
    spikes.update({ times: kept.spikeTimes, rows: kept.spikeRows, from: xRange[0], to, count, said: `${kept.spikeTimes.length} spikes of ${count} neurons` });
    replace(found, "The population says x = ", h("b", {}, figure(x, number(x, 3))), two ? [" and y = ", h("b", {}, figure(y, number(y, 3))), ", ", figure(answer.length, number(answer.length, 3)), " from the origin"] : null,
      ", with ", figure(answer.rate, number(answer.rate, 3)), " Hz a neuron, after ", figure(answer.end, number(answer.end, 7)), " ms.");
    const leak = 1000 * (values.feedback - 1) / values.tau;
    replace(equation, `The rule: dx/dt = ${Math.abs(leak) < 1e-9 ? "" : `${number(leak, 3)} x + `}${two ? "f(x, y) + " : ""}u per second, u = ${number(values.input)}. `, values.feedback === 1 ? (two ? "f turns around a circle that attracts." : "With a feedback of 1 the value stays: a memory.") : values.feedback < 1 ? "Feedback below 1 lets the value leak away." : "Feedback above 1 drives the value to the limit of the population.");
  }

  view.root.append(buttons(run, push(1), push(-1), button("Begin again", restart)), controls(choices, sliders), note, found, equation,
    h("div", { class: "sides" }, decoded, h("figure", { class: "chartbox" }, h("figcaption", {}, h("b", {}, "Spikes")), spikes)), plane);
  knobs.frequency.disable(values.equation !== "oscillator");
  await restart();
}
