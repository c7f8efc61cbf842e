// Beside a view: the equations of its system, and the lines of code that compute what is shown.

import { once } from "./api.js";
import { h } from "./dom.js";
import { link } from "./lab.js";

export async function explanation(system, view = "") {
  const { equations, code } = await once(`/api/explain/${system}?view=${view}`);
  const element = h("aside", { class: "explain", "aria-label": "Explanation" }, h("h2", {}, "Equations"),
    equations.map((block) => (typeof block === "string" ? h("p", {}, plain(block)) : isCode(block) ? h("pre", { class: "lines", tabindex: "0" }, block.map(([[text]]) => text).join("\n")) : h("div", { class: "lines", tabindex: "0", role: "group", "aria-label": "Equations" }, block.map(line)))),
    code.length ? h("h2", {}, "Code that computes this") : null, code.map(source));
  element.mark = (name) => { for (const each of element.querySelectorAll(".source")) { each.open = each.dataset.name === name || each.open; each.classList.toggle("marked", each.dataset.name === name); } };
  return element;
}

const isCode = (block) => block.length > 1 && block.every((parts) => parts.length === 1 && !parts[0][1]);

// Without the marks of code and of emphasis.
const plain = (text) => text.replaceAll("`", "").replace(/(?<!\S)[*](\w+)[*]/g, "$1");

function line(parts) {
  return h("div", {}, parts.map(([text, isMath]) => (isMath ? math(text) : h("span", {}, plain(text)))));
}

// MathML of our own, as nodes.
export function math(text) {
  return document.importNode(new DOMParser().parseFromString(text, "application/xml").documentElement, true);
}

export function source({ name, file, first, lines }) {
  const short = name.replace(/^neuropil\./, "");
  return h("details", { class: "source", "data-name": name }, h("summary", {}, short),
    h("pre", { tabindex: "0", "aria-label": short }, h("code", {}, lines)),
    h("a", { href: link(`/source/${file}`, { line: first }) }, `${file}, line ${first}`));
}
