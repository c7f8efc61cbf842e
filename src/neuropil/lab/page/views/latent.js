// Codes as a map, the decoded picture under the pointer, the code of a drawing, and the way between two pictures.

import { chooser, gallery } from "../chooser.js";
import { controls, figure, h, inTurn, lines, number, perFrame, picture, replace, scatter, select, slider } from "../widgets.js";

export default async function latent(view) {
  const { first } = view, size = first.codes[0].length, dimensions = first.codes[0].map((_, index) => [index, `dimension ${index + 1}`]);
  const values = { horizontal: first.horizontal, vertical: first.vertical, others: "code", last: Math.min(20, first.examples.length - 1), ...view.state };
  let now = first.shown, way = null;
  const point = { x: view.state.x ?? now.code[values.horizontal], y: view.state.y ?? now.code[values.vertical] };
  const asked = () => ({ ...choice.chosen.request, horizontal: values.horizontal, vertical: values.vertical, others: values.others });

  const side = Math.min(352, document.documentElement.clientWidth - 34);
  const map = scatter({ label: "Codes of held-out examples, each written as its class", pixels: side, axes: true, onhover: (_, x, y) => move(x, y), onpick: (_, x, y) => move(x, y) });
  const whole = picture(first.plane.picture, { pixels: side, label: "Decoded pictures over the whole plane" });
  const decoded = picture(now.reconstruction, { pixels: 128, label: "Decoded under the pointer" });
  const given = picture(now.picture, { pixels: 84, label: "The picture" }), again = picture(now.reconstruction, { pixels: 84, label: "Decoded from its code" });
  const spread = lines({ title: "Code of the picture", x: "dimension", height: 200 }), said = h("p", {});
  const row = h("div", { class: "pictures" }), where = h("p", { class: "said" });

  const axis = (name, label) => slider({ label, min: -first.reach[values[name === "x" ? "horizontal" : "vertical"]], max: first.reach[values[name === "x" ? "horizontal" : "vertical"]], value: point[name], show: (value) => number(value, 3), onchange: (value) => move(name === "x" ? value : point.x, name === "y" ? value : point.y) });
  const across = axis("x", "Horizontal"), along = axis("y", "Vertical");
  const choose = (name, label) => select({ label, options: dimensions, value: values[name], onchange: (value) => {
    const other = name === "horizontal" ? "vertical" : "horizontal";
    if (value === values[other]) { values[other] = values[name]; pickers[other].set(values[other]); }
    values[name] = value;
    axes();
  } });
  const pickers = { horizontal: choose("horizontal", "Horizontal axis"), vertical: choose("vertical", "Vertical axis") };
  const others = select({ label: "Other dimensions", options: [["code", "of the picture's code"], ["zero", "0"]], value: values.others, onchange: (value) => { values.others = value; view.set({ others: value }); fill(); decode(); } });
  const choice = chooser({ view, first, onchange: () => encode() });
  const second = gallery({ label: "The other end", pictures: first.examples, value: values.last, onchange: (index) => { values.last = index; view.set({ last: index }); between(); } });

  const decode = inTurn(async () => {
    const answer = await view.ask("decode", { ...asked(), ...point });
    decoded.update(answer.picture);
    decoded.dataset.value = answer.picture.flat().reduce((sum, each) => sum + (Array.isArray(each) ? each[0] : each), 0);
  });
  const fill = inTurn(async () => whole.update((await view.ask("plane", asked())).picture));
  const between = inTurn(async () => { way = await view.ask("interpolate", { ...choice.chosen.request, last: values.last }); showWay(); });
  const encode = inTurn(async () => {
    now = await view.ask("encode", choice.chosen.request);
    showCode();
    fill();
    between();
    move(now.code[values.horizontal], now.code[values.vertical]);
  });

  function move(x, y) {
    const clip = (value, name) => Math.max(-first.reach[values[name]], Math.min(first.reach[values[name]], value));
    Object.assign(point, { x: Math.round(1000 * clip(x, "horizontal")) / 1000, y: Math.round(1000 * clip(y, "vertical")) / 1000 });
    view.set(point);
    across.set(point.x); along.set(point.y);
    draw();
    decode();
  }

  function axes() {
    view.set({ horizontal: values.horizontal, vertical: values.vertical });
    for (const [knob, name] of [[across, "horizontal"], [along, "vertical"]]) Object.assign(knob.querySelector("input"), { min: -first.reach[values[name]], max: first.reach[values[name]] });
    fill();
    move(now.code[values.horizontal], now.code[values.vertical]);
  }

  function draw() {
    const at = (code) => ({ x: code[values.horizontal], y: code[values.vertical] });
    const codes = first.codes.map((code, index) => ({ ...at(code), key: (first.classes.indexOf(first.labels[index]) + 6) % 6 + 1, ...(first.classes.length && first.labels[index].length < 3 ? { glyph: first.labels[index] } : {}) }));
    const ends = [{ x: -first.reach[values.horizontal], y: -first.reach[values.vertical], size: 0 }, { x: first.reach[values.horizontal], y: first.reach[values.vertical], size: 0 }];
    const path = way ? way.codes.map((code) => ({ ...at(code), key: 5, size: 2.5 })) : [];
    map.update([...ends, ...codes, ...path, { ...at(now.code), key: 5, size: 5, name: "picture", labelled: true }, { ...point, key: 2, size: 6 }]);
    replace(where, "Pointer at ", figure(point.x, number(point.x, 3)), ", ", figure(point.y, number(point.y, 3)), ".");
  }

  function showCode() {
    given.update(now.picture);
    again.update(now.reconstruction);
    const x = now.code.map((_, index) => index + 1), { deviation, kl } = now;
    const band = deviation ? { low: now.code.map((each, i) => each - deviation[i]), high: now.code.map((each, i) => each + deviation[i]) } : {};
    spread.update({ series: [{ name: deviation ? "mean ± standard deviation" : "code", x, y: now.code, dots: 4, ...band }, { name: "0", x: [1, size], y: [0, 0], key: 5 }], label: `The code: ${now.code.map((each) => number(each, 3)).join(", ")}` });
    const total = kl?.reduce((sum, each) => sum + each, 0);
    if (kl) replace(said, "The code tells ", figure(total, number(total, 3)), " nats about the picture (KL divergence from the prior); most by dimension ", String(kl.indexOf(Math.max(...kl)) + 1), ".");
  }

  function showWay() {
    replace(row, way.pictures.map((each, index) => picture(each, { pixels: 62, label: `Step ${index + 1} of ${way.pictures.length}` })));
    draw();
  }

  const over = perFrame((event) => {
    const box = whole.getBoundingClientRect();
    move((2 * (event.clientX - box.left) / box.width - 1) * first.reach[values.horizontal], (1 - 2 * (event.clientY - box.top) / box.height) * first.reach[values.vertical]);
  });
  whole.addEventListener("pointermove", over);
  whole.addEventListener("click", over);

  view.root.append(choice,
    h("div", { class: "row" }, h("figure", {}, given, h("figcaption", { class: "note" }, "picture")), h("figure", {}, again, h("figcaption", { class: "note" }, "decoded again")), h("div", { class: "grow" }, spread, said)),
    h("h2", {}, "The plane"), controls(pickers.horizontal, pickers.vertical, others),
    h("div", { class: "row" }, h("figure", {}, decoded, h("figcaption", { class: "note" }, "under the pointer")), h("div", { class: "grow" }, across, along, where)),
    h("div", { class: "row" }, h("figure", {}, map, h("figcaption", { class: "note" }, "codes of held-out examples")), h("figure", {}, whole, h("figcaption", { class: "note" }, "decoded over the whole plane"))),
    h("h2", {}, "From the picture to another"), second, row);
  if (view.state.drawing || view.state.example) now = await view.ask("encode", choice.chosen.request);
  showCode();
  move(view.state.x ?? now.code[values.horizontal], view.state.y ?? now.code[values.vertical]);
  if (Object.keys(view.state).length) fill();
  between();
}
