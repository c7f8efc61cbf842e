// A view on a run, or on a system that needs none: it fills its own part; the frame has the link, the explanation and what is shared.

import { once, post } from "./api.js";
import { button, buttons } from "./controls.js";
import { h, replace } from "./dom.js";
import { explanation } from "./explain.js";
import { capital, title } from "./home.js";
import { keepLink, link, say } from "./lab.js";
import { saveHtml, savePng } from "./share.js";

export default async function viewPage({ main, arguments: [name], query }) {
  const row = (await once("/api/views")).find((each) => each.name === name);
  if (!row) throw new Error(`There is no view ${name}.`);
  const run = query.get("run"), embedded = query.get("embedded");
  if (row.styled && !document.querySelector(`link[data-view="${name}"]`)) document.head.append(h("link", { rel: "stylesheet", href: `/page/views/${name}.css`, "data-view": name }));
  const [module, opened] = await Promise.all([import(`./views/${name}.js`), row.needs_run ? post(`/api/views/${name}/open?run=${encodeURIComponent(run ?? "")}`) : post(`/api/views/${name}/open`)]);
  const system = opened.system ?? query.get("system") ?? row.systems[0];
  const root = h("div", { class: "view" });
  const context = viewContext({ name, run, system, first: opened, root, query });
  const aside = await explanation(system, name);
  aside.hidden = embedded !== null;
  const toggle = button("Explain", () => { aside.hidden = !aside.hidden; toggle.setAttribute("aria-pressed", String(!aside.hidden)); }, { pressed: !aside.hidden });
  context.explain = (code) => aside.mark(code);
  const about = { title: `${row.title}: ${run ?? title(system)}`, root };
  replace(main,
    embedded === null ? h("p", { class: "trail" }, h("a", { href: "#/" }, "Systems"), "›", h("a", { href: link(`/system/${system}`) }, title(system)), run ? ["›", h("a", { href: link(`/run/${run}`) }, run)] : null) : null,
    h("div", { class: "head" }, h("h1", {}, row.title), buttons(toggle,
      button("Copy link", async () => { await navigator.clipboard.writeText(location.href); say("The link is copied."); }),
      button("Save HTML", () => saveHtml(about)), button("Save PNG", () => savePng(about)))),
    h("p", { class: "muted" }, capital(row.idea), "."),
    h("h2", { class: "spoken" }, "What is shown"),
    h("div", { class: "viewpage" }, root, aside));
  try { await module.default(context); } catch (error) {
    if (error.name !== "AbortError") context.fail(error);
  }
  root.dataset.ready = "true";
  return { leave: () => context.leave() };
}

function viewContext({ name, run, system, first, root, query }) {
  const under = new Map(), leaving = [], refusal = h("p", { class: "sentence", role: "alert", hidden: true });
  let kept = {};
  try { kept = JSON.parse(query.get("state") ?? "{}"); } catch { kept = {}; }
  root.before?.(refusal);
  const context = {
    root, run, system, first, state: kept, say, refusal,
    set(changes) {
      Object.assign(context.state, changes);
      const words = { run, system: run ? null : system, state: JSON.stringify(context.state), embedded: query.get("embedded") };
      keepLink(link(`/view/${name}`, words));
    },
    async ask(action, body = {}) {
      under.get(action)?.abort();
      const controller = new AbortController();
      under.set(action, controller);
      const began = performance.now();
      try {
        const answer = await post(`/api/views/${name}/${action}${run ? `?run=${encodeURIComponent(run)}` : ""}`, body, { signal: controller.signal });
        refusal.remove();
        performance.measure(`ask:${action}`, { start: began });
        requestAnimationFrame(() => setTimeout(() => performance.measure(`drawn:${action}`, { start: began })));
        return answer;
      } catch (error) {
        if (error.name === "AbortError") throw error;
        context.fail(error);
        throw Object.assign(error, { name: "AbortError" });
      } finally {
        if (under.get(action) === controller) under.delete(action);
      }
    },
    fail(error) { refusal.textContent = error.message; refusal.hidden = false; root.prepend(refusal); },
    onLeave: (action) => leaving.push(action),
    leave() { for (const controller of under.values()) controller.abort(); for (const action of leaving) action(); },
    explain() {},
  };
  addEventListener("unhandledrejection", (event) => { if (event.reason?.name === "AbortError") event.preventDefault(); });
  return context;
}
