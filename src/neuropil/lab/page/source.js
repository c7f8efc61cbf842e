// A source file of neuropil, at a line.

import { h, replace } from "./dom.js";

export default async function sourcePage({ main, arguments: [file], query }) {
  const response = await fetch(`/source/${file}`);
  if (!response.ok) throw new Error(`There is no source file ${file}.`);
  const wanted = Number(query.get("line") ?? 0), lines = (await response.text()).split("\n");
  const rows = lines.map((text, index) => h("span", { class: index + 1 === wanted ? "marked" : "" }, `${String(index + 1).padStart(4)}  ${text}\n`));
  replace(main, h("h1", {}, file), h("div", { class: "source" }, h("pre", { tabindex: "0", class: "file" }, rows)));
  requestAnimationFrame(() => rows[wanted - 1]?.scrollIntoView({ block: "center" }));
}
