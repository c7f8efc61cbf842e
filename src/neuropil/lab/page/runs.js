// All runs: what trains and waits, then a table of what is there, with comparison, deletion and undo.

import { get, post } from "./api.js";
import { sparkline } from "./charts.js";
import { button, buttons } from "./controls.js";
import { h, replace } from "./dom.js";
import { follow } from "./events.js";
import { jobActions, progressLine, STATES } from "./job.js";
import { link, say } from "./lab.js";

export default async function runsPage({ main }) {
  const chosen = new Set(), queue = h("div", { class: "stack" }), list = h("div", { class: "stack" }), undo = h("div", {});
  const search = h("input", { type: "search", class: "search", placeholder: "Search the runs", "aria-label": "Search the runs" });
  let found = { runs: [], deleted: [] };
  const compare = button("Compare", () => { location.hash = link("/compare", { runs: [...chosen].join(",") }); });
  const read = async () => { found = await get("/api/runs"); draw(); };

  function drawJobs(jobs) {
    const shown = jobs.filter((job) => job.state !== "finished");
    replace(queue, shown.length ? h("h2", {}, "Queue") : null, shown.map((job) => h("div", { class: "panel", "data-job": job.id, "data-state": job.state },
      h("div", { class: "head" }, h("a", { href: link(`/run/${job.run}`) }, job.run), h("span", { class: "note" }, STATES[job.state]), jobActions(job)),
      progressLine(job), job.reason ? h("p", { class: "sentence" }, job.reason) : null)));
  }

  async function remove(run) {
    const deleted = await fetch(`/api/runs/${encodeURIComponent(run.name)}`, { method: "DELETE" });
    const answer = await deleted.json();
    if (!deleted.ok) { replace(undo, h("p", { class: "sentence", role: "alert" }, answer.error)); return; }
    chosen.delete(run.name);
    say(`${run.name} is deleted.`);
    await read();
    const back = button("Undo", async () => { await post(`/api/deleted/${answer.id}/restore`); replace(undo); await read(); say(`${run.name} is back.`); }, { kind: "main" });
    replace(undo, h("div", { class: "panel head" }, h("span", {}, `${run.name} is deleted.`), back));
    back.focus();
  }

  function draw() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const runs = found.runs.filter((run) => words.every((word) => `${run.name} ${run.system} ${run.command} ${run.source}`.toLowerCase().includes(word)));
    compare.disabled = chosen.size < 2;
    compare.textContent = chosen.size < 2 ? "Compare (choose two or more)" : `Compare ${chosen.size} runs`;
    replace(list, found.runs.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs" }, h("table", { class: "whole" },
      h("thead", {}, h("tr", {}, ["", "run", "system", "curve", "result", "baseline", "begun", ""].map((name) => h("th", { scope: "col" }, name || h("span", { class: "spoken" }, "choice and actions"))))),
      h("tbody", {}, runs.map(row)))) : h("p", { class: "muted" }, "No runs yet. Choose a system and train it."), deletedList());
  }

  function row(run) {
    const box = h("input", { type: "checkbox", "aria-label": `Choose ${run.name}`, checked: chosen.has(run.name), onchange: (event) => { event.target.checked ? chosen.add(run.name) : chosen.delete(run.name); draw(); list.querySelector(`[aria-label="Choose ${CSS.escape(run.name)}"]`)?.focus(); } });
    const figures = run.headline;
    return h("tr", { "data-run": run.name }, h("td", {}, run.state === "finished" ? box : null),
      h("td", {}, h("a", { href: link(`/run/${run.name}`) }, run.name), run.reason ? h("p", { class: "note bad" }, run.reason) : null),
      h("td", {}, run.system), h("td", {}, run.curve ? sparkline(run.curve.points.map(([, value]) => value)) : null),
      h("td", { class: figures?.beaten ? "good" : figures?.beaten === false ? "bad" : "" }, figures ? `${figures.title} ${figures.text}` : run.state),
      h("td", { class: "muted" }, figures?.baseline ? `${figures.beaten ? "better than " : figures.beaten === false ? "worse than " : ""}${figures.baseline} ${figures.baseline_text}` : ""),
      h("td", { class: "muted date" }, run.created.slice(0, 16).replace("T", " ")),
      h("td", {}, button("Delete", () => remove(run), { kind: "plain danger", label: `Delete ${run.name}` })));
  }

  function deletedList() {
    if (!found.deleted.length) return null;
    return h("details", {}, h("summary", {}, `Deleted in the last days (${found.deleted.length})`), h("ul", { class: "plain stack" }, found.deleted.map((each) =>
      h("li", {}, each.name, " ", button("Restore", async () => { await post(`/api/deleted/${each.id}/restore`); await read(); }, { label: `Restore ${each.name}` })))));
  }

  search.addEventListener("input", draw);
  replace(main, h("div", { class: "head" }, h("h1", {}, "Runs"), buttons(search, compare)), undo, queue, list);
  await read();
  const jobs = new Map();
  const leave = follow((news) => {
    if (news.event === "jobs") { jobs.clear(); for (const job of news.jobs) jobs.set(job.id, job); }
    else if (news.event === "job") jobs.set(news.job.id, news.job);
    else if (news.event === "removed") jobs.delete(news.id);
    else if (news.event === "progress" && jobs.has(news.id)) jobs.get(news.id).progress = news.progress;
    else if (news.event === "runs") { read(); return; } else return;
    drawJobs([...jobs.values()]);
    if (news.event === "job" && ["finished", "stopped", "paused"].includes(news.job.state)) read();
  });
  return { leave };
}
