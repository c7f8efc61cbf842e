// One run that is under way, waits or has ended: how far it is, its curves as they grow, and what can be done with it.

import { get, post } from "./api.js";
import { lines } from "./charts.js";
import { button, buttons } from "./controls.js";
import { duration, h, number, replace } from "./dom.js";
import { curvesOf, follow } from "./events.js";
import { sample } from "./preview.js";

export const STATES = { queued: "waiting", running: "training", pausing: "pausing", paused: "paused", stopping: "stopping", stopped: "stopped", finished: "finished", refused: "refused", failed: "failed", killed: "ended by the system" };
const OFFERS = { queued: ["stop"], running: ["pause", "stop"], pausing: ["stop"], paused: ["resume", "stop"], stopped: ["resume", "remove"], failed: ["resume", "remove"], killed: ["resume", "remove"], refused: ["remove"], finished: [] };
const WORDS = { pause: "Pause", resume: "Resume", stop: "Stop", remove: "Remove from the list" };

export function jobActions(job, after = () => {}) {
  return buttons((OFFERS[job.state] ?? []).map((action) => button(WORDS[action], async () => { await post(`/api/queue/${job.id}/${action}`); after(action); }, { kind: action === "resume" ? "main" : "" })));
}

export function progressLine(job) {
  const { share, seconds_left: left, numbers = {} } = job.progress ?? {};
  const figures = Object.entries(numbers).filter(([name]) => name !== "step").map(([name, value]) => `${name.replaceAll("_", " ")} ${number(value)}`);
  return h("div", { class: "stack" }, job.state === "running" ? h("progress", { value: share ?? undefined, max: 1, "aria-label": "Progress" }) : null,
    h("p", { class: "note numeric-line" }, [job.progress?.title, share === null || share === undefined ? null : `${Math.floor(100 * share)} %`, left ? `${duration(left)} left` : null, ...figures].filter(Boolean).join(" · ")));
}

// The panel of one job, which follows it until leave() is called.
export function jobPanel(start, { ondone } = {}) {
  let job = start, rows = {}, previews = [];
  const state = h("h2", {}), actions = h("div", {}), progress = h("div", {}), reason = h("div", {}), charts = h("div", { class: "sides" }), shown = h("div", { class: "stack" });
  const element = h("section", { class: "panel", "data-job": job.id, "aria-label": `Job ${job.run}` }, h("div", { class: "head" }, state, actions), progress, reason, charts, shown);
  const drawn = new Map();

  function draw() {
    element.dataset.state = job.state;
    replace(state, STATES[job.state][0].toUpperCase() + STATES[job.state].slice(1));
    replace(actions, jobActions(job, (action) => action === "remove" && ondone?.("removed")));
    replace(progress, ["running", "pausing", "stopping"].includes(job.state) ? progressLine(job) : null);
    replace(reason, job.reason ? h("p", { class: "sentence", role: "alert" }, job.reason) : null,
      job.state === "failed" ? button("Show what it printed", async () => reason.append(h("pre", { class: "log" }, (await get(`/api/queue/${job.id}/log`)).log))) : null);
  }

  function drawCurves() {
    const metrics = [...new Set(Object.values(rows).flatMap((part) => Object.keys(part)))].filter((name) => !/^(learning_rate|seconds)/.test(name)).slice(0, 6);
    for (const metric of metrics) {
      if (!drawn.has(metric)) { drawn.set(metric, lines({ title: metric.replaceAll("_", " "), x: "step", height: 200, width: 420 })); charts.append(drawn.get(metric)); }
      const series = Object.entries(rows).filter(([, part]) => part[metric]?.length).map(([part, each]) => ({ name: part, key: part === "validation" ? 2 : 1, x: each[metric].map(([step]) => step), y: each[metric].map(([, value]) => value) }));
      const last = series.at(-1)?.y.at(-1);
      drawn.get(metric).update({ series, label: `${metric}: ${series.map((one) => `${one.name} ${number(one.y.at(-1))}`).join(", ")}` });
      drawn.get(metric).dataset.last = last;
    }
  }

  function add(news) {
    if (news.anew) rows = {};
    for (const row of news.rows) {
      if (row.kind === "result") continue;
      for (const [name, value] of Object.entries(row)) {
        if (["kind", "step", "epoch", "seconds"].includes(name) || typeof value !== "number") continue;
        const points = ((rows[row.kind] ??= {})[name] ??= []);
        if (!points.length || points.at(-1)[0] < row.step) points.push([row.step, value]);
      }
    }
    drawCurves();
  }

  const leave = follow((news) => {
    if (news.event === "jobs") { const found = news.jobs.find((each) => each.id === job.id); if (found) { job = found; draw(); } }
    else if (news.event === "lost") replace(reason, h("p", { class: "sentence" }, "The lab does not answer; the run goes on by itself. Start `neuropil lab` again."));
    else if ((news.job?.id ?? news.id) !== job.id) return;
    else if (news.event === "job") { const before = job.state; job = { ...news.job, progress: news.job.progress ?? job.progress }; draw(); if (job.state === "finished" && before !== "finished") ondone?.("finished"); }
    else if (news.event === "progress") { job.progress = news.progress; draw(); }
    else if (news.event === "rows") add(news);
    else if (news.event === "previews") { if (news.anew) previews = []; previews.push(...news.rows); drawPreviews(shown, previews); }
  });
  draw();
  curvesOf(job.id).then((found) => { rows = found; drawCurves(); }).catch(() => {});
  get(`/api/queue/${job.id}/previews`).then((found) => { previews = found.previews; drawPreviews(shown, previews); }).catch(() => {});
  return { element, leave };
}

// What the model made of a fixed set, at the first, some of the middle and the last validation.
export function drawPreviews(root, previews) {
  if (!previews.length) return;
  const places = [...new Set([0, 1, 2, 3].map((k) => Math.round(k * (previews.length - 1) / 3)))];
  replace(root, h("h3", {}, "A fixed set, as it improves"), h("div", { class: "stack previews" }, places.map((place) => preview(previews[place]))));
}

const preview = (row) => h("div", {}, h("p", { class: "note" }, `step ${number(row.step)}`), sample(row));
