// A slider for ε: the perturbed picture, the perturbation, and the answer before and after.

import { chooser } from "../chooser.js";
import { bars, controls, figure, h, heatmap, inTurn, lines, number, picture, replace, select, slider } from "../widgets.js";

const NORMS = [["linf", "L∞: each pixel"], ["l2", "L2: all together"]];
const METHODS = [["fgsm", "FGSM: one gradient step"], ["pgd", "PGD: 12 projected steps"], ["momentum", "MI-FGSM: steps with momentum"]];

export default async function adversarial(view) {
  const { first } = view, values = { eps: 0.1, norm: "linf", method: "pgd", target: "", ...view.state };
  const asked = () => ({ ...choice.chosen.request, eps: values.eps, norm: values.norm, method: values.method, target: values.target });
  const original = picture(first.shown.original, { pixels: 112, label: "The picture" });
  const perturbed = picture(first.shown.perturbed, { pixels: 112, label: "The perturbed picture" });
  const delta = heatmap({ scale: "both", pixels: 112 }), size = h("figcaption", {});
  const before = bars({ label: "Probabilities before" }), after = bars({ label: "Probabilities after" });
  const said = h("p", { role: "status" }), least = h("p", {});
  const along = lines({ title: "On the line through the smallest perturbation", x: "ε", yRange: [0, 1], height: 230, onpoint: (x) => { eps.set(Math.max(0, x)); change({ eps: Math.max(0, x) }); } });
  let line = null;

  const eps = slider({ label: "ε", min: 0, max: first.most[values.norm], step: 0.001, value: values.eps, show: (value) => number(value, 3), onchange: (value) => change({ eps: value }) });
  const norm = select({ label: "Norm", options: NORMS, value: values.norm, onchange: (value) => {
    const share = values.eps / first.most[values.norm];
    eps.querySelector("input").max = first.most[value];
    eps.set(share * first.most[value]);
    change({ norm: value, eps: share * first.most[value] }, true);
  } });
  const method = select({ label: "Attack", options: METHODS, value: values.method, onchange: (value) => change({ method: value }) });
  const target = select({ label: "Towards", options: [["", "any other class"], ...first.classes.map((each) => [each, each])], value: values.target, onchange: (value) => change({ target: value }, true) });
  const choice = chooser({ view, first, onchange: () => { ask(); survey(); } });
  const ask = inTurn(async () => show(await view.ask("attack", asked())));
  const survey = inTurn(async () => { least.classList.add("muted"); line = await view.ask("smallest", asked()); showLeast(); });

  function change(changes, anew = false) {
    Object.assign(values, changes);
    view.set(changes);
    ask();
    if (anew) survey(); else drawLine();
  }

  function show(answer) {
    original.update(answer.original);
    perturbed.update(answer.perturbed);
    const { largest } = answer, factor = largest ? 1 / largest : 1;
    delta.update({ rows: answer.delta, low: -(largest || 1), high: largest || 1, said: `The perturbation, at most ${number(largest, 3)} in a pixel` });
    size.textContent = largest ? `perturbation × ${number(factor, 3)}` : "perturbation: none";
    const best = answer.before.indexOf(Math.max(...answer.before)), now = answer.after.indexOf(Math.max(...answer.after));
    before.update(first.classes.map((name, index) => ({ name, value: answer.before[index], best: index === best })));
    after.update(first.classes.map((name, index) => ({ name, value: answer.after[index], best: index === now })));
    const [from, to] = answer.answers;
    replace(said, from === to ? ["With ε = ", number(values.eps, 3), " it still sees ", h("b", { "data-answer": to }, to)]
      : ["With ε = ", number(values.eps, 3), " it sees ", h("b", { "data-answer": to, class: "bad" }, to), " in place of ", h("b", {}, from)],
      "; probability of ", from, ": ", figure(answer.before[best], number(answer.before[best], 3)), " → ", figure(answer.after[best], number(answer.after[best], 3)), ".");
  }

  function showLeast() {
    least.classList.remove("muted");
    if (line.eps === null) replace(least, "No perturbation was found that changes the answer", values.target ? ` to ${values.target}.` : ".");
    else replace(least, "The smallest ε that was found to change the answer: ", h("b", {}, figure(line.eps, number(line.eps, 3))), ", to ", h("b", {}, line.answer), ".");
    drawLine();
  }

  function drawLine() {
    if (!line || line.eps === null) return along.update({ series: [] });
    const peak = line.probabilities.map((each) => Math.max(...each)), shown = peak.map((_, index) => index).sort((a, b) => peak[b] - peak[a]).slice(0, 3);
    const end = line.distances.at(-1);
    along.update({
      series: shown.map((index) => ({ name: first.classes[index], x: line.distances, y: line.probabilities[index] })), xRange: [0, end],
      marks: [{ x: line.eps, text: "smallest" }, ...(values.eps <= end ? [{ x: values.eps, text: "" }] : [])],
      label: `Probabilities over ε; the answer changes at ${number(line.eps, 3)}`,
    });
  }

  view.root.append(choice, controls(eps, norm, method, target),
    h("div", { class: "pictures" }, h("figure", {}, original, h("figcaption", {}, "picture")), h("figure", {}, delta, size), h("figure", {}, perturbed, h("figcaption", {}, "perturbed"))),
    said,
    h("div", { class: "sides" }, h("div", {}, h("h3", {}, "Before"), before), h("div", {}, h("h3", {}, "After"), after)),
    least, along);
  show(Object.keys(view.state).length ? await view.ask("attack", asked()) : first.shown);
  survey();
}
