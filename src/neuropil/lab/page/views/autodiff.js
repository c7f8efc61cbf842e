// The expression graph of a formula, stepped forward (values) and backward (gradients).

import { button, buttons, controls, figure, h, number, player, replace, select, slider, svg, table, textBox } from "../widgets.js";

const CAPSULE = 26, STEM = 12, LINE = 16, PADDING = 9, MARGIN = 14, REACH = 4;
const WRITTEN = { add: (a, b) => [a, " + ", b], sub: (a, b) => [a, " − ", b], mul: (a, b) => [a, " × ", b], div: (a, b) => [a, " ÷ ", b], power: (a, b) => [a, " to the power ", b], neg: (a) => ["− ", a] };

export default async function autodiff(view) {
  const { first, state } = view;
  let shown = first.shown, at = 0, given = { ...(state.values ?? {}) }, knobs = {};
  const forwards = () => shown.forward.length, last = () => forwards() + 1 + shown.backward.length;
  const box = textBox({ label: "formula", value: state.formula ?? shown.formula, maxlength: 200, onchange: (formula) => { example.set(first.examples[formula] ? formula : ""); ask({ formula }); } });
  const example = select({ label: "example", options: [["", "your own"], ...Object.entries(first.examples).map(([formula, words]) => [formula, `${formula}: ${words}`])], value: box.value in first.examples ? box.value : "", onchange: (formula) => { if (formula) { box.set(formula); ask({ formula }); } } });
  const drawing = svg("svg", { class: "graph", role: "img" }), told = h("div", { class: "stepped panel", "aria-live": "polite" }), sliders = controls(), proof = h("div", {});
  const step = slider({ label: "step", min: 0, max: 1, step: 1, value: 0, show: (value) => `${value} of ${last()}`, onchange: (value) => { run.toggle(false); go(value); } });
  const run = player({ label: "Run", perSecond: 1.5, onstep: () => { move(at >= last() ? 0 : at + 1); return at < last(); } });
  const press = (text, to) => button(text, () => { run.toggle(false); go(to()); });

  async function ask(change = {}) {
    const formula = change.formula ?? box.value, names = Object.keys(given);
    view.set({ formula, values: given });
    const atEnd = at === last(), kept = at, same = formula === shown.formula;
    show(await view.ask("read", { formula, names, values: names.map((name) => given[name]) }));
    move(same ? kept : atEnd || at === 0 ? last() : Math.min(at, last()));
  }
  function show(answer) {
    const names = Object.keys(answer.values), same = names.join() === Object.keys(knobs).join();
    shown = answer;
    given = { ...answer.values };
    const input = step.querySelector("input");
    input.max = last();
    if (!same) {
      knobs = Object.fromEntries(names.map((name) => { const value = answer.values[name], reach = Math.max(REACH, Math.abs(value)); return [name, slider({ label: name, min: -reach, max: reach, step: 0.01, value, onchange: (next) => { given[name] = next; ask(); } })]; }));
      replace(sliders, Object.values(knobs));
    } else for (const name of names) knobs[name].set(answer.values[name]);
    replace(proof, table({
      caption: "The gradients beside what a small change of each variable does, (f(x + h) − f(x − h)) / 2h",
      columns: ["variable", { name: "by backward", numeric: true }, { name: "difference quotient", numeric: true }],
      rows: names.map((name) => [name, h("span", { "data-value": answer.gradients[name], "data-gradient": name }, number(answer.gradients[name], 6)), figure(answer.quotients[name], number(answer.quotients[name], 6))]),
    }));
  }
  const go = (next) => { move(next); view.set({ at }); };
  function move(next) {
    at = Math.max(0, Math.min(last(), next));
    step.set(at);
    draw();
    tell();
  }
  const called = (index) => { const node = shown.graph.nodes[index]; return node.name ?? (node.constant && !node.op ? number(node.value) : `the ${node.op} of ${number(node.value)}`); };
  function draw() {
    const { nodes, links, width, height } = shown.graph, done = Math.min(at, forwards()), back = at - forwards() - 1;
    const known = new Set(nodes.flatMap((node, i) => (node.op ? [] : [i])));
    for (const each of shown.forward.slice(0, done)) known.add(each.node);
    const current = back > 0 ? shown.backward[back - 1] : null, root = nodes.length - 1;
    const gradients = current ? current.gradients : back === 0 ? { [shown.backward[0].node]: 1 } : {};
    const now = current ? current.node : at > 0 && at <= forwards() ? shown.forward[at - 1].node : back === 0 ? root : null;
    const changed = new Set(current ? current.flows.map((flow) => flow.node) : back === 0 ? [root] : []);
    const feeds = new Set(now !== null && at <= forwards() ? nodes[now].arguments : []);
    const leads = (link) => now !== null && (link.to === now || link.to === null && link.row < nodes[now].row);
    drawing.setAttribute("viewBox", `${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${height + 2 * MARGIN}`);
    drawing.setAttribute("width", width + 2 * MARGIN); drawing.setAttribute("height", height + 2 * MARGIN);
    drawing.setAttribute("aria-label", `Expression graph of ${shown.formula} with ${nodes.length} values, at step ${at} of ${last()}; the table and the sentences say its numbers.`);
    drawing.replaceChildren(
      ...links.map((link) => svg("path", { class: `link${!leads(link) ? "" : changed.has(link.from) && current ? " now" : feeds.has(link.from) ? " used" : ""}`, d: link.path })),
      ...nodes.map((node, i) => card(node, known.has(i), gradients[i], [node.op ? "made" : node.constant ? "constant" : "leaf", known.has(i) ? "" : "waiting", i === now ? "now" : "", changed.has(i) ? "changed" : ""].join(" "), i)));
  }
  function card(node, known, gradient, kind, index) {
    const down = node.op ? CAPSULE + STEM : 0, wide = Math.max(CAPSULE, node.op && node.op.length > 2 ? 6.7 * node.op.length + 16 : 0), middle = node.width / 2;
    let y = down + 16;
    const parts = [svg("rect", { class: "box", y: down, width: node.width, height: node.height - down, rx: 7 })];
    if (node.op) parts.push(svg("rect", { class: "op", x: middle - wide / 2, width: wide, height: CAPSULE, rx: CAPSULE / 2 }), svg("text", { class: "optext", x: middle, y: 17 }, node.op), svg("path", { class: "link", d: `M${middle} ${CAPSULE}v${STEM}m-3 -5l3 5l3 -5` }));
    if (node.name) { parts.push(svg("text", { class: "name", x: PADDING, y }, node.name)); y += LINE; }
    parts.push(svg("text", { x: PADDING, y, "data-value": known ? node.value : undefined }, known ? number(node.value) : "·"));
    if (!node.constant) parts.push(svg("text", { class: "gradient", x: PADDING, y: y + LINE, "data-value": gradient, "data-node": index }, gradient === undefined ? "" : `∂ ${number(gradient)}`));
    return svg("g", { class: kind, transform: `translate(${node.x} ${node.y})` }, parts);
  }
  function tell() {
    const back = at - forwards() - 1;
    if (at === 0) return replace(told, h("h3", {}, "Before the first step"), h("p", {}, "Only the variables and the constants have values."));
    if (back < 0) {
      const each = shown.forward[at - 1], numbers = each.arguments.map((value) => number(value));
      return replace(told, h("h3", {}, `Forward, operation ${at} of ${forwards()}`), h("p", {}, (WRITTEN[each.op] ?? ((a) => [`${each.op}(`, a, ")"]))(...numbers), " = ", h("b", {}, figure(each.value))), at === forwards() ? h("p", {}, "The formula has its value.") : null);
    }
    if (back === 0) return replace(told, h("h3", {}, "Backward begins"), h("p", {}, "The derivative of the end by itself is ∂f/∂f = 1."));
    const each = shown.backward[back - 1];
    replace(told, h("h3", {}, `Backward, operation ${back} of ${shown.backward.length}: ${each.op}`),
      h("p", {}, each.rule), h("p", {}, "The gradient of its output is s = ", figure(each.s), "."),
      h("ul", { class: "plain" }, each.flows.map((flow) => h("li", { class: "flow" }, `to ${called(flow.node)}: `, number(each.s), " × ", figure(flow.local), " = ", h("b", {}, figure(flow.product)),
        each.flows.filter((other) => other.node === flow.node).length > 1 || flow.before ? [", together with the others ", h("b", {}, figure(flow.after))] : null))),
      back === shown.backward.length ? h("p", {}, "Every variable has its gradient.") : null);
  }

  view.root.append(controls(box, example), h("p", { class: "note" }, `Numbers, names, + − * / ** and ${first.functions.join(", ")}.`), sliders,
    buttons(run, press("First", () => 0), press("Step back", () => at - 1), press("Step", () => at + 1), press("Backward", () => forwards() + 1), press("Last", () => last())), controls(step),
    h("div", { class: "autodiff" }, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Expression graph" }, drawing), told), proof);
  const wanted = state.at;
  show(state.formula ? await view.ask("read", { formula: state.formula, names: Object.keys(given), values: Object.values(given) }) : first.shown);
  move(wanted ?? last());
}
