// One opened number: its equation, the terms that make it, each with a bar for its size, and the line of code that computes it.
// Every factor that is a number of the pass is a button that opens it in turn; breadcrumbs lead back up.

import { math } from "./explain.js";
import { button, buttons } from "./controls.js";
import { figure, h, number, replace } from "./dom.js";
import { link } from "./lab.js";

const SENTENCES = {
  input: () => "Given: this is the input.",
  masked: () => "Hidden: this query may not look at this key.",
  lookup: () => "Found in a table, in the row that a token names.",
  copy: () => "Taken over as it is.",
  sum: ({ count }) => `The sum of ${count} numbers.`,
  "sum of products": ({ count }) => (count === 1 ? "One product." : `The sum of ${count} terms.`),
  function: ({ function: name }) => `The function ${name} of one number.`,
  quotient: () => "The quotient of two numbers.",
  norm: ({ count }) => `The square root of the sum of ${count} squares.`,
  mean: ({ count }) => `The mean of ${count} numbers.`,
  variance: ({ count }) => `The mean of ${count} squared differences from the mean.`,
  normalisation: () => "Less the mean, divided by the standard deviation.",
  softmax: ({ count }) => `Its exponential as a share of the sum of all ${count}; each score less the largest, which changes no share.`,
  maximum: ({ count }) => `The largest of ${count} numbers.`,
  "squared distance": ({ count }) => `The sum of ${count} squared differences, scaled.`,
};
const VALUES = { softmax: "exponential", norm: "square", variance: "square", "squared distance": "scaled square", "sum of products": "product" };
const ROLES = { x: "x", mean: "mean μ", variance: "variance σ²", epsilon: "ε", scale: "scale γ", shift: "shift β", std: "deviation σ", row: "row", found: "found" };

// The end of a long name that says what it is: `blocks.0.attention.query` is query, `hidden.0` itself.
export function shortName(name) {
  const words = name.split(".");
  let from = words.length - 1;
  while (from > 0 && /^\d+$/.test(words[from])) from--;
  return words.slice(from).join(".");
}

const indexed = (name, index) => (index.length ? `${name}[${index.join(", ")}]` : name);

// openedPanel({ask, onopen, say}): ask({stage, index, most}) answers an opened number; onopen(answer, trail) is told of each.
export function openedPanel({ ask, onopen, say = () => {} }) {
  const element = h("section", { class: "panel opened", "aria-label": "Opened number" });
  let trail = [];

  // The way down to a number, the last of which is opened.
  element.open = async (places, { most, focus = false } = {}) => {
    const last = places[places.length - 1], answer = await ask({ ...last, ...(most ? { most } : {}) });
    trail = places;
    draw(answer);
    onopen?.(answer, trail);
    if (focus) { element.querySelector("h2").focus(); say(`${indexed(answer.stage, answer.index)} is ${number(answer.value)}. ${SENTENCES[answer.operation](answer)}`); }
    return answer;
  };
  Object.defineProperty(element, "trail", { get: () => trail });

  const down = (factor) => element.open([...trail, { stage: factor.name, index: factor.index }], { focus: true });
  const up = (count) => element.open(trail.slice(0, count), { focus: true });
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || trail.length < 2) return;
    event.preventDefault();
    up(trail.length - 1);
  });

  function draw(answer) {
    const heading = h("h2", { tabindex: "-1" }, indexed(shortName(answer.stage), answer.index));
    replace(element, trail.length > 1 ? crumbs() : null,
      h("div", {}, heading, h("p", { class: "note" }, [...new Set([answer.title, ...answer.about, answer.stage])].join(" · "))),
      h("p", { class: "result" }, h("b", {}, figure(answer.value))),
      h("div", { class: "equation scroll", tabindex: "0", role: "region", "aria-label": "Equation" }, math(answer.equation)),
      h("div", { class: "source" }, h("pre", { tabindex: "0", "aria-label": "The line of code that computes it" }, h("code", {}, answer.code.text)),
        h("a", { href: link(`/source/${answer.code.file}`, { line: answer.code.line }) }, `${answer.code.file}, line ${answer.code.line}`)),
      h("p", {}, SENTENCES[answer.operation](answer)),
      answer.terms.length ? terms(answer) : null);
  }

  function crumbs() {
    const places = trail.map((place, index) => (index === trail.length - 1
      ? h("li", { "aria-current": "location" }, indexed(shortName(place.stage), place.index))
      : h("li", {}, button(indexed(shortName(place.stage), place.index), () => up(index + 1), { kind: "plain" }))));
    return h("nav", { class: "crumbs", "aria-label": "The way down to this number" }, h("ol", {}, places));
  }

  function terms(answer) {
    const largest = Math.max(...answer.terms.map((term) => Math.abs(term.value ?? 0))) || 1;
    const bar = (value) => h("span", { class: value < 0 ? "bar below" : "bar", style: { width: `${Math.min(100, 100 * Math.abs(value ?? 0) / largest)}%` } });
    const row = (first, value, name) => h("tr", {}, h("td", {}, first), h("td", { class: "numeric" }, h("span", { "data-value": value, "data-term": name }, number(value)), h("span", { class: "track" }, bar(value))));
    const heads = answer.terms.some((term) => term.role) ? ["part", "number"] : [answer.terms.some((term) => term.factors.length > 1) ? "factors" : "number", VALUES[answer.operation] ?? "value"];
    return h("div", { class: "terms" },
      h("table", { class: "whole" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, heads[0]), h("th", { scope: "col", class: heads[0] === "part" ? "" : "numeric" }, heads[1]))),
        h("tbody", {}, answer.terms.map((term) => (term.role ? h("tr", {}, h("td", {}, ROLES[term.role]), h("td", {}, factors(term.factors))) : row(factors(term.factors), term.value, "term"))),
          answer.rest_count ? row(h("span", { class: "muted" }, `${answer.rest_count} smaller ones together`), answer.rest, "rest") : null)),
      answer.rest_count ? buttons(button("Show more", () => element.open(trail, { most: Math.min(1000, 8 * answer.terms.length) }))) : null,
      h("p", { class: "note" }, "From these: ", h("span", { "data-value": answer.recomputed, class: "recomputed" }, number(answer.recomputed, 6)), "."));
  }

  function factors(list) {
    return h("span", { class: "factors" }, list.map((factor, place) => h("span", { class: "with" }, place ? h("span", { class: "times" }, "·") : null, shown(factor))));
  }

  function shown(factor) {
    const parts = [h("span", { class: "name" }, indexed(shortName(factor.name), factor.index), factor.word === null ? null : ` “${factor.word}”`), h("span", { class: "amount", "data-value": factor.value }, number(factor.value))];
    const title = indexed(factor.name, factor.index);
    if (factor.kind !== "number") return h("span", { class: `factor ${factor.kind}`, title: `${factor.kind}: ${title}` }, parts);
    return h("button", { type: "button", class: "factor", title: `Open ${title}`, "data-stage": factor.name, "data-index": factor.index.join(","), onclick: () => down(factor) }, parts);
  }

  return element;
}
