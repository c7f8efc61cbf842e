// The whole forward pass, stage by stage; a number that is chosen opens beside it, down to one multiplication.

import { chooser } from "../chooser.js";
import { openedPanel } from "../opened.js";
import { stageMap } from "../stages.js";
import { controls, h, replace, slider, textBox } from "../widgets.js";

export default async function products(view) {
  const { first } = view, maps = new Map(), stages = h("div", { class: "stages" });
  let shown = null, parts = null, made = "";
  const chosen = input(view, () => change());
  const panel = openedPanel({ ask: (place) => view.ask("number", { ...chosen.request(), ...place }), onopen: mark, say: view.say });

  function mark(answer, trail) {
    view.set({ trail });
    for (const [name, map] of maps) {
      const makers = answer.terms.flatMap((term) => term.factors).filter((factor) => factor.kind === "number" && factor.name === name);
      map.mark(name === answer.stage ? answer.index : null, makers.map((factor) => factor.index));
    }
  }

  function draw(answer) {
    shown = answer; parts ??= new Set(answer.parts);
    const names = answer.stages.map((stage) => stage.name).join();
    if (names !== made) { made = names; build(answer); }
    for (const stage of answer.stages) maps.get(stage.name).update(stage, answer.tokens);
  }

  function build(answer) {
    maps.clear();
    const sections = [];
    let part = null, holder = null;
    for (const stage of answer.stages) {
      const own = stage.path[0] ?? "";
      if (own !== part) { part = own; holder = section(own, answer); sections.push(holder); }
      const map = stageMap({ onpick: (index) => panel.open([{ stage: stage.name, index }]) });
      maps.set(stage.name, map);
      holder.append(map);
    }
    replace(stages, sections);
  }

  function section(part, answer) {
    if (!part) return h("div", { class: "part" });
    const count = answer.stages.filter((stage) => stage.path[0] === part).length;
    const details = h("details", { class: "part", open: parts.has(part) }, h("summary", {}, part, h("span", { class: "note" }, ` ${count} stages`)));
    details.addEventListener("toggle", () => {
      if (details.open === parts.has(part)) return;
      details.open ? parts.add(part) : parts.delete(part);
      view.set({ parts: [...parts] });
      if (details.open) read();
    });
    return details;
  }

  async function read() {
    draw(await view.ask("read", { ...chosen.request(), parts: [...parts] }));
    if (panel.trail.length) await panel.open(panel.trail);
  }

  async function change() {
    draw(await view.ask("read", { ...chosen.request(), parts: [...parts] }));
    const there = (place) => { const stage = shown.stages.find((each) => each.name === place.stage); return stage && place.index.every((each, axis) => each < stage.shape[axis]); };
    const kept = panel.trail.filter(there);
    await panel.open(kept.length ? kept : answered());
  }

  // The likeliest answer, which is where one begins.
  const answered = () => { const last = shown.stages[shown.stages.length - 1]; return [{ stage: last.name, index: maps.get(last.name).largest() }]; };

  view.root.append(h("div", { class: "products" }, h("section", { "aria-label": "Input" }, h("h2", { class: "spoken" }, "Input"), chosen), panel, stages));
  if (Array.isArray(view.state.parts)) parts = new Set(view.state.parts);
  const again = chosen.changed || parts !== null;
  draw(again ? await view.ask("read", { ...chosen.request(), parts: parts && [...parts] }) : first.shown);
  await panel.open(Array.isArray(view.state.trail) && view.state.trail.length ? view.state.trail : answered());
}

// What the pass is of: a picture that is drawn or held out, a row of a table, or a text.
function input(view, onchange) {
  const { first, state } = view;
  if (first.kind === "picture") {
    const element = chooser({ view, first, onchange });
    return Object.assign(element, { request: () => element.chosen.request, changed: state.drawing !== undefined || state.example !== undefined });
  }
  if (first.kind === "table") {
    const box = slider({ label: "Held-out row", min: 0, max: first.rows - 1, step: 1, value: state.example ?? 0, onchange: (example) => { view.set({ example }); onchange(); } });
    return Object.assign(controls(box), { request: () => ({ example: box.value }), changed: state.example !== undefined });
  }
  const box = textBox({ label: "Text", value: state.text ?? first.text, maxlength: first.characters, onchange: (text) => { view.set({ text }); if (text.trim()) onchange(); } });
  return Object.assign(box, { request: () => ({ text: box.value }), changed: state.text !== undefined });
}
