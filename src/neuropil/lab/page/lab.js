// The frame of the page: which page a link means, light or dark, what is said aloud.

import { h, replace } from "./dom.js";
import { follow } from "./events.js";

const PAGES = [
  [/^\/?$/, () => import("./home.js")],
  [/^\/runs$/, () => import("./runs.js")],
  [/^\/compare$/, () => import("./compare.js")],
  [/^\/system\/([^/]+)$/, () => import("./system.js")],
  [/^\/train\/([^/]+)$/, () => import("./train.js")],
  [/^\/run\/(.+)$/, () => import("./run.js")],
  [/^\/source\/(.+)$/, () => import("./source.js")],
  [/^\/view\/([^/]+)$/, () => import("./view.js")],
];

const main = document.querySelector("main"), status = document.querySelector("[role=status]");
let leave = null, shownAs = null;

// A link is #/path?name=value&…; the page gets its parts and what follows the question mark.
export function here() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  return { path: decodeURI(path) || "/", query: new URLSearchParams(query) };
}

export function link(path, query = {}) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  return `#${encodeURI(path)}${String(words) ? `?${words}` : ""}`;
}

export const say = (text) => { status.textContent = text; };

// Changes the link without leaving the page that it names.
export function keepLink(next) {
  history.replaceState(null, "", next);
  shownAs = location.hash;
}

async function show() {
  if (location.hash === "#main" || location.hash === shownAs && shownAs !== null) return;
  shownAs = location.hash;
  leave?.();
  leave = null;
  const { path, query } = here();
  const found = PAGES.map(([pattern, load]) => [pattern.exec(path), load]).find(([match]) => match);
  const embedded = query.get("embedded") !== null;
  document.documentElement.toggleAttribute("data-embedded", embedded);
  document.querySelector(".top").hidden = embedded;
  for (const anchor of document.querySelectorAll(".top nav a")) anchor.setAttribute("aria-current", anchor.hash.replace("#", "") === path ? "page" : "false");
  const asked = shownAs;
  try {
    if (!found) throw new Error(`There is no page ${path}.`);
    const module = await found[1]();
    if (asked !== shownAs) return;
    replace(main, h("p", { class: "waiting" }, "Loading …"));
    const page = await module.default({ arguments: found[0].slice(1), query, main });
    if (asked.split("?")[0] !== location.hash.split("?")[0]) return page?.leave?.();
    leave = page?.leave ?? null;
  } catch (error) {
    if (error.name === "AbortError") return;
    replace(main, h("h1", {}, "That did not work"), h("p", { class: "sentence", role: "alert" }, error.message));
  }
  document.title = `${main.querySelector("h1")?.textContent ?? "neuropil"} · neuropil lab`;
  if (document.activeElement === document.body) main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

function chooseTheme() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme ?? (dark ? "dark" : "light"), next = now === "dark" ? "light" : "dark";
  root.dataset.theme = next;
  localStorage.setItem("theme", next);
}

// What trains now, on every page.
const working = document.querySelector(".working"), active = new Map();
follow((news) => {
  if (news.event === "jobs") { active.clear(); for (const job of news.jobs) active.set(job.id, job); }
  else if (news.event === "job") active.set(news.job.id, news.job);
  else if (news.event === "removed") active.delete(news.id);
  else if (news.event === "progress" && active.has(news.id)) active.get(news.id).progress = news.progress;
  else return;
  const job = [...active.values()].find((each) => each.state === "running");
  working.hidden = !job;
  if (!job) return;
  const share = job.progress?.share;
  working.href = link(`/run/${job.run}`);
  working.textContent = `${job.run}${share ? ` ${Math.floor(100 * share)} %` : " …"}`;
});

const kept = localStorage.getItem("theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
document.querySelector(".theme").addEventListener("click", chooseTheme);
addEventListener("hashchange", show);
show();
