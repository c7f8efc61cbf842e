// One run: its scores beside the baselines, its curves, the views on it, its report, and it as one file.

import { get, once, post } from "./api.js";
import { lines, table } from "./charts.js";
import { button, buttons } from "./controls.js";
import { h, replace } from "./dom.js";
import { jobOf } from "./events.js";
import { capital, title } from "./home.js";
import { drawPreviews, jobPanel } from "./job.js";
import { link } from "./lab.js";

export default async function runPage({ main, arguments: [name] }) {
  const top = h("div", { class: "stack" }), previews = h("div", { class: "stack" }), body = h("div", { class: "stack" });
  replace(main, h("p", { class: "trail" }, h("a", { href: "#/runs" }, "Runs"), "›", h("span", {}, name)), h("h1", {}, name), top, body);
  let panel = null;
  const job = await jobOf(name);
  const showJob = (found) => { panel?.leave(); panel = jobPanel(found, { ondone: (what) => { if (what === "removed") replace(top); draw(); } }); replace(top, panel.element); };
  // A run that was paused or stopped before it wrote anything has no folder yet, and all that there is of it is its job.
  const draw = async () => replace(body, await contents(name, showJob, panel !== null, previews).catch((error) => { if (panel) return null; throw error; }));
  if (job && job.state !== "finished") showJob(job);
  if (job?.state === "finished") get(`/api/queue/${job.id}/previews`).then((found) => drawPreviews(previews, found.previews)).catch(() => {});
  if (!job || ["finished", "paused", "stopped"].includes(job.state)) await draw();
  return { leave: () => panel?.leave() };
}

async function contents(name, showJob, followed, previews) {
  const path = `/api/runs/${encodeURIComponent(name)}`;
  const [run, measured, views] = await Promise.all([get(path), get(`${path}/curves`), once("/api/views")]);
  const metrics = [...new Map(run.results.flatMap((result) => result.metrics.map((each) => [each.name, each.title]))).entries()];
  const cell = (result, metric) => { const found = result.metrics.find((each) => each.name === metric); return found ? h("span", { "data-value": found.value }, found.text) : ""; };
  const own = views.filter((view) => run.views.includes(view.name));
  return [
    h("p", { class: "muted" }, h("a", { href: link(`/system/${run.system}`) }, title(run.system)), ` · ${run.source || "embedded data"} · begun ${run.created.slice(0, 16).replace("T", " ")} · seed ${run.seed}`),
    run.reason ? h("p", { class: "sentence" }, run.reason) : null,
    buttons(run.pages.includes("report.html") ? h("a", { class: "button main", href: `/report/${encodeURIComponent(name)}`, target: "_blank", rel: "noopener" }, "Open the report") : null,
      run.state === "finished" ? h("a", { class: "button", href: `${path}/archive`, download: `${name}.zip` }, "Download as .zip") : null,
      run.state === "unfinished" ? button("Go on training", async () => showJob(await post(`${path}/resume`)), { kind: "main" }) : null,
      h("a", { class: "button", href: link(`/train/${run.system}`, { like: name }) }, "Train one like it")),
    own.length ? [h("h2", {}, "Look inside"), h("div", { class: "cards" }, own.map((view) => h("a", { class: "card", href: link(`/view/${view.name}`, { run: name }) }, h("span", { class: "body" }, h("b", {}, view.title), h("span", { class: "idea" }, capital(view.idea))))))] : null,
    run.results.length ? [h("h2", {}, "Scores on held-out data"), table({ columns: ["", ...metrics.map(([, heading]) => ({ name: heading, numeric: true }))], rows: run.results.map((result, index) => [index ? result.name : h("b", {}, result.name), ...metrics.map(([metric]) => cell(result, metric))]) })] : null,
    followed ? null : [charts(measured), previews],
    run.notes?.length ? [h("h2", {}, "Notes on the data"), h("ul", {}, run.notes.map((note) => h("li", {}, note)))] : null,
    h("h2", {}, "Command"), h("pre", { class: "command", tabindex: "0" }, run.command),
  ];
}

function charts(measured) {
  const metrics = [...new Set(Object.values(measured).flatMap((part) => Object.keys(part)))].filter((metric) => !metric.startsWith("learning_rate"));
  if (!metrics.length) return null;
  return [h("h2", {}, "Curves"), h("div", { class: "sides" }, metrics.map((metric) => {
    const chart = lines({ title: metric.replaceAll("_", " "), x: "step", height: 210, width: 440 });
    chart.update({ series: Object.entries(measured).filter(([, part]) => part[metric]).map(([part, each]) => ({ name: part, key: part === "validation" ? 2 : 1, x: each[metric].map(([step]) => step), y: each[metric].map(([, value]) => value) })) });
    return chart;
  }))];
}
