// Gates and states of a recurrent cell over a typed text.

import { button, buttons, colouredText, controls, figure, h, heatmap, lines, number, percent, perFrame, replace, select, spaced, table, textBox } from "../widgets.js";

const bits = (nats) => (nats === null ? null : nats / Math.LN2);

export default async function gates(view) {
  const { first } = view;
  const asked = { text: view.state.text ?? first.text, cell: view.state.cell ?? null, gate: view.state.gate ?? null, sort: view.state.sort ?? "variance", unit: view.state.unit ?? null };
  let shown = null;
  const text = textBox({ label: "text", value: asked.text, rows: 2, maxlength: first.characters, onchange: (value) => change({ text: value }) });
  const cell = select({ label: "cell", options: first.shown.cells, onchange: (value) => change({ cell: value, unit: null }) });
  const gate = select({ label: "gate or state", options: first.shown.gates, onchange: (value) => change({ gate: value }) });
  const sort = select({ label: "units sorted by", options: first.orders.map((each) => [each, first.orders.indexOf(each) < 2 ? each : `tie to: ${each}`]), value: asked.sort, onchange: (value) => change({ sort: value, unit: null }) });
  const map = heatmap({ scale: "both", pixels: 560, onpick: (row) => change({ unit: shown.units[row] }), onhover: perFrame(hovered) });
  const under = h("div", { class: "under", "aria-hidden": "true" }), readout = h("p", { class: "note", role: "status" });
  const heading = h("h3", {});
  const coloured = colouredText({ label: "The text, coloured by the unit", scale: "both" });
  const trace = lines({ title: "The unit's gates and state", x: "token", height: 220, width: 420 });
  const reading = h("div", { class: "stack" });
  const chances = lines({ title: first.ties ? "Surprise of each token, in bits" : "Probabilities as each token is read", x: "token", height: 220, width: 420 });
  const found = h("div", { class: "ties" });

  function hovered(row, column, value) {
    readout.textContent = row === null ? describe() : `Unit ${shown.units[row]} at ${spaced(shown.tokens[column])}: ${number(value, 3)}${shown.ranks.length ? ` (${asked.sort === "variance" ? "variance" : "r"} ${number(shown.ranks[row], 3)})` : ""}`;
  }
  const describe = () => `${shown.rows.length} of ${shown.count} units, one a row; ${shown.positive ? "the stronger the colour, the more open the gate" : "blue above zero, orange below"}. Choose a row to follow its unit.`;

  function show(answer) {
    shown = answer;
    const { tokens, unit, traces } = answer, x = tokens.map((_, i) => i);
    cell.offer(answer.cells); cell.set(answer.cell);
    gate.offer(answer.gates); gate.set(answer.gate);
    const reach = Math.max(1, ...answer.rows.flat().map(Math.abs));
    map.update({ rows: answer.rows, low: -reach, high: reach, said: `${answer.gate} of ${answer.rows.length} units over ${tokens.length} tokens; most sorted: unit ${answer.units[0]}` });
    under.className = tokens.some((token) => token.length > 2) ? "under long" : "under";
    replace(under, tokens.map((token) => h("span", {}, spaced(token))));
    readout.textContent = describe();
    replace(heading, `Unit ${unit}: ${answer.gate}`);
    const own = traces[answer.gate];
    const gaps = !tokens.some((token) => /\s/.test(token)) && tokens.some((token) => token.length > 2);
    coloured.update({ tokens, values: own, high: Math.max(1, ...own.map(Math.abs)), gaps, titles: tokens.map((token, i) => `${spaced(token)}: ${number(own[i], 3)}`) });
    trace.update({ series: Object.entries(traces).map(([name, y]) => ({ name, x, y })), label: `Gates of unit ${unit} over ${tokens.length} tokens` });
    showAnswers(answer.answers, tokens, x);
  }

  function showAnswers(answers, tokens, x) {
    if (answers.kind === "surprise") {
      const known = answers.nats.filter((value) => value !== null), mean = known.length ? bits(known.reduce((a, b) => a + b, 0) / known.length) : null;
      chances.update({ series: [{ name: "surprise in bits", x, y: answers.nats.map(bits) }], label: "Surprise of each token" });
      replace(reading, h("p", {}, "The model was surprised by ", mean === null ? "nothing yet" : figure(mean, number(mean, 3)), mean === null ? "" : " bits per token on average."));
      return;
    }
    chances.update({ series: Object.entries(answers.lines).map(([name, y]) => ({ name, x, y })), yRange: [0, 1], label: `Probabilities after each token; at the end ${answers.best.at(-1)[0]}` });
    if (answers.kind === "classes") {
      const [name, share] = answers.best.at(-1);
      replace(reading, h("p", {}, "After the whole text: ", h("b", {}, name), " with ", figure(share, percent(share)), "."));
      return;
    }
    const tags = colouredText({ label: "Tags of the tokens" });
    tags.update({ tokens, values: answers.best.map(([, share]) => share), high: 1, notes: answers.best.map(([name]) => name), titles: answers.best.map(([name, share]) => `${name} ${percent(share)}`) });
    replace(reading, h("p", {}, "The tag of each token, in a stronger colour where it is surer:"), tags);
  }

  async function change(next) {
    Object.assign(asked, next);
    view.set(next);
    show(await view.ask("read", asked));
  }

  const search = button("Correlate units with held-out text", async () => {
    search.disabled = true;
    try {
      const answer = await view.ask("ties");
      replace(found, table({
        caption: `Correlations over ${number(answer.characters)} characters that training has not seen: found in the first half, checked in the second. A correlation is no proof that the unit is there for this.`,
        columns: ["property", "gate", "unit", { name: "r where found", numeric: true }, { name: "r where checked", numeric: true }],
        rows: answer.ties.map((tie) => [tie.property, tie.gate, button(`unit ${tie.unit}`, () => change({ cell: tie.cell, gate: tie.gate, unit: tie.unit })), figure(tie.found, number(tie.found, 2)), figure(tie.held_out, number(tie.held_out, 2))]),
      }));
    } finally { search.disabled = false; }
  });

  view.root.append(text, controls(cell, gate, sort), h("div", { class: "gatemap" }, map, under), readout, heading, coloured,
    h("div", { class: "sides" }, trace, h("div", { class: "stack" }, chances, reading)), first.ties ? h("div", { class: "stack" }, buttons(search), found) : "");
  show(Object.keys(view.state).length ? await view.ask("read", asked) : first.shown);
}
