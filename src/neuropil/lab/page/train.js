// A form made from the options of a system, data of one's own with what was understood of it, and the start of a run.

import { get, post } from "./api.js";
import { button, buttons } from "./controls.js";
import { duration, h, newId, number, replace } from "./dom.js";
import { capital, title } from "./home.js";
import { link } from "./lab.js";
import { dataPreview } from "./preview.js";

const FIRST = ["size", "minutes", "epochs", "updates", "duration", "learning_rate", "batch_size"];
const OF_DATA = ["target", "source", "label", "text"];

export default async function trainPage({ main, arguments: [system], query }) {
  let form = await post(`/api/forms/${system}`, {}), given = {};
  const body = h("div", { class: "stack" }), refusal = h("p", { class: "sentence", role: "alert", hidden: true }), estimate = h("p", { class: "note", role: "status" });
  const preview = h("div", { class: "stack" }), verb = form.verb === "train" ? "Train" : "Simulate";
  const runName = h("input", { type: "text", id: newId("name"), placeholder: "by default the system and the date", maxlength: 80 });
  const start = button(`${verb} ${title(system)}`, begin, { kind: "main" });

  // What was refused when the data was looked at would be refused again, by a run that has begun.
  let refused = null;
  const asGiven = () => JSON.stringify(given);

  async function begin() {
    if (refused?.given === asGiven()) { refuse(refused.error); return; }
    refusal.hidden = true;
    start.disabled = true;
    try {
      const job = await post(`/api/jobs/${system}`, { ...given, ...(runName.value ? { run_name: runName.value } : {}) });
      location.hash = link(`/run/${job.run}`);
    } catch (error) { refuse(error); } finally { start.disabled = false; }
  }

  function refuse(error) { refusal.textContent = error.message; refusal.hidden = false; refusal.scrollIntoView({ block: "nearest" }); }

  // Defaults depend on what is given: data of one's own, a size, a model to start from.
  async function changed(name, value, fallback) {
    if (value === fallback || value === "" || (Array.isArray(value) && !value.length)) delete given[name]; else given[name] = value;
    if (["data", "size", "start"].includes(name)) {
      try { form = await post(`/api/forms/${system}`, Object.fromEntries(Object.entries(given).filter(([key]) => ["data", "size", "start"].includes(key)))); draw(); } catch (error) { refuse(error); return; }
    }
    look();
  }

  let asked = 0;
  async function look() {
    const mine = ++asked;
    await new Promise((wait) => setTimeout(wait, 400));
    if (mine !== asked) return;
    refusal.hidden = true;
    estimate.textContent = "Looking at the data and at the time …";
    try {
      const found = await post(`/api/plans/${system}`, given);
      if (mine !== asked) return;
      estimate.textContent = found.seconds === null ? found.reason : `About ${duration(found.seconds)} of training on this machine, with what else runs here now.`;
      estimate.dataset.value = found.seconds ?? "";
      replace(preview, found.preview ? dataPreview(found.preview) : null);
    } catch (error) {
      if (mine !== asked) return;
      estimate.textContent = "";
      replace(preview);
      if (error.status === 400) refused = { given: asGiven(), error };
      refuse(error);
    }
  }

  function draw() {
    const several = form.options.find((each) => each.name === "data")?.kind === "list";
    const visible = form.options.filter((each) => each.name !== "data" && !["tensorboard", "device", "previews"].includes(each.name));
    const common = [...(given.data ? OF_DATA : []), ...FIRST].map((name) => visible.find((each) => each.name === name)).filter(Boolean);
    const rest = visible.filter((each) => !common.includes(each));
    const groups = form.groups.map((group) => [group, rest.filter((each) => each.group === group)]).filter(([, list]) => list.length);
    replace(body,
      form.own_data ? dataField([given.data ?? []].flat(), (paths) => changed("data", several ? paths : onePath(paths), several ? [] : ""), refuse) : null,
      preview,
      h("section", { class: "stack" }, h("h2", {}, "Options"), h("div", { class: "controls form" }, common.map((each) => optionField(each, given, changed)),
        h("div", { class: "field" }, h("label", { class: "name", for: runName.id }, "name of the run"), runName))),
      groups.map(([group, list]) => h("details", { open: list.some((each) => each.name in given) }, h("summary", {}, `${capital(group)} (${list.length})`), h("div", { class: "controls form" }, list.map((each) => optionField(each, given, changed))))),
      refusal, estimate, buttons(start));
  }

  if (query.get("like")) { const like = await get(`/api/runs/${encodeURIComponent(query.get("like"))}/options`).catch(() => ({})); given = like; form = await post(`/api/forms/${system}`, like).catch(() => form); }
  replace(main, h("p", { class: "trail" }, h("a", { href: "#/" }, "Systems"), "›", h("a", { href: link(`/system/${system}`) }, title(system))), h("h1", {}, `${verb} ${title(system)}`),
    h("p", { class: "muted" }, capital(form.summary), ". Leave everything as it is for a good first run."), body);
  draw();
  look();
}

// Of a system that takes one path: the file, or the folder that several were put into.
const onePath = (paths) => (paths.length > 1 ? paths[0].replace(/[/][^/]*$/, "") : paths[0] ?? "");

function optionField(option, given, changed) {
  const id = newId("option"), value = given[option.name] ?? option.default;
  const limits = [option.above !== null ? `above ${number(option.above)}` : null, option.low !== null ? `from ${number(option.low)}` : null, option.high !== null ? `to ${number(option.high)}` : null].filter(Boolean).join(" ");
  const shown = Array.isArray(value) ? value.join(" ") : value ?? "";
  const common = { id, "data-option": option.name, "aria-describedby": `${id}-help` };
  let input;
  if (option.kind === "switch") input = h("input", { ...common, type: "checkbox", checked: Boolean(value), onchange: (event) => changed(option.name, event.target.checked, option.default) });
  else if (option.kind === "choice") input = h("select", { ...common, onchange: (event) => changed(option.name, event.target.value === "" ? null : event.target.value, option.default) },
    option.optional ? h("option", { value: "", selected: value === null }, "none") : null, option.choices.map((each) => h("option", { value: each, selected: String(each) === String(value) }, String(each))));
  else {
    const numeric = option.kind === "number" || option.kind === "integer";
    input = h("input", { ...common, type: "text", inputmode: numeric ? "decimal" : "text", value: shown, placeholder: option.optional ? "none" : "", onchange: (event) => changed(option.name, event.target.value.trim(), String(Array.isArray(option.default) ? option.default.join(" ") : option.default ?? "")) });
  }
  return h("div", { class: "field" }, h("label", { class: "name", for: id }, h("span", {}, option.label)), input, h("small", { id: `${id}-help` }, option.help === option.label ? "" : option.help, limits ? ` (${limits})` : ""));
}

function dataField(paths, change, refuse) {
  const id = newId("data"), chosen = h("p", { class: "note" }, paths.length ? `Own data: ${paths.join(", ")}` : "The data that comes with the system.");
  const path = h("input", { type: "text", id, placeholder: "a path on this machine: /home/me/table.csv", value: paths.join(" "), "data-option": "data", onchange: (event) => change(event.target.value.trim() ? [event.target.value.trim()] : []) });
  const progress = h("progress", { max: 1, hidden: true, "aria-label": "Upload" });
  const files = h("input", { type: "file", multiple: true, id: `${id}-files`, onchange: async (event) => {
    const list = [...event.target.files];
    if (!list.length) return;
    progress.hidden = false;
    try {
      const { id: folder } = await post("/api/uploads");
      let done = [], total = list.reduce((sum, file) => sum + file.size, 0) || 1, before = 0;
      for (const file of list) { done = await send(folder, file, (sent) => { progress.value = (before + sent) / total; }); before += file.size; }
      change(done);
    } catch (error) { refuse(error); } finally { progress.hidden = true; }
  } });
  return h("section", { class: "panel" }, h("h2", {}, "Data"), chosen, h("div", { class: "controls" },
    h("div", { class: "field" }, h("label", { class: "name", for: id }, "path"), path),
    h("div", { class: "field" }, h("label", { class: "name", for: `${id}-files` }, "or upload (tables, texts, pictures, a .zip of a folder)"), files, progress)),
    paths.length ? button("Use the data that comes with it", () => change([])) : null);
}

function send(folder, file, onprogress) {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `/api/uploads/${folder}?name=${encodeURIComponent(file.name)}`);
    request.upload.onprogress = (event) => onprogress(event.loaded);
    request.onload = () => { const answer = JSON.parse(request.responseText || "{}"); request.status < 300 ? done(answer.paths) : failed(new Error(answer.error ?? `The lab answered ${request.status}.`)); };
    request.onerror = () => failed(new Error("The lab does not answer."));
    request.send(file);
  });
}
