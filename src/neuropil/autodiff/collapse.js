function (top, { gap, space, side, margin }) {
  const svg = document.currentScript.ownerSVGElement;

  // The middles nearest to the wishes with which a row keeps its order: layout.separate.
  function separate(row) {
    const offsets = [], blocks = [];
    let room = 0;
    for (const item of row) {
      offsets.push(room + item.width / 2);
      room += item.width + space;
      let [total, count] = [item.x - offsets.at(-1), 1];
      while (blocks.length && blocks.at(-1)[0] / blocks.at(-1)[1] > total / count) {
        const [previous, more] = blocks.pop();
        [total, count] = [total + previous, count + more];
      }
      blocks.push([total, count]);
    }
    return blocks.flatMap(([total, count]) => Array(count).fill(total / count)).map((mean, i) => mean + offsets[i]);
  }

  // Sizes and places of all that is open, from the inside out: layout.arrange.
  function arrange(view) {
    const items = view.rows.flat();
    const linked = new Set(view.links.map((link) => items[link[1]]));
    let y = 0;
    for (const [number, row] of view.rows.entries()) {
      const last = number === view.rows.length - 1;
      const least = number === 0 ? view.margins[0] : last ? view.margins[1] : 0;
      for (const item of row) [item.width, item.height] = item.open ? arrange(item.view) : [item.w, item.h ?? 0];
      const height = Math.max(least, ...row.map((item) => item.height));
      y += row.some((item) => linked.has(item)) ? (number === 1 || last ? gap / 2 : gap) : 0;
      const middles = separate(row);
      for (const [i, item] of row.entries()) {
        if (item.bend) item.height = height;
        Object.assign(item, { left: middles[i] - item.width / 2, top: y + height - item.height, band: [y, y + height] });
      }
      y += height;
    }
    const corner = Math.min(...items.map((item) => item.left));
    const content = Math.max(...items.map((item) => item.left + item.width)) - corner;
    Object.assign(view, { width: Math.max(content, view.least), height: y });
    for (const item of items) item.left += (view.width - content) / 2 - corner;
    return [view.width + 2 * side, view.height];
  }

  function end(item, ports, key) {
    const port = item.open && item.view.rows.flat()[item[ports][key]];
    return item.left + (port ? side + port.left + port.width / 2 : item.width / 2);
  }

  function show(view, element) {
    const items = view.rows.flat();
    const [paths, nodes] = element.children;
    view.links.forEach(([from, to, key], i) => {
      const [source, target] = [items[from], items[to]];
      const [x0, x1, y0, y1] = [end(source, "out", key), end(target, "in", key), source.band[1], target.band[0]];
      const start = source.top + (source.bend ? 0 : source.height), stop = target.top + (target.bend ? target.height : 0);
      const head = target.bend || target.open ? "" : "m-3.5 -6l3.5 6l3.5 -6";
      const middle = (y0 + y1) / 2;
      paths.children[i].setAttribute("d", `M${x0} ${start}V${y0}C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}V${stop}${head}`);
    });
    for (const node of nodes.children) {
      const item = items[node.dataset.i];
      node.setAttribute("transform", `translate(${item.left} ${item.top})`);
      if (!item.view) continue;
      const box = node.firstElementChild;
      box.setAttribute("class", `group ${item.open ? "open" : "closed"}`);
      box.setAttribute("aria-expanded", item.open);
      if (!item.open) continue;
      const [frame, inside] = box.lastElementChild.children;
      frame.setAttribute("width", item.width);
      frame.setAttribute("height", item.height);
      show(item.view, inside.firstElementChild);
    }
  }

  function redraw() {
    const [width, height] = arrange(top);
    show(top, svg.querySelector(":scope > g > g"));
    const size = [width - 2 * side + 2 * margin, height + 2 * margin];
    svg.setAttribute("viewBox", `0 0 ${size.join(" ")}`);
    svg.setAttribute("width", size[0]);
    svg.setAttribute("height", size[1]);
  }

  (function listen(view, element) {
    const items = view.rows.flat();
    for (const node of element.children[1].children) {
      const item = items[node.dataset.i], box = node.firstElementChild;
      if (!item.view) continue;
      const toggle = (event) => { item.open = !item.open; redraw(); event.preventDefault(); };
      const [, inside, title] = box.lastElementChild.children;
      for (const handle of [box.firstElementChild, title]) handle.addEventListener("click", toggle);
      box.addEventListener("keydown", (event) => event.target === box && ["Enter", " "].includes(event.key) && toggle(event));
      listen(item.view, inside.firstElementChild);
    }
  })(top, svg.querySelector(":scope > g > g"));
}
