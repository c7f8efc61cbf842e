// Sampling as a film with a slider over its steps.

import { chooser } from "../chooser.js";
import { button, buttons, controls, figure, h, inTurn, lines, number, numberBox, picture, player, replace, select, slider } from "../widgets.js";

const SAMPLERS = [["dpm_solver", "DPM-Solver++ 2M"], ["ddim", "DDIM"], ["ddpm", "DDPM (ancestral)"]];

export default async function diffusion(view) {
  const { first } = view, session = Math.random().toString(36).slice(2);
  const values = { sampler: "dpm_solver", steps: first.steps, label: first.classes[3] ?? first.classes[0] ?? "", guidance: 2, eta: 0, seed: 0, noised: 0, ...view.state };
  let frames = [], at = values.at ?? Infinity, made = 0;

  const blank = first.examples[0].picture, pictures = (label) => Array.from({ length: 4 }, (_, index) => picture(blank, { pixels: 80, label: `${label} ${index + 1}` }));
  const noisy = pictures("x_t of picture"), predicted = pictures("predicted x_0 of picture");
  const curve = lines({ title: "Noise schedule", x: "t", yRange: [0, 1], xRange: [0, first.timesteps], height: 210, onpoint: (t) => { at = nearest(t); show(); } });
  const said = h("p", { class: "said" }), bar = h("progress", { max: 1, value: 0, "aria-label": "Steps that are done" });
  const step = slider({ label: "Step", min: 0, max: values.steps, step: 1, value: values.steps, onchange: (value) => { at = value; view.set({ at }); show(); } });
  const change = (name) => (value) => { values[name] = value; view.set({ [name]: value }); begin(); };
  const knobs = [
    first.classes.length ? select({ label: "Class", options: [["", "any"], ...first.classes.map((each) => [each, each])], value: values.label, onchange: change("label") }) : null,
    first.classes.length ? slider({ label: "Guidance", min: 0, max: 8, step: 0.1, value: values.guidance, onchange: change("guidance") }) : null,
    select({ label: "Sampler", options: SAMPLERS, value: values.sampler, onchange: change("sampler") }),
    slider({ label: "Sampling steps", min: 1, max: first.most_steps, step: 1, value: values.steps, onchange: change("steps") }),
    slider({ label: "η of DDIM", min: 0, max: 1, step: 0.05, value: values.eta, onchange: change("eta") }),
    numberBox({ label: "Seed", value: values.seed, min: 0, max: 1e9, step: 1, onchange: change("seed") }),
  ].filter(Boolean);
  const play = player({ label: "Play", perSecond: 12, onstep: () => {
    if (at >= frames.length - 1) { if (play.begun) { play.begun = false; return false; } at = -1; }
    play.begun = true;
    at += 1;
    show();
    return true;
  } });
  const other = button("New noise", () => { knobs.at(-1).set(values.seed + 1); change("seed")(values.seed + 1); });
  const noise = slider({ label: "Noise is added up to t", min: 0, max: first.timesteps, step: 1, value: values.noised, show: (value) => (value ? number(value) : "0: begin at noise alone"), onchange: change("noised") });
  const choice = chooser({ view, first, onchange: () => values.noised && begin() });

  const nearest = (t) => frames.reduce((best, frame, index) => (Math.abs(frame.t - t) < Math.abs(frames[best].t - t) ? index : best), 0);

  // A film that is asked for anew is begun anew; the one before is given up between two pieces.
  const begin = inTurn(async () => {
    const number = ++made, asked = { sampler: values.sampler, steps: values.steps, label: values.label, guidance: values.label ? values.guidance : 1, eta: values.eta, seed: values.seed, noised: values.noised, ...(values.noised ? choice.chosen.request : {}) };
    let answer = await view.ask("film", { ...asked, session: `${session}-${number}` });
    frames = answer.frames;
    while (!answer.done && view.root.isConnected && !begin.waiting()) {
      answer = await view.ask("more", { session: `${session}-${number}` });
      frames = [...frames, ...answer.frames];
      bar.value = Math.min(1, frames.length / (values.steps + 1));
      show();
    }
    bar.value = 1;
    show();
    view.say(`${frames.length - 1} steps are done.`);
  });

  function show() {
    const index = Math.max(0, Math.min(at, frames.length - 1)), frame = frames[index];
    step.querySelector("input").max = Math.max(1, frames.length - 1);
    step.set(index);
    noisy.forEach((each, i) => each.update(frame.x[i]));
    noisy[0].dataset.value = frame.x[0].flat(2).reduce((sum, each) => sum + each, 0);
    predicted.forEach((each, i) => each.update(frame.x0[i]));
    const { t, signal, noise: sigma } = first.schedule;
    curve.update({ series: [{ name: "signal √ᾱ", x: t, y: signal }, { name: "noise √(1−ᾱ)", x: t, y: sigma }, { x: frames.map((each) => each.t), y: frames.map(() => 0.02), dots: 2, key: 5 }], marks: [{ x: frame.t, text: `t = ${frame.t}` }], label: `Noise schedule, at t = ${frame.t}` });
    replace(said, "Step ", figure(index), " of ", figure(frames.length - 1), ", t = ", figure(frame.t), frame.t ? ": what is there, and what the network predicts of the picture." : ": the pictures.");
  }

  view.root.append(controls(knobs), buttons(play, other), bar, step,
    h("div", { class: "row" }, h("figure", {}, h("div", { class: "pictures" }, noisy), h("figcaption", { class: "note" }, "x_t")), h("figure", {}, h("div", { class: "pictures" }, predicted), h("figcaption", { class: "note" }, "predicted x_0"))),
    said, curve,
    h("h2", {}, "A picture with noise, and back"), h("p", { class: "note" }, "Noise is added to a picture up to the time t, and four times taken away again, towards the class that is chosen above: the more noise there was, the freer the network is."), noise, choice);
  await begin();
}
