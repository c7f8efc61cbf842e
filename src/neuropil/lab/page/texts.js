// Texts whose tokens are coloured by numbers.

import { h, number } from "./dom.js";

// White space that can be seen: "\n" as ⏎.
export const visible = (token) => (token === "" ? "∅" : token.replaceAll("\n", "⏎").replaceAll("\t", "⇥"));

// A token by itself, for a button or a table: spaces at its ends as ␣.
export const spaced = (token) => visible(token).replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length));

// colouredText({label, scale, show, onpick}); update({tokens, values, low, high, titles, chosen, gaps, notes, underlined}).
// `scale`: "up" from nothing to much, "both" around zero. A value of null has no colour. `gaps` puts a space after each token, `notes` a small text under each; from `underlined` on, tokens are underlined.
// Tokens can be picked by a click or, by keyboard, by the arrow keys.
export function colouredText({ label = "", scale = "up", show = number, onpick }) {
  const element = h("div", { class: "coloured", role: onpick ? "listbox" : "group", "aria-label": label, "aria-orientation": onpick ? "horizontal" : undefined });
  let shown = null, spans = [];
  element.update = (data) => {
    shown = data;
    const { tokens, values, titles, chosen = null, gaps = false, notes, underlined = Infinity } = data;
    const had = element.contains(document.activeElement);
    const known = values.filter((value) => value !== null).map(Math.abs);
    const high = data.high ?? Math.max(1e-9, ...known), low = data.low ?? 0;
    element.classList.toggle("gaps", gaps || Boolean(notes));
    spans = tokens.map((token, index) => {
      const value = values[index], share = value === null ? 0 : Math.max(0, Math.min(1, (Math.abs(value) - low) / (high - low || 1)));
      const said = titles?.[index] ?? (value === null ? "" : show(value));
      const span = h("span", {
        class: `tk${scale === "both" && value < 0 ? " under" : ""}${index === chosen ? " chosen" : ""}${index >= underlined ? " new" : ""}`, role: onpick ? "option" : undefined, tabindex: onpick ? (index === (chosen ?? 0) ? "0" : "-1") : undefined,
        "aria-selected": onpick ? String(index === chosen) : undefined, title: said, "data-value": value, style: { "--share": share.toFixed(3) },
      }, token.endsWith("\n") ? `${visible(token)}\n` : visible(token), notes ? h("small", {}, notes[index]) : null);
      return span;
    });
    element.replaceChildren(...spans);
    if (had) spans[chosen ?? 0]?.focus();
  };
  if (onpick) {
    element.addEventListener("click", (event) => { const at = spans.indexOf(event.target.closest(".tk")); if (at >= 0) onpick(at); });
    element.addEventListener("keydown", (event) => {
      const at = spans.indexOf(document.activeElement), step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      const to = event.key === "Home" ? 0 : event.key === "End" ? spans.length - 1 : step === undefined ? null : Math.max(0, Math.min(spans.length - 1, at + step));
      if (to !== null && at >= 0) { spans[to].focus(); onpick(to); event.preventDefault(); }
    });
  }
  Object.defineProperty(element, "shown", { get: () => shown });
  return element;
}
