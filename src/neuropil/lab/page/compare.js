// Several runs side by side: scores, options that differ, curves in one picture.

import { get } from "./api.js";
import { lines, table } from "./charts.js";
import { h, replace } from "./dom.js";
import { link } from "./lab.js";

export default async function comparePage({ main, query }) {
  const names = (query.get("runs") ?? "").split(",").filter(Boolean);
  const { rows, curves } = await get(`/api/compare?${names.map((name) => `run=${encodeURIComponent(name)}`).join("&")}`);
  const metrics = [...new Set(Object.values(curves).flatMap((parts) => Object.keys(parts.validation ?? parts.train ?? {})))].filter((name) => !name.startsWith("learning_rate"));
  const charts = metrics.map((metric) => {
    const chart = lines({ title: metric.replaceAll("_", " "), x: "step", height: 230, width: 480 });
    chart.update({ series: names.flatMap((name) => { const points = (curves[name]?.validation ?? curves[name]?.train ?? {})[metric]; return points ? [{ name, x: points.map(([step]) => step), y: points.map(([, value]) => value) }] : []; }) });
    return chart;
  });
  replace(main, h("p", { class: "trail" }, h("a", { href: "#/runs" }, "Runs"), "›", h("span", {}, "comparison")), h("h1", {}, "Runs side by side"),
    table({ columns: [" ", ...names.map((name) => ({ name }))], rows: rows.map(([name, ...cells]) => [h("b", {}, name), ...cells]) }),
    h("div", { class: "sides" }, charts), h("p", {}, names.map((name) => [h("a", { href: link(`/run/${name}`) }, name), " "])));
}
