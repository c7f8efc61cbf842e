// A balanced network that goes on piece by piece; what the sliders say holds from the next piece on.

import { button, buttons, compileNote, controls, figure, h, lines, number, oneByOne, player, raster, replace, select, slider } from "../widgets.js";

const SPAN = 400;
const SLIDERS = [
  ["g", "relative inhibition g", "", 0, 10, 0.1],
  ["jump", "excitatory weight J", "mV", 0.005, 2, 0.005],
  ["external", "external rate ν_ext / ν_thr", "", 0, 5, 0.05],
  ["delay", "synaptic delay", "ms", 0, 8, 0.1],
];
const SHORT = { g: "g", jump: "J", external: "ν_ext", delay: "delay" };
const GROUPS = [["excitatory", 1], ["inhibitory", 2]];
const newSession = () => Math.floor(Math.random() * 2 ** 48);

export default async function spikingNetwork(view) {
  const { first } = view, values = {}, knobs = {};
  for (const name of [...SLIDERS.map(([each]) => each), "neurons"]) values[name] = view.state[name] ?? first[name];
  let session = newSession(), kept = null, changed = {}, named = null;
  const inTurn = oneByOne();
  const forget = () => { kept = { times: [], rows: [], keys: [], rates: { excitatory: [], inhibitory: [] }, rateTimes: [], voltages: [], voltageTimes: [], marks: [] }; };
  forget();

  const sliders = SLIDERS.map(([name, label, unit, min, max, step]) => (knobs[name] = slider({ label, unit, min, max, step, value: values[name], onchange: (value) => change({ [name]: value }) })));
  const size = select({ label: "neurons", options: first.sizes.map((each) => [each, each.toLocaleString("en")]), value: values.neurons, onchange: (value) => { Object.assign(values, { neurons: value }); view.set({ neurons: value }); restart(); } });
  const regimes = first.regimes.map(({ name, g, external }) => button(`${name}: g ${g}, ν_ext ${external}`, () => change({ g, external })));
  const run = player({ onstep: () => inTurn(() => advance(first.duration)), perSecond: 25 });
  const spikes = raster({ label: "Spikes", height: 220 });
  const rates = lines({ title: "Population rate", x: "ms", y: "Hz", height: 200 });
  const membrane = lines({ title: "Membrane of one excitatory neuron", x: "ms", y: "mV", height: 170 });
  const regime = h("p", {}), numbers = h("p", { class: "note" }), note = compileNote();

  // While it pauses, a change goes on by one piece, so that it can be seen.
  function change(next) {
    Object.assign(values, next);
    Object.assign(changed, next);
    for (const [name, value] of Object.entries(next)) knobs[name].set(value);
    view.set(next);
    if (run.getAttribute("aria-pressed") !== "true") inTurn(() => (Object.keys(changed).length ? advance(first.duration) : null));
  }

  const restart = () => inTurn(() => {
    session = newSession();
    forget();
    return advance(200);
  });

  async function advance(duration) {
    const words = kept.rateTimes.length ? Object.entries(changed).map(([name, value]) => `${SHORT[name]} ${number(value)}`).join(", ") : "";
    changed = {};
    const answer = await note.during(view.ask("advance", { ...values, session, duration }));
    if (words) kept.marks.push({ x: answer.start, text: words });
    keep(answer);
    show(answer);
  }

  function keep(answer) {
    const old = answer.end - SPAN, late = (times, ...lists) => { let cut = 0; while (cut < times.length && times[cut] < old) cut++; for (const list of [times, ...lists]) list.splice(0, cut); };
    // spikes of the excitatory neurons come first, so that this list is not in the order of time
    const spared = kept.times.map((time, i) => [time, kept.rows[i], kept.keys[i]]).filter(([time]) => time >= old);
    answer.raster.times.forEach((time, i) => { const row = answer.raster.rows[i]; spared.push([time, row, row < answer.raster.excitatory ? 1 : 2]); });
    kept.times = spared.map((each) => each[0]); kept.rows = spared.map((each) => each[1]); kept.keys = spared.map((each) => each[2]);
    answer.rates.excitatory.forEach((_, i) => kept.rateTimes.push(answer.start + (i + 0.5) * answer.bin));
    for (const [group] of GROUPS) kept.rates[group].push(...answer.rates[group]);
    late(kept.rateTimes, ...GROUPS.map(([group]) => kept.rates[group]));
    answer.voltage.forEach((value, i) => { kept.voltageTimes.push(answer.start + (i + 1) * answer.voltage_step); kept.voltages.push(value); });
    late(kept.voltageTimes, kept.voltages);
    kept.marks = kept.marks.filter((mark) => mark.x >= old);
  }

  function show(answer) {
    const to = Math.max(answer.end, SPAN), xRange = [to - SPAN, to], { found } = answer;
    spikes.update({ times: kept.times, rows: kept.rows, keys: kept.keys, from: xRange[0], to, count: first.rows, said: `${kept.times.length} spikes of ${first.rows} neurons in ${SPAN} ms` });
    rates.update({ xRange, marks: kept.marks, series: [...GROUPS.map(([group, key]) => ({ name: group, x: kept.rateTimes, y: kept.rates[group], key })), { name: "theory", x: xRange, y: [answer.theory, answer.theory], key: 5 }], label: `Population rate, ${number(found.rate_hz, 3)} Hz on average` });
    membrane.update({ xRange, yRange: [Math.min(-10, ...kept.voltages), 27], marks: kept.marks.map(({ x }) => ({ x })), series: [{ name: "voltage", x: kept.voltageTimes, y: kept.voltages }, { name: "threshold", x: xRange, y: [20, 20], key: 5 }], label: "Voltage of one excitatory neuron, whose threshold is 20 mV" });
    if (answer.regime !== named && answer.regime) view.say(`The firing is ${answer.regime}.`);
    named = answer.regime ?? named;
    const words = answer.regime ? [h("b", {}, answer.regime), " firing"] : "too few spikes yet to name the regime";
    replace(regime, "Now: ", words, ", at ", h("b", {}, figure(found.rate_hz ?? 0, number(found.rate_hz ?? 0, 3)), " Hz"), " (", figure(answer.theory, number(answer.theory, 3)), " Hz by the theory of independent neurons).");
    replace(numbers, "Over the last ", figure(answer.window), " ms: CV of intervals ", figure(found.cv ?? null, number(found.cv, 2)), " (0 clock, 1 Poisson); synchrony ", figure(found.synchrony ?? null, number(found.synchrony, 2)),
      ` (${number(answer.independent, 2)} if independent, 1 if all fire together); strongest oscillation `, figure(found.oscillation_hz, number(found.oscillation_hz, 3)), ` Hz. ${answer.synapses.toLocaleString("en")} synapses, `, figure(answer.end, number(answer.end, 7)), " ms simulated.");
  }

  view.root.append(buttons(run, button("Begin again", restart), regimes), controls(sliders, size), note, regime,
    h("figure", { class: "chartbox" }, h("figcaption", {}, h("b", {}, `Spikes of ${first.rows} neurons`), h("span", {}, "inhibitory in the upper rows, in orange")), spikes),
    h("div", { class: "sides" }, rates, membrane), numbers);
  await restart();
}
