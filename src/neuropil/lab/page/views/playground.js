// A small perceptron that learns two classes of points in the plane: its answer, each of its units, its losses.

import { button, buttons, controls, figure, h, lines, number, numberBox, onTheme, paint, percent, plane, player, replace, select, slider, svg, toggle } from "../widgets.js";

const NAMES = { circles: "circles", xor: "exclusive or", moons: "moons", spirals: "spirals", blobs: "two blobs" };
const SETTINGS = ["data", "noise", "hidden_sizes", "activation", "seed", "optimizer", "batch_size", "learning_rate", "weight_decay", "l1"];
const MOST_LAYERS = 4, MOST_UNITS = 8, HEAD = 4.6, UNIT = 3.25, ROOTS = 16, HISTORY = 500;

export default async function playground(view) {
  const { first, state } = view, session = crypto.randomUUID();
  const values = Object.fromEntries(SETTINGS.map((name) => [name, state[name] ?? first[name]]));
  let shown = first.shown, points = first.shown.points, history = [], withTest = false;

  const surface = plane({ label: "What the network answers", xRange: [-first.reach, first.reach], yRange: [-first.reach, first.reach], pixels: 380 });
  const curves = lines({ title: "Loss", x: "update", width: 420, height: 240 });
  const told = h("p", {}), net = h("div", { class: "net" });
  const change = (name, restart) => (value) => { values[name] = value; view.set({ [name]: value }); if (restart) ask(0, true); };
  const speed = slider({ label: "updates at a time", min: 1, max: 50, step: 1, value: 5 });
  const knobs = [
    select({ label: "data", options: first.data_sets.map((name) => [name, NAMES[name]]), value: values.data, onchange: change("data", true) }),
    slider({ label: "noise", min: 0, max: 0.5, step: 0.01, value: values.noise, onchange: change("noise", true) }),
    select({ label: "activation", options: first.activations, value: values.activation, onchange: change("activation", true) }),
    select({ label: "optimiser", options: first.optimizers, value: values.optimizer, onchange: change("optimizer", true) }),
    slider({ label: "learning rate", min: 1e-4, max: 3, log: true, value: values.learning_rate, onchange: change("learning_rate") }),
    slider({ label: "batch size", min: 1, max: 300, step: 1, value: values.batch_size, onchange: change("batch_size") }),
    slider({ label: "weight decay", min: 0, max: 0.5, step: 0.005, value: values.weight_decay, onchange: change("weight_decay") }),
    slider({ label: "L1 penalty", min: 0, max: 0.05, step: 0.0005, value: values.l1, onchange: change("l1") }),
    speed, numberBox({ label: "seed", value: values.seed, min: 0, max: 9999, step: 1, onchange: change("seed", true) }),
  ];
  const run = player({ label: "Learn", onstep: async () => { try { await ask(Math.round(speed.value)); } catch { return false; } } });
  const one = button("One update", () => { run.toggle(false); ask(1); });
  const reset = button("Begin again", () => { run.toggle(false); ask(0, true); });
  const tests = toggle({ label: "show the test points", value: false, onchange: (on) => { withTest = on; draw(); } });
  const layers = buttons(h("span", { class: "muted" }, "hidden layers"), button("−", () => shape((sizes) => sizes.slice(0, -1)), { label: "One hidden layer less" }), button("+", () => shape((sizes) => [...sizes, 4]), { label: "One hidden layer more" }));

  function shape(next) {
    const sizes = next(values.hidden_sizes).slice(0, MOST_LAYERS);
    values.hidden_sizes = sizes;
    view.set({ hidden_sizes: sizes });
    ask(0, true);
  }
  async function ask(updates, restart = false) {
    show(await view.ask("step", { ...values, session, updates, reset: restart }));
  }
  function show(answer) {
    shown = answer;
    if (answer.points) points = answer.points;
    if (answer.updates === 0) history = [];
    if (history.at(-1)?.updates !== answer.updates) history.push(answer);
    if (history.length > HISTORY) history = history.filter((_, i) => i % 2 === 0 || i === history.length - 1);
    draw();
  }
  function draw() {
    const { train, test, updates, epoch } = shown;
    surface.map({ rows: shown.surface.map((row) => row.map((p) => 2 * p - 1)), low: -1, high: 1, scale: "both" });
    const dots = (part, open) => part.x.map((x, i) => ({ x, y: part.y[i], key: part.label[i] ? 1 : 2, size: 3, open }));
    surface.over({ points: [...dots(points[0], false), ...(withTest ? dots(points[1], true) : [])], said: `What the network answers over the plane: ${percent(test.accuracy)} of the test points are right after ${updates} updates.` });
    const x = history.map((each) => each.updates);
    curves.update({ series: [{ name: "train", x, y: history.map((each) => each.train.loss) }, { name: "test", x, y: history.map((each) => each.test.loss) }], yRange: [0, Math.max(0.8, ...history.map((each) => Math.max(each.train.loss, each.test.loss)))], label: `Loss: ${number(train.loss, 3)} of the training points, ${number(test.loss, 3)} of the test points` });
    replace(told, `Update ${updates}, pass ${epoch}. Loss `, h("b", {}, h("span", { "data-value": train.loss, "data-part": "train" }, number(train.loss, 3))), " on the training points and ", h("b", {}, h("span", { "data-value": test.loss, "data-part": "test" }, number(test.loss, 3))), " on the test points; right are ", h("b", {}, figure(train.accuracy, percent(train.accuracy))), " and ", h("b", {}, figure(test.accuracy, percent(test.accuracy))), ".");
    drawNet();
  }
  // Columns of units: the two inputs, the hidden layers, the two classes; lines are weights, as thick as they are large.
  const ramp = (axis) => Array.from({ length: ROOTS }, (_, j) => Array.from({ length: ROOTS }, (_, i) => (axis ? j : i) - (ROOTS - 1) / 2));
  function drawNet() {
    const columns = [[ramp(0), ramp(1)], ...shown.units], counts = [...columns.map((each) => each.length), 2];
    const tall = Math.max(...counts) * UNIT + HEAD, at = (column, row) => [(column + 0.5) / counts.length * 100, (HEAD + (row + 0.5) * UNIT) / tall * 100];
    const wires = shown.weights.flatMap((matrix, layer) => matrix.flatMap((row, to) => row.map((weight, from) => {
      const [x1, y1] = at(layer, from), [x2, y2] = at(layer + 1, to);
      return svg("line", { class: weight < 0 ? "below" : "above", x1, y1, x2, y2, "stroke-width": Math.min(6, 0.3 + 1.5 * Math.abs(weight)).toFixed(2) });
    })));
    const title = (index) => index === 0 ? ["inputs"] : [`layer ${index}: ${counts[index]}`, buttons(
      button("−", () => shape((sizes) => sizes.map((size, i) => (i === index - 1 ? Math.max(1, size - 1) : size))), { label: `One unit less in layer ${index}` }),
      button("+", () => shape((sizes) => sizes.map((size, i) => (i === index - 1 ? Math.min(MOST_UNITS, size + 1) : size))), { label: `One unit more in layer ${index}` }))];
    if (net.dataset.counts !== counts.join()) {
      net.dataset.counts = counts.join();
      replace(net, svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }),
        columns.map((units, index) => h("div", { class: "layer" }, h("div", { class: "title" }, title(index)), units.map((_, unit) => h("div", { class: "unit" }, h("canvas", { width: 21, height: 21, role: "img", "aria-label": index ? `unit ${unit + 1} of layer ${index} over the plane` : `input x${"₁₂"[unit]}` }))))),
        h("div", { class: "layer" }, h("div", { class: "title" }, "classes"), ["orange", "blue"].map((name) => h("div", { class: "unit" }, h("span", { class: "class" }, name)))));
      net.style.setProperty("height", `${tall}rem`);
    }
    net.querySelector("svg").replaceChildren(...wires);
    const canvases = net.querySelectorAll("canvas");
    columns.flat().forEach((rows, i) => { canvases[i].width = rows[0].length; canvases[i].height = rows.length; paint(canvases[i], [...rows].reverse(), "both"); });
  }

  view.root.append(controls(knobs), buttons(run, one, reset, layers, tests),
    h("div", { class: "scroll netbox", tabindex: "0", role: "region", "aria-label": "Network" }, net),
    h("div", { class: "sides" }, surface, curves), told, h("p", { class: "note" }, "Blue is the one class and what is above zero, orange the other and what is below."));
  onTheme(() => net.isConnected && drawNet());
  view.onLeave(() => run.toggle(false));
  if (Object.keys(state).length) await ask(0, true); else show(first.shown);
}
