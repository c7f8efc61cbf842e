// A damaged picture settles: its steps as a film, and the energy that falls.

import { chooser } from "../chooser.js";
import { button, buttons, controls, figure, h, inTurn, lines, number, picture, player, replace, select, slider, toggle } from "../widgets.js";

const DAMAGES = { cover: "covered in part", noise: "wrong pixels", none: "as it is" };
const USUAL = { cover: 0.5, noise: 0.15, none: 0 };
const SIDES = [["bottom", "the bottom"], ["top", "the top"], ["left", "the left"], ["right", "the right"]];

export default async function recall(view) {
  const { first, system } = view;
  const values = { damage: "cover", side: "bottom", share: 0.5, hold: true, steps: system === "predictive_coding" ? 300 : 100, temperature: 1, seed: 0, ...view.state };
  let path = first.shown, at = 0;
  const large = (rows, label, pixels = 112) => picture(rows, { pixels, label });
  const whole = large(path.whole, "The whole picture"), given = large(path.given, "What is given"), now = large(path.given, "What it has become", 176);
  const curve = lines({ title: first.energy[0].toUpperCase() + first.energy.slice(1), x: { hopfield: "changed units", rbm: "Gibbs steps", predictive_coding: "inference steps" }[system], height: 230, onpoint: (x) => { at = nearest(x); show(); } });
  const said = h("p", { class: "said" });
  const step = slider({ label: "Step", min: 0, max: 1, step: 1, value: 0, show: (frame) => number((path.points[frame] ?? 0) * path.every), onchange: (value) => { at = value; show(); } });
  const shown = () => { side.hidden = values.damage !== "cover"; hold.hidden = side.hidden || system === "predictive_coding"; share.hidden = values.damage === "none"; };
  const change = (name) => (value) => { values[name] = value; view.set({ [name]: value }); shown(); ask(); };
  const damage = select({ label: "The picture is", options: first.damages.map((each) => [each, DAMAGES[each]]), value: values.damage, onchange: (value) => { values.share = USUAL[value]; share.set(values.share); view.set({ share: values.share }); change("damage")(value); } });
  const side = select({ label: "Covered from", options: SIDES, value: values.side, onchange: change("side") });
  const share = slider({ label: "Share", min: 0, max: 0.95, step: 0.01, value: values.share, onchange: change("share") });
  const hold = toggle({ label: "Hold what is not covered", value: values.hold, onchange: change("hold") });
  const steps = system === "hopfield" ? null : slider({ label: system === "rbm" ? "Gibbs steps" : "Inference steps", min: 1, max: system === "rbm" ? 500 : 1000, step: 1, value: values.steps, onchange: change("steps") });
  const temperature = system === "rbm" ? slider({ label: "Temperature", min: 0.05, max: 3, step: 0.05, value: values.temperature, onchange: change("temperature") }) : null;
  const again = system === "predictive_coding" ? null : button("Other random numbers", () => change("seed")(values.seed + 1));
  const play = player({ label: "Play", perSecond: 15, onstep: () => {
    if (at >= path.frames.length - 1) { if (play.begun) { play.begun = false; return false; } at = -1; }
    play.begun = true;
    at += 1;
    show();
    return true;
  } });
  const choice = chooser({ view, first, onchange: () => ask() });
  const asked = () => ({ damage: values.damage, side: values.side, share: values.share, hold: values.hold, steps: values.steps, temperature: values.temperature, seed: values.seed, ...choice.chosen.request });
  const ask = inTurn(async () => { path = await view.ask("settle", asked()); at = Infinity; show(); view.say(path.found); });
  const nearest = (x) => path.points.reduce((best, each, index) => (Math.abs(each * path.every - x) < Math.abs(path.points[best] * path.every - x) ? index : best), 0);

  function show() {
    at = Math.max(0, Math.min(at, path.frames.length - 1));
    whole.update(path.whole);
    given.update(path.given);
    now.update(path.frames[at]);
    now.dataset.value = path.frames[at].flat(2).reduce((sum, each) => sum + each, 0);
    step.querySelector("input").max = Math.max(1, path.frames.length - 1);
    step.set(at);
    const { energies, every } = path, index = path.points[at];
    curve.update({ series: [{ name: first.energy, x: energies.map((_, i) => i * every), y: energies }, { x: [index * every], y: [energies[index]], dots: 5, key: 2 }], xRange: [0, every * Math.max(1, energies.length - 1)], label: `The ${first.energy} goes from ${number(energies[0])} to ${number(energies.at(-1))}` });
    replace(said, "The ", first.energy, " is ", figure(energies[index]), " at step ", figure(index * every), " of ", figure((energies.length - 1) * every), ", from ", figure(energies[0]), " at first. ", h("b", { "data-found": path.found }, path.found));
  }

  shown();
  view.root.append(choice, controls(damage, side, share, steps ?? [], temperature ?? [], hold), buttons(play, again), step,
    h("div", { class: "pictures" }, h("figure", {}, whole, h("figcaption", {}, "picture")), h("figure", {}, given, h("figcaption", {}, "given")), h("figure", {}, now, h("figcaption", {}, "what it becomes"))),
    said, curve);
  at = Infinity;
  if (Object.keys(view.state).length || system === "predictive_coding") path = await view.ask("settle", asked());
  show();
}
