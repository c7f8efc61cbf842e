// Voltage, gates and ionic currents of one Hodgkin–Huxley neuron under pulses of current.

import { button, buttons, compileNote, controls, figure, h, lines, number, replace, select, slider } from "../widgets.js";

const STIMULUS = [
  ["amplitude", "current", "µA/cm²", -20, 100, 0.1],
  ["start", "begins at", "ms", 0, 30, 0.5],
  ["length", "lasts for", "ms", 0, 55, 0.1],
  ["again", "second pulse after", "", 0, 30, 0.1],
];
const MEMBRANE = [
  ["temperature", "temperature", "°C", 0, 30, 0.1],
  ["sodium", "sodium conductance", "mS/cm²", 0, 240, 1],
  ["potassium", "potassium conductance", "mS/cm²", 0, 72, 0.5],
  ["leak", "leak conductance", "mS/cm²", 0.01, 2, 0.01],
];
const EXAMPLES = [
  ["One spike", { amplitude: 20, start: 5, length: 1, again: 0 }],
  ["Firing", { amplitude: 10, start: 5, length: 50, again: 0 }],
  ["Refractory period", { amplitude: 20, start: 5, length: 1, again: 8 }],
  ["Rebound spike", { amplitude: -10, start: 5, length: 20, again: 0 }],
  ["Depolarisation block", { amplitude: 100, start: 5, length: 50, again: 0 }],
];

export default async function hodgkinHuxley(view) {
  const { first } = view, values = {}, knobs = {}, span = [0, first.duration];
  for (const name of [...STIMULUS, ...MEMBRANE].map(([each]) => each).concat("rest")) values[name] = view.state[name] ?? first[name];
  const sliders = (rows) => rows.map(([name, label, unit, min, max, step]) => {
    const show = name === "again" ? (value) => (value > 0 ? `${number(value)} ms` : "none") : number;
    return (knobs[name] = slider({ label, unit, min, max, step, value: values[name], show, onchange: (value) => change({ [name]: value }) }));
  });
  const rest = (knobs.rest = select({ label: "resting potential", options: [["-65", "−65 mV"], ["-70", "−70 mV"]], value: values.rest, onchange: (value) => change({ rest: value }) }));
  const voltage = lines({ title: "Membrane voltage", x: "ms", y: "mV", xRange: span, yRange: [-95, 60], height: 220 });
  const stimulus = lines({ title: "Current from outside", x: "ms", y: "µA/cm²", xRange: span, height: 110 });
  const gates = lines({ title: "Gates", x: "ms", y: "share that is open", xRange: span, yRange: [0, 1.12], height: 200 });
  const ions = lines({ title: "Ionic currents, outward", x: "ms", y: "µA/cm²", xRange: span, height: 220 });
  const phase = lines({ title: "Potassium gate against voltage", x: "mV", y: "n", xRange: [-100, 60], yRange: [0, 1], width: 560, height: 330 });
  const found = h("p", {}), note = compileNote();

  function show(answer) {
    const x = answer.voltage.map((_, index) => (index + 1) * answer.step), count = answer.spikes.length;
    const series = (names) => names.map(([key, name]) => ({ name, x, y: answer[key] }));
    voltage.update({ series: [{ name: "voltage", x, y: answer.voltage }], label: `Membrane voltage: ${count} spikes in ${first.duration} ms, at most ${number(answer.peak, 3)} mV` });
    const strongest = Math.max(...answer.current.map(Math.abs), 1);
    stimulus.update({ series: [{ x, y: answer.current, key: 2 }], yRange: [Math.min(0, ...answer.current) * 1.15, Math.max(0.15 * strongest, ...answer.current) * 1.15], label: `Pulses of ${number(values.amplitude)} µA/cm²` });
    gates.update({ series: series([["m", "m, opens sodium"], ["h", "h, closes sodium"], ["n", "n, opens potassium"]]), label: "Gates m, h and n over time" });
    ions.update({ series: series([["sodium", "sodium"], ["potassium", "potassium"], ["leak", "leak"]]), label: `Ionic currents over time: sodium reaches ${number(Math.min(...answer.sodium), 3)} µA/cm²` });
    phase.update({ series: [{ name: "the neuron", x: answer.voltage, y: answer.n }, { name: "n∞(V)", ...answer.steady, key: 5 }, { name: "rest", x: [answer.voltage[0]], y: [answer.n[0]], dots: 4, key: 2 }], label: `Path of voltage and potassium gate with ${count} loops` });
    replace(found, h("b", {}, figure(count), count === 1 ? " spike" : " spikes"), ` in ${first.duration} ms`, count > 1 ? [", at ", figure(answer.rate, number(answer.rate, 3)), " Hz by the intervals between them"] : "",
      "; the voltage rests at ", figure(answer.resting_voltage, number(answer.resting_voltage, 3)), " mV and reaches ", figure(answer.peak, number(answer.peak, 3)), " mV.");
  }

  async function change(next) {
    Object.assign(values, next);
    for (const [name, value] of Object.entries(next)) knobs[name].set(value);
    view.set(next);
    show(await note.during(view.ask("simulate", values)));
  }

  view.root.append(buttons(EXAMPLES.map(([name, next]) => button(name, () => change(next)))),
    controls(sliders(STIMULUS)), controls(sliders(MEMBRANE), rest), note, found,
    h("div", { class: "sides" }, h("div", { class: "stack" }, voltage, stimulus), phase), h("div", { class: "sides" }, gates, ions));
  show(await note.during(view.ask("simulate", values)));
}
