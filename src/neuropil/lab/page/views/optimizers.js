// Optimisers racing over a surface of two weights; a click on the map is a new start.

import { button, buttons, controls, figure, h, legendKey, lines, number, plane, player, replace, select, slider, table, toggle } from "../widgets.js";

const NAMES = { diabetes: "regression on diabetes data (a narrow valley)", rosenbrock: "Rosenbrock's function (a bent valley)", two_wells: "two wells (a local minimum)" };
const BANDS = 16, DEPTH = 4;

export default async function optimizers(view) {
  const { first, state } = view;
  let { map, race } = first, at = 0;
  const values = { surface: state.surface ?? first.surface, momentum: state.momentum ?? first.momentum, weight_decay: state.weight_decay ?? first.weight_decay, batch_size: first.batch_size, steps: first.steps, rates: state.rates ?? first.rates, x: state.x ?? null, y: state.y ?? null };
  const shown = Object.fromEntries(first.rules.map((name) => [name, !(state.hidden ?? []).includes(name)]));

  const ground = plane({ label: "Surface", pixels: 460, tall: 0.85, bands: BANDS, onpoint: start });
  const curves = lines({ title: "Loss above the minimum", x: "step", logY: true, width: 480, height: 300, onpoint: (x) => { run.toggle(false); move(Math.round(x)); } });
  const words = h("p", { class: "note" }), board = h("div", {});
  const surface = select({ label: "surface", options: first.surfaces.map((name) => [name, NAMES[name]]), value: values.surface, onchange: changeSurface });
  const rate = slider({ label: "learning rate of all", min: 1e-4, max: 1, log: true, value: values.rates[0], onchange: (value) => change({ rates: first.rules.map(() => value) }) });
  const momentum = slider({ label: "momentum β", min: 0, max: 0.99, step: 0.01, value: values.momentum, onchange: (value) => change({ momentum: value }) });
  const decay = slider({ label: "weight decay of AdamW", min: 0, max: 2, step: 0.01, value: values.weight_decay, onchange: (value) => change({ weight_decay: value }) });
  const step = slider({ label: "step", min: 0, max: first.steps, step: 1, value: 0, onchange: (value) => { run.toggle(false); move(value); } });
  const run = player({ label: "Race", onstep: () => { if (at >= first.steps) { move(0); } else move(at + 1); return at < first.steps; } });
  const reset = button("Reset", () => { run.toggle(false); move(0); });
  const back = button("Step back", () => { run.toggle(false); move(at - 1); }), forward = button("Step", () => { run.toggle(false); move(at + 1); });
  const tuned = button("Best rate of each", async () => { change({ rates: (await view.ask("tune", asked(["rates"]))).rates }, false); });
  const own = button("The surface's own start", () => change({ x: null, y: null }));
  const shows = first.rules.map((name, index) => { const each = toggle({ label: "", value: shown[name], onchange: (on) => { shown[name] = on; view.set({ hidden: first.rules.filter((rule) => !shown[rule]) }); draw(); } }); each.append(legendKey(name, index + 1)); return each; });

  const asked = (without = []) => Object.fromEntries(Object.entries(values).filter(([name, value]) => value !== null && !without.includes(name)));
  function move(next) { at = Math.max(0, Math.min(first.steps, next)); step.set(at); draw(); }
  function start(x, y) { run.toggle(false); at = at || first.steps; step.set(at); change({ x: Math.round(x * 1e4) / 1e4, y: Math.round(y * 1e4) / 1e4 }); }
  async function change(next, common = true) {
    Object.assign(values, next);
    view.set(next);
    if (next.rates && common) rate.set(next.rates[0]);
    race = await view.ask("run", asked());
    draw();
  }
  async function changeSurface(name) {
    run.toggle(false);
    values.surface = name;
    map = await view.ask("show", { surface: name });
    drawMap();
    await change({ surface: name, x: null, y: null, rates: first.rules.map(() => map.rate) });
  }
  function drawMap() {
    const most = Math.max(...map.excess.flat()), floor = most * 10 ** -DEPTH;
    ground.map({ rows: map.excess.map((row) => row.map((value) => -Math.log10(Math.max(0, value) + floor))), scale: "up" }, { xRange: map.x, yRange: map.y });
    replace(words, map.words, " The deeper the blue, the lower the loss; ○ is the minimum.");
    ground.at = [values.x ?? map.start[0], values.y ?? map.start[1]];
  }
  function draw() {
    const racers = race.racers.map((each, index) => ({ ...each, key: index + 1 })), seen = racers.filter((each) => shown[each.name]);
    const now = (each, list) => each[list][Math.min(at, each[list].length - 1)];
    const order = [...racers].sort((a, b) => (now(a, "losses") ?? Infinity) - (now(b, "losses") ?? Infinity));
    const leader = order.find((each) => shown[each.name]);
    const said = leader ? `After ${at} steps ${leader.name} is lowest, ${number(now(leader, "losses"), 3)} above the minimum.` : "No optimiser is shown.";
    ground.over({
      paths: seen.map((each) => ({ key: each.key, x: each.x.slice(0, at + 1), y: each.y.slice(0, at + 1) })),
      points: [{ x: map.minimum[0], y: map.minimum[1], size: 5, open: true }, { x: values.x ?? map.start[0], y: values.y ?? map.start[1], size: 4 }, ...seen.map((each) => ({ key: each.key, size: 5, x: now(each, "x"), y: now(each, "y") }))],
      said: `Paths over the surface. ${said} Click, or move with the arrow keys, to choose another start.`,
    });
    curves.update({ series: seen.map((each) => ({ name: each.name, key: each.key, x: each.losses.map((_, i) => i), y: each.losses.map((value) => (value === null ? null : Math.max(value, 1e-12))) })), marks: [{ x: at }], label: said });
    replace(board, table({
      caption: said, columns: ["optimiser", { name: "learning rate", numeric: true }, { name: `loss at step ${at}`, numeric: true }, { name: "at the end", numeric: true }, { name: "converged at", numeric: true }],
      rows: racers.map((each, index) => [shows[index], figure(each.rate), loss(now(each, "losses")), loss(each.losses.at(-1), each.name), each.converged ?? "–"]),
    }));
  }
  const loss = (value, name) => (value === null ? "diverged" : h("span", { "data-value": value, "data-end": name }, number(value, 3)));

  view.root.append(controls(surface, rate, momentum, decay), buttons(run, back, forward, reset, tuned, own), controls(step),
    h("div", { class: "sides" }, ground, curves), words, board);
  if (values.surface !== first.surface) map = await view.ask("show", { surface: values.surface });
  if (Object.keys(state).length) race = await view.ask("run", asked());
  drawMap();
  move(first.steps);
}
