// A forecast with its band after a history whose points are dragged.

import { button, buttons, controls, figure, h, lines, number, numberBox, percent, replace, select, slider, table, toggle } from "../widgets.js";

const KEYS = { "seasonal naive": 4, persistence: 5 };

export default async function forecast(view) {
  const { first } = view;
  let series = view.state.series ?? 0, origin = view.state.origin ?? first.shown.origin, share = view.state.share ?? 0.8, compare = view.state.compare ?? true;
  const changes = new Map(view.state.changes ?? []);
  let shown = null, dragged = null, yRange = null;
  const chart = h("div", { class: "forecastchart" });
  const drawing = lines({ title: `${first.target}, by ${first.step}`, x: `${first.step}s from the origin`, height: 320, width: Math.max(360, Math.min(720, view.root.clientWidth)), ondrag: drag });
  chart.append(drawing);
  const which = select({ label: "series", options: first.series.map((name, i) => [i, name]), value: series, onchange: (value) => { series = value; origin = null; changes.clear(); bound(); ask({ rescale: true }); } });
  const where = slider({ label: "origin", min: first.origins[series][0], max: first.origins[series][1], step: 1, value: origin, show: (step) => (shown && step === shown.origin ? shown.date : `${first.step} ${step}`), onchange: (value) => { origin = value; changes.clear(); ask({ rescale: true }); } });
  const bands = select({ label: "band holds", options: first.shares.map((each) => [each, percent(each, 0)]), value: share, onchange: (value) => { share = value; ask(); } });
  const others = toggle({ label: "show baselines", value: compare, onchange: (value) => { compare = value; view.set({ compare }); draw(); } });
  const point = numberBox({ label: `${first.step}s before the origin`, value: 1, min: 1, max: first.window, step: 1, onchange: fillValue });
  const level = numberBox({ label: "value there", value: 0, onchange: (value) => value !== null && alter(shown.origin - (point.value ?? 1), value) });
  const said = h("p", {}), readout = h("p", { class: "note", role: "status" }), scores = h("div", {});

  function bound() { const [low, high] = first.origins[series], input = where.querySelector("input"); input.min = low; input.max = high; }
  function fillValue() { const value = shown?.history[shown.origin - shown.begin - (point.value ?? 1)]; if (value !== null && value !== undefined) level.set(Number(value.toPrecision(5))); }

  async function ask({ rescale = false } = {}) {
    const steps = [...changes.keys()];
    view.set({ series, origin, share, changes: [...changes] });
    const answer = await view.ask("read", { series, origin, share, steps, values: steps.map((step) => changes.get(step)) });
    show(answer, rescale);
  }

  function show(answer, rescale) {
    shown = answer;
    origin = answer.origin;
    where.set(origin);
    if (rescale || !yRange) yRange = range();
    fillValue();
    draw();
    const { mase } = answer, known = Object.entries(mase).filter(([, value]) => value !== null).sort((a, b) => a[1] - b[1]);
    replace(said, `From ${answer.date}${answer.held_out ? ", which is held out" : answer.origin < first.test_begin ? ", which training and validation have seen" : ""}: `,
      known.length ? ["mean absolute scaled error ", h("b", {}, figure(mase.forecaster, number(mase.forecaster, 3))), `; ${answer.inside} of ${answer.of} values lie in the band of ${percent(share, 0)}.`] : "the truth is not known yet.",
      changes.size ? ` ${changes.size} ${changes.size === 1 ? "point is" : "points are"} changed.` : "");
    replace(scores, known.length ? table({ columns: ["forecast", { name: "MASE", numeric: true }], rows: known.map(([name, value]) => [name, figure(value, number(value, 3))]) }) : "", known.length ? h("p", { class: "note" }, "MASE is the mean absolute error over the horizon, in units of the mean change over a season in the training part.") : "");
    reset.disabled = !changes.size;
  }

  function range() {
    const every = [...shown.was, ...shown.history, ...shown.low, ...shown.high, ...shown.truth, ...Object.values(shown.baselines).flat()].filter((value) => value !== null);
    const low = Math.min(...every), high = Math.max(...every), room = (high - low) * 0.12 || 1;
    return [low - room, high + room];
  }

  function draw() {
    const past = shown.history.map((_, i) => shown.begin + i - shown.origin), ahead = shown.median.map((_, i) => i);
    const join = (list) => [shown.history.at(-1), ...list], x = [-1, ...ahead];
    const altered = past.filter((at) => changes.has(at + shown.origin));
    const series = [
      { name: "history", x: past, y: shown.history, key: 1 },
      { x: past, y: shown.history.map((value) => value ?? 0), dots: 2.4, key: 1 },
      { name: "forecast (median)", x, y: join(shown.median), low: join(shown.low), high: join(shown.high), key: 2 },
      { name: "truth", x: ahead.filter((i) => shown.truth[i] !== null), y: shown.truth.filter((value) => value !== null), dots: 3.4, key: 3 },
    ];
    if (altered.length) series.push({ name: "as it was", x: altered, y: altered.map((at) => shown.was[at + shown.origin - shown.begin]), dots: 3.4, key: 5 });
    if (compare) for (const [name, y] of Object.entries(shown.baselines)) series.push({ name, x: ahead, y, key: KEYS[name] ?? 6 });
    drawing.update({ series, yRange, marks: [{ x: -0.5, text: shown.date }], label: `${first.target}: ${shown.history.length} values of history and a forecast of ${shown.median.length}, from ${number(shown.median[0])} to ${number(shown.median.at(-1))}` });
  }

  function alter(step, value) {
    if (step < shown.begin || step >= shown.origin) return;
    const steps = [...changes.keys()];
    if (!changes.has(step) && steps.length >= 100) return;
    changes.set(step, value);
    ask();
  }

  function drag(x, y, phase) {
    if (phase === "down") {
      const at = Math.round(x) + shown.origin;
      dragged = at >= shown.begin && at < shown.origin && shown.was[at - shown.begin] !== null ? at : null;
      const scale = yRange[1] - yRange[0];
      // Only a point that is touched is taken along.
      if (dragged !== null && Math.abs(y - shown.history[dragged - shown.begin]) > 0.12 * scale) dragged = null;
      return;
    }
    if (dragged === null) return;
    const value = Math.max(yRange[0], Math.min(yRange[1], y));
    if (phase === "move") { readout.textContent = `${shown.dates[dragged - shown.begin]}: ${number(value)}, was ${number(shown.was[dragged - shown.begin])}`; point.set(Math.min(first.window, shown.origin - dragged)); alter(dragged, Number(value.toPrecision(5))); }
    else dragged = null;
  }

  const reset = button("Restore the history", () => { changes.clear(); readout.textContent = ""; ask(); });
  view.root.append(controls(first.series.length > 1 ? which : "", where, bands, others), chart,
    h("p", { class: "note" }, `Drag a point of the history: the forecast follows. It is made from the last ${first.window} ${first.step}s; season: ${first.season}, horizon: ${first.horizon}.`), readout,
    controls(point, level, buttons(reset)), said, scores, h("p", { class: "note" }, `Data: ${first.source}.`));
  if (Object.keys(view.state).length) await ask({ rescale: true });
  else show(first.shown, true);
}
