// One system: its idea, what can be looked at, its runs.

import { get, once } from "./api.js";
import { sparkline, table } from "./charts.js";
import { h, replace } from "./dom.js";
import { explanation } from "./explain.js";
import { capital, NAMES, title } from "./home.js";
import { link } from "./lab.js";

export default async function systemPage({ main, arguments: [name] }) {
  const [systems, views, listed] = await Promise.all([once("/api/systems"), once("/api/views"), get("/api/runs").catch(() => ({ runs: [] }))]);
  const system = systems.find((each) => each.name === name);
  if (!system) throw new Error(`There is no system ${name}.`);
  const runs = listed.runs.filter((run) => run.system === name), own = views.filter((view) => view.systems.includes(name));
  const verb = system.verb === "train" ? "Train" : "Simulate";
  replace(main,
    h("p", { class: "trail" }, h("a", { href: "#/" }, "Systems"), "›", h("span", {}, system.family)),
    h("div", { class: "head" }, h("h1", {}, NAMES[name] ?? capital(title(name))), h("a", { class: "button main", href: link(`/train/${name}`) }, verb)),
    h("p", { class: "muted" }, capital(system.summary), "."),
    h("div", { class: "sides" },
      h("section", { class: "stack" }, h("h2", {}, "Look inside"), own.length ? h("ul", { class: "plain stack" }, own.map((view) => viewLine(view, name, runs))) : h("p", { class: "muted" }, "Its report has the pictures."),
        runs.length ? [h("h2", {}, "Runs"), runTable(runs)] : h("p", { class: "muted" }, `No run yet: ${verb.toLowerCase()} it, which takes seconds to a few minutes.`)),
      await explanation(name)));
}

function viewLine(view, system, runs) {
  const finished = runs.filter((run) => run.state === "finished");
  const target = view.needs_run ? finished[0] && link(`/view/${view.name}`, { run: finished[0].name }) : link(`/view/${view.name}`, { system });
  return h("li", { class: "panel" }, target ? h("a", { href: target }, h("b", {}, view.title)) : h("b", {}, view.title),
    h("div", { class: "note" }, capital(view.idea), target ? "" : " — needs a finished run"));
}

export function runTable(runs) {
  return table({ columns: ["run", "curve", "result"], rows: runs.map((run) => [
    h("a", { href: link(`/run/${run.name}`) }, run.name), run.curve ? sparkline(run.curve.points.map(([, value]) => value)) : "",
    run.headline ? `${run.headline.title} ${run.headline.text}` : run.state]) });
}
