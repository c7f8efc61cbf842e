// Probabilities of the classes while one draws, and the layers behind them.

import { chooser } from "../chooser.js";
import { bars, figure, h, heatmap, inTurn, lines, number, picture, raster, replace } from "../widgets.js";

export default async function classification(view) {
  const { first } = view;
  const seen = picture(first.shown.picture, { pixels: 112, label: "The picture as the model sees it" });
  const chart = bars({ label: "Probability of each class" });
  const said = h("p", { class: "said" }), inner = h("section", { class: "stack" });
  let spoken = null;
  const choice = chooser({ view, first, onchange: () => ask() });
  const ask = inTurn(async () => show(await view.ask("classify", choice.chosen.request)));
  const parts = { maps: maps(inner), products: products(inner), spikes: spikes(inner, first.classes), none: () => {} };

  function show(answer) {
    seen.update(answer.picture);
    const best = Math.max(...answer.probabilities), { name } = choice.chosen;
    chart.update(first.classes.map((each, index) => ({ name: each, value: answer.probabilities[index], best: answer.probabilities[index] === best })));
    replace(said, "It sees ", h("b", { "data-answer": answer.answer }, answer.answer), ", with probability ", figure(best, number(best, 3)),
      name === null ? "." : name === answer.answer ? ", and it is." : [", but it is ", h("b", {}, name), "."]);
    parts[answer.inside.kind](answer.inside);
    if (answer.answer !== spoken) view.say(`It sees ${answer.answer}.`);
    spoken = answer.answer;
  }

  view.root.append(choice,
    h("div", { class: "row" },
      h("div", { class: "stack" }, h("h3", {}, "As the model sees it"), seen, h("small", {}, `${first.height} × ${first.width}`)),
      h("div", { class: "grow stack" }, h("h3", {}, "Probabilities"), chart, said)),
    inner);
  show(view.state.drawing || view.state.example ? await view.ask("classify", choice.chosen.request) : first.shown);
}

// Activation maps, layer by layer.
function maps(root) {
  const layers = new Map();
  return ({ layers: found }) => {
    for (const { name, count, channels } of found) {
      if (!layers.has(name)) {
        const pictures = channels.map(() => ({ map: heatmap({ scale: "both", pixels: 62 }), text: h("figcaption", {}) }));
        layers.set(name, pictures);
        if (!root.childNodes.length) root.append(h("h2", {}, "Activation maps"), h("p", { class: "note" }, "Of each layer the most active channels, the most active first: what its kernel makes of the picture, below zero in orange, above in blue."));
        root.append(h("h3", {}, name, " ", h("small", {}, `${channels.length} of ${count} channels, ${channels[0].rows.length} × ${channels[0].rows[0].length}`)),
          h("div", { class: "pictures" }, pictures.map(({ map, text }) => h("figure", {}, map, text))));
      }
      layers.get(name).forEach(({ map, text }, index) => {
        const { channel, rows } = channels[index];
        map.update({ rows, said: `${name}, channel ${channel}, from ${number(Math.min(...rows.flat()), 3)} to ${number(Math.max(...rows.flat()), 3)}` });
        map.dataset.value = rows[0][0];
        text.textContent = channel;
      });
    }
  };
}

// Units of an MLP's first layer with the terms of their sums.
function products(root) {
  let pictures = null;
  return ({ units, count }) => {
    if (!pictures) {
      pictures = units.map(() => ({ map: heatmap({ scale: "both", pixels: 92 }), text: h("figcaption", {}) }));
      root.append(h("h2", {}, "Weights times input"), h("p", { class: "note" }, `The ${units.length} most active of the ${count} units of the first layer: what each place of the picture adds to the sum of the unit, below zero in orange, above in blue. The sum, with the bias, is written below.`),
        h("div", { class: "pictures" }, pictures.map(({ map, text }) => h("figure", {}, map, text))));
    }
    pictures.forEach(({ map, text }, index) => {
      const { unit, sum, rows } = units[index];
      map.update({ rows, said: `Unit ${unit}: the products add up to ${number(sum, 3)} with the bias` });
      replace(text, `unit ${unit}: `, figure(sum, number(sum, 3)));
    });
  };
}

// Spikes of each hidden layer, and the answer as it forms.
function spikes(root, classes) {
  let rasters = null, chart = null;
  return ({ layers, times, probabilities }) => {
    if (!rasters) {
      chart = lines({ title: "Probabilities if reading ended at this time", x: "ms", yRange: [0, 1], height: 220 });
      rasters = layers.map(() => ({ plot: raster({ height: 130 }), text: h("small", {}) }));
      root.append(h("h2", {}, "Spikes"), h("p", { class: "note" }, "Neurons that fire, those that fire first at the bottom; each mark is a spike."),
        ...rasters.map(({ plot, text }, index) => h("div", {}, h("h3", {}, `Hidden layer ${index + 1} `, text), plot)), chart);
    }
    const end = times.at(-1);
    rasters.forEach(({ plot, text }, index) => {
      const { shown, neurons, spikes: count, silent, ...given } = layers[index];
      plot.update({ ...given, from: 0, to: end, count: Math.max(1, shown), said: `${count} spikes; ${silent} of ${neurons} neurons are silent` });
      replace(text, figure(count), ` spikes, ${silent} of ${neurons} neurons silent`);
    });
    const last = probabilities.map((each) => each.at(-1)), best = last.map((_, index) => index).sort((a, b) => last[b] - last[a]).slice(0, 3);
    chart.update({ series: best.map((index) => ({ name: classes[index], x: times, y: probabilities[index] })), xRange: [0, end] });
  };
}
