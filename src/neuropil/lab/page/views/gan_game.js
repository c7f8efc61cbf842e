// The game of a generator and a discriminator on a ring of Gaussians: samples, what the discriminator believes, and where it pushes.

import { button, buttons, controls, figure, h, lines, number, numberBox, percent, plane, player, replace, select, slider, toggle } from "../widgets.js";

const SETTINGS = ["data", "units", "spectral_norm", "seed", "learning_rate", "ratio", "r1", "label_smoothing"];
const HISTORY = 500, ARROW = 0.16;

export default async function ganGame(view) {
  const { first, state } = view, session = crypto.randomUUID();
  const values = Object.fromEntries(SETTINGS.map((name) => [name, state[name] ?? first[name]]));
  let shown = first.shown, history = [], arrows = true, real = true;

  const ground = plane({ label: "The game", pixels: 440 });
  const losses = lines({ title: "Losses", x: "update", width: 420, height: 210 });
  const distance = lines({ title: "Energy distance to the data", x: "update", width: 420, height: 170, legend: false });
  const told = h("p", {}), verdict = h("p", { class: "note", "aria-live": "polite" });
  const change = (name, restart) => (value) => { values[name] = value; view.set({ [name]: value }); if (restart) ask(0, true); };
  const speed = slider({ label: "updates at a time", min: 1, max: 20, step: 1, value: 5 });
  const knobs = [
    slider({ label: "learning rate", min: 1e-4, max: 0.02, log: true, value: values.learning_rate, onchange: change("learning_rate") }),
    slider({ label: "R₁ penalty γ", min: 0, max: 0.1, step: 0.001, value: values.r1, onchange: change("r1") }),
    slider({ label: "label smoothing ε", min: 0, max: 0.5, step: 0.01, value: values.label_smoothing, onchange: change("label_smoothing") }),
    speed,
    select({ label: "data", options: [["ring", "eight Gaussians on a ring"], ["grid", "twenty-five on a grid"]], value: values.data, onchange: change("data", true) }),
    select({ label: "players", options: first.sizes, value: values.units, onchange: change("units", true) }),
    slider({ label: "discriminator updates per generator update", min: 1, max: 5, step: 1, value: values.ratio, onchange: change("ratio", true) }),
    numberBox({ label: "seed", value: values.seed, min: 0, max: 9999, step: 1, onchange: change("seed", true) }),
    toggle({ label: "spectral normalisation", value: values.spectral_norm, onchange: change("spectral_norm", true) }),
  ];
  const run = player({ label: "Play", onstep: async () => { try { await ask(Math.round(speed.value)); } catch { return false; } } });
  const one = button("One update", () => { run.toggle(false); ask(1); });
  const reset = button("Begin again", () => { run.toggle(false); ask(0, true); });
  const shows = [toggle({ label: "gradients at the samples", value: true, onchange: (on) => { arrows = on; draw(); } }), toggle({ label: "data", value: true, onchange: (on) => { real = on; draw(); } })];

  async function ask(updates, restart = false) { show(await view.ask("step", { ...values, session, updates, reset: restart })); }
  function show(answer) {
    shown = answer;
    if (answer.updates === 0) history = [];
    if (history.at(-1)?.updates !== answer.updates) history.push({ updates: answer.updates, d: answer.discriminator_loss, g: answer.generator_loss, e: answer.energy_distance });
    if (history.length > HISTORY) history = history.filter((_, i) => i % 2 === 0 || i === history.length - 1);
    draw();
  }
  function draw() {
    const { reach, samples, updates } = shown, range = [-reach, reach], said = `After ${updates} updates ${shown.found} of ${shown.modes} modes are found; ${percent(shown.good_share)} of the samples lie at one.`;
    ground.map({ rows: shown.probability.map((row) => row.map((p) => 2 * p - 1)), low: -1, high: 1, scale: "both" }, { xRange: range, yRange: range });
    const longest = Math.max(...shown.arrows.map(([x, y]) => Math.hypot(x, y))) || 1;
    ground.over({
      points: [...(real ? shown.real.map(([x, y]) => ({ x, y, key: 5, size: 1.8 })) : []), ...samples.map(([x, y]) => ({ x, y, key: 2, size: 3 }))],
      arrows: arrows ? shown.arrows.map(([dx, dy], i) => ({ x: samples[i][0], y: samples[i][1], dx: dx / longest * ARROW * reach, dy: dy / longest * ARROW * reach })) : [], said,
    });
    const x = history.map((each) => each.updates);
    losses.update({ series: [{ name: "discriminator", x, y: history.map((each) => each.d) }, { name: "generator", x, y: history.map((each) => each.g) }, { name: "D says ½ to all", x: [x[0], x.at(-1)], y: [first.even, first.even], key: 5 }], label: `Loss of the discriminator ${number(shown.discriminator_loss, 3)}, of the generator ${number(shown.generator_loss, 3)}` });
    distance.update({ series: [{ name: "energy distance", x, y: history.map((each) => each.e) }], yRange: [0, Math.max(0.2, ...history.map((each) => each.e))], label: `Energy distance ${number(shown.energy_distance, 3)}` });
    replace(told, `Update ${updates}: `, h("b", {}, h("span", { "data-value": shown.found, "data-part": "found" }, `${shown.found} of ${shown.modes}`)), " modes found; ", h("b", {}, figure(shown.good_share, percent(shown.good_share))), " of the samples lie within 3 σ of one. Loss of the discriminator ", h("b", {}, h("span", { "data-value": shown.discriminator_loss, "data-part": "discriminator" }, number(shown.discriminator_loss, 3))), ", of the generator ", h("b", {}, figure(shown.generator_loss, number(shown.generator_loss, 3))), ", energy distance ", h("b", {}, figure(shown.energy_distance, number(shown.energy_distance, 3))), ".");
    replace(verdict, updates < 200 ? "Orange points are the generator's samples, grey ones the data; blue is where the discriminator believes in data, orange where it does not. Arrows are −∇ of the generator's loss at each sample." : shown.diagnosis ? `${shown.diagnosis.name}: ${shown.diagnosis.evidence}.` : "By spread and energy distance nothing is wrong with the game.");
  }

  view.root.append(controls(knobs), buttons(run, one, reset, shows), h("div", { class: "sides" }, ground, h("div", { class: "stack" }, losses, distance)), told, verdict);
  view.onLeave(() => run.toggle(false));
  if (Object.keys(state).length) await ask(0, true); else show(first.shown);
}
