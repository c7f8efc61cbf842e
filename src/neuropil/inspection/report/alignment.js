"use strict";

// The viewer of alignment.py. The same text stands beside every viewer of a page: the first run defines the element, each run starts those
// that are whole by then. Nothing has an id and nothing is global, so that viewers never meet.
{
  const NAME = "neuropil-alignment";
  const THUMBNAIL = 24;  // cells, as in alignment.py
  const LETTERS = 12, LARGEST_CELL = 30, TALLEST = 720;  // pixels: of letters, of a cell, of a matrix
  const SQUARES = Float32Array.from({ length: 256 }, (_, byte) => (byte / 255) ** 2);  // a byte is 255 √w

  const FRAME = `
    <div class="viewer">
      <div class="overview" role="listbox" aria-label="layers and heads"></div>
      <div class="reading">
        <p class="chosen"></p>
        <span class="kind">keys: attended to</span><p class="text" role="listbox" aria-label="keys"></p>
        <span class="kind">queries: attending</span><p class="text" role="listbox" aria-label="queries"></p>
      </div>
      <p class="status" aria-live="polite"></p>
      <div class="matrix"><canvas tabindex="0" role="img"></canvas></div>
      <p class="scale">weight 0 <canvas width="256" height="1" aria-hidden="true"></canvas> <span></span> (square-root scale)</p>
    </div>`;

  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const between = (low, value, high) => Math.min(Math.max(value, low), high);
  const number = (weight) => (weight < 0.0005 ? "< 0.001" : weight.toFixed(weight < 0.0995 ? 3 : 2));
  const readsFromRight = (text) => /^\P{L}*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u.test(text);

  // A link is { query, key }: both where it is a cell, one where it is a token with all that it is tied to.
  const isCell = ({ query, key }) => query != null && key != null;
  const isSame = (a, b) => a?.query === b?.query && a?.key === b?.key;

  async function unpacked(base64) {
    const letters = atob(base64), bytes = new Uint8Array(letters.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // One stop of the Tab key for a whole list: arrows, Home and End move inside it.
  function rove(list, rowLength) {
    list.addEventListener("focusin", ({ target }) => {
      list.querySelectorAll("[tabindex='0']").forEach((item) => { item.tabIndex = -1; });
      target.tabIndex = 0;
    });
    list.addEventListener("keydown", (event) => {
      const items = [...list.querySelectorAll("[role='option']")], at = items.indexOf(event.target), row = rowLength();
      const right = getComputedStyle(list).direction === "rtl" ? -1 : 1;
      const step = { ArrowRight: right, ArrowLeft: -right, ArrowDown: row, ArrowUp: -row, Home: -at, End: items.length }[event.key];
      if (at < 0 || step === undefined) return;
      event.preventDefault();
      items[between(0, at + step, items.length - 1)].focus();
    });
  }

  class AlignmentViewer extends HTMLElement {
    sides = {};
    #wanted;  // the small picture that was chosen last; what is decoded for another comes too late to be shown
    #layer;  // as Python describes it
    #weights; #largest;  // of the chosen view, row by row
    #tokens;  // the elements of both texts
    #strongest; #pinned; #hovered;  // links
    #inks; #colours; #tints;  // by name; of cells, in 256 steps from weight 0 to the largest; of tokens, in 101
    #plan; #picture;  // where the parts of the matrix lie, and how it looks while nothing is pointed at

    // A parser connects an element before it has read what is inside: then there is nothing to start yet.
    async connectedCallback() {
      const described = this.querySelector("script[type='application/json']");
      if (this.layers || !described || !window.DecompressionStream) return;
      Object.assign(this, JSON.parse(described.textContent));
      this.heads = this.querySelectorAll("script[type='application/octet-stream']");
      this.querySelector(".caveat").insertAdjacentHTML("beforebegin", FRAME);
      for (const name of ["overview", "chosen", "status", "matrix", "scale"]) this[name] = this.querySelector(`.${name}`);
      [this.sides.key, this.sides.query] = this.querySelectorAll(".text");
      this.canvas = this.matrix.firstChild;
      await this.#listLayers();
      this.#colour();
      this.#listen();
      await this.#choose(this.layers.at(-1), 0);
      this.querySelector("details").open = false;
      this.dataset.ready = "";
    }

    // ---- layers and heads

    async #listLayers() {
      let first = 0;
      const thumbnails = await Promise.all(this.layers.map((layer) => unpacked(layer.thumbnails)));
      for (const [place, layer] of this.layers.entries()) {
        layer.together = layer.heads > 1 ? ["mean", "max"] : [];
        layer.views = [...layer.together, ...Array(layer.heads).keys()].map(String);
        layer.scripts = [...this.heads].slice(first, first += layer.heads);
        layer.pixels = thumbnails[place];
        const [width, height] = [layer.keys, layer.queries].map((text) => Math.min(THUMBNAIL, this.texts[text].tokens.length));
        layer.options = layer.views.map((view, i) => {
          const title = `${layer.name}, ${i < layer.together.length ? view : `head ${view}`}`;
          const properties = { className: "head", role: "option", title, ariaLabel: title, tabIndex: -1 };
          const option = make("span", properties, make("canvas", { width, height }));
          for (const event of ["click", "focus"]) option.addEventListener(event, () => this.#choose(layer, i));
          return option;
        });
      }
      const row = (name, items) => [make("span", { className: "layer" }, ...name), make("span", { className: "heads" }, ...items)];
      const { views } = this.layers.reduce((a, b) => (b.heads > a.heads ? b : a));
      this.overview.append(...row([], views.map((view) => make("span", { className: "view" }, view))));
      for (const { name, options } of this.layers) {
        this.overview.append(...row(name.split(/(?<=[._])/).flatMap((part) => [part, make("wbr")]), options));
      }
      this.overview.hidden = first === 1;
      rove(this.overview, () => this.#layer.views.length);
    }

    // The weights of one head, or what all heads of a layer do together.
    async #decoded({ scripts, together }, view) {
      const chosen = view < together.length ? scripts : [scripts[view - together.length]];
      const heads = await Promise.all(chosen.map((script) => unpacked(script.textContent)));
      const weights = new Float32Array(heads[0].length);
      for (const bytes of heads) {
        for (let i = 0; i < bytes.length; i++) {
          const weight = SQUARES[bytes[i]];
          weights[i] = together[view] === "max" ? Math.max(weights[i], weight) : weights[i] + weight / heads.length;
        }
      }
      return weights;
    }

    async #choose(layer, view) {
      const { queries, keys, name, options, views, together } = layer, numKeys = this.texts[keys].tokens.length;
      if (this.#wanted === options[view]) return;
      this.#wanted = options[view];
      const weights = await this.#decoded(layer, view);
      if (this.#wanted !== options[view]) return;
      const strongest = weights.reduce((best, weight, i) => (weight > weights[best] ? i : best), 0);
      if (this.#layer?.queries !== queries || this.#layer?.keys !== keys) {
        this.#pinned = this.#hovered = null;
        this.#tokens = { query: this.#write(this.sides.query, this.texts[queries]), key: this.#write(this.sides.key, this.texts[keys]) };
      }
      [this.#layer, this.#weights, this.#largest] = [layer, weights, weights[strongest] || 1];
      this.#strongest = { query: Math.floor(strongest / numKeys), key: strongest % numKeys };
      for (const option of this.layers.flatMap((one) => one.options)) option.ariaSelected = option === options[view];
      if (!this.overview.querySelector("[tabindex='0']")) options[view].tabIndex = 0;
      const which = view < together.length ? `${views[view]} of ${layer.heads} heads` : `head ${views[view]}`;
      this.chosen.replaceChildren(make("bdi", {}, name), ` · ${which}`);
      this.#draw();
    }

    // ---- the two texts

    #write(text, { tokens, joined }) {
      text.replaceChildren();
      text.classList.toggle("joined", joined);
      text.dir = readsFromRight(tokens.join(" ")) ? "rtl" : "ltr";
      return tokens.map((token, i) => {
        // In a running text a space before a word is a space; one that is a token by itself stays visible, and lines may end after it.
        const className = /^[␣⏎⇥∅╎‿]$/.test(token) ? "space" : /^[<[].+[>\]]$/.test(token) ? "special" : /^◌/.test(token) ? "mark" : "";
        const properties = { className, role: "option", tabIndex: i ? -1 : 0 };
        const shown = make("span", properties, joined && token.length > 1 ? token.replaceAll("␣", " ") : token);
        shown.dataset.index = i;
        text.append(shown, joined ? { "⏎": make("br"), "␣": make("wbr") }[token] ?? "" : " ");
        return shown;
      });
    }

    #labels(side) { return this.texts[side === "query" ? this.#layer.queries : this.#layer.keys].tokens; }

    #weight({ query, key }) { return this.#weights[query * this.#tokens.key.length + key]; }

    // What is pointed at, else what is pinned, else the strongest link of all.
    #show() {
      const link = this.#hovered ?? this.#pinned ?? this.#strongest;
      const other = link.query == null ? "query" : "key";
      const links = this.#tokens[other].map((_, i) => ({ ...link, [other]: i }));
      for (const side of ["query", "key"]) {
        for (const [i, token] of this.#tokens[side].entries()) {
          const tint = this.#tints[side === other ? Math.round(100 * Math.sqrt(this.#weight(links[i]) / this.#largest)) : 0];
          if (token.tint !== tint) token.style.background = token.tint = tint;
          token.classList.toggle("pointed", link[side] === i);
          const pinned = String(this.#pinned?.[side] === i);
          if (token.ariaSelected !== pinned) token.ariaSelected = pinned;
        }
      }
      const ranked = isCell(link) ? [link] : links.sort((a, b) => this.#weight(b) - this.#weight(a)).slice(0, 5);
      this.#tell(link, other, ranked.filter((one, i) => i === 0 || this.#weight(one) >= 0.0005));
      this.#reveal(this.#tokens[other][ranked[0][other]]);
      if (isCell(link)) this.#reveal(this.#tokens.query[link.query]);
      this.#point(link);
    }

    #tell(link, other, ranked) {
      const side = other === "key" ? "query" : "key";
      const name = (of, one) => make("bdi", { className: "token" }, this.#labels(of)[one[of]]);
      const listed = ranked.flatMap((one, i) => [i ? ", " : "", name(other, one), "\u00a0", make("b", {}, number(this.#weight(one)))]);
      const opening = link === this.#strongest ? "Strongest link: " : link === this.#pinned ? "Pinned: " : "";
      this.status.replaceChildren(opening, name(side, link), other === "key" ? " looks at " : " is looked at by ", ...listed);
    }

    // A long text scrolls by itself, never the page.
    #reveal(token) {
      const text = token.parentElement, above = token.offsetTop - text.scrollTop;
      if (above < 0 || above + token.offsetHeight > text.clientHeight) {
        const line = parseFloat(getComputedStyle(text).lineHeight);
        text.scrollTop = line * (Math.floor(token.offsetTop / line) - 2);
      }
    }

    // ---- the matrix

    #draw() {
      if (!this.matrix.clientWidth) return;  // not in sight yet
      this.#plan = this.#planned();
      this.#picture = this.#drawn();
      this.scale.lastElementChild.textContent = number(this.#largest);
      this.canvas.ariaLabel = `weights of ${this.chosen.textContent}; arrow keys move from cell to cell`;
      this.#show();
    }

    // Colours as they are in force, light or dark; a variable by itself would only give its formula.
    #colour() {
      const inForce = (name) => {
        this.scale.style.color = `var(--${name})`;
        return getComputedStyle(this.scale).color;
      };
      this.#inks = Object.fromEntries(["paper", "rule", "muted", "mark", "heat", "deep", "accent"].map((name) => [name, inForce(name)]));
      this.scale.style.color = "";
      this.#tints = Array.from({ length: 101 }, (_, share) => `color-mix(in srgb, ${this.#inks.accent} ${0.45 * share}%, transparent)`);
      const context = this.scale.firstElementChild.getContext("2d", { willReadFrequently: true });
      const ramp = context.createLinearGradient(0, 0, 256, 0);
      ["paper", "heat", "deep"].forEach((name, i) => ramp.addColorStop([0, 0.6, 1][i], this.#inks[name]));
      context.fillStyle = ramp;
      context.fillRect(0, 0, 256, 1);
      this.#colours = new Uint32Array(context.getImageData(0, 0, 256, 1).data.buffer);
      for (const { options, pixels } of this.layers) {
        const size = pixels.length / options.length;
        options.forEach((option, i) => this.#paint(option.firstChild, pixels.subarray(i * size, (i + 1) * size)));
      }
    }

    // One pixel per share, which is a number from 0 to 255.
    #paint(canvas, shares) {
      const image = new ImageData(canvas.width, canvas.height);
      const pixels = new Uint32Array(image.data.buffer), colours = this.#colours;
      for (let i = 0; i < pixels.length; i++) pixels[i] = colours[shares[i]];
      canvas.getContext("2d").putImageData(image, 0, 0);
      return canvas;
    }

    // Room for the labels, the size of a cell, and each how many-th label is drawn, so that none touches another.
    #planned() {
      const width = this.matrix.clientWidth, font = `${LETTERS}px ${getComputedStyle(this).fontFamily}`;
      const context = this.canvas.getContext("2d"), longest = width < 500 ? 10 : 16;
      context.font = `600 ${font}`;  // the label of what is pointed at is bold, and needs the most room
      const [query, key] = ["query", "key"].map((side) => this.#labels(side).map((label) => {
        const letters = [...label.replace(/^␣(?=.)/u, "")];
        return letters.length > longest ? `${letters.slice(0, longest - 1).join("")}…` : letters.join("");
      }));
      const widest = (labels) => labels.reduce((most, label) => Math.max(most, context.measureText(label).width), 0);
      const left = Math.ceil(widest(query)) + 10, long = widest(key);
      const whole = (size) => (size >= 4 ? Math.floor(size) : size);
      const cellBeside = (right) => whole(Math.min(LARGEST_CELL, (width - left - right) / key.length));
      const slanted = cellBeside(long * Math.SQRT1_2);
      const needed = key.every((label) => [...label].length === 1) ? LETTERS : long + 4;  // letters may stand closer than words
      const turn = needed <= cellBeside(1) ? 0 : slanted >= LETTERS * 1.3 ? Math.PI / 4 : Math.PI / 2;
      const cell = turn === Math.PI / 4 ? slanted : cellBeside(1), height = whole(Math.min(cell, TALLEST / query.length));
      const top = Math.ceil(LETTERS + 8 + long * Math.sin(turn));
      const step = (size) => (size >= LETTERS + 2 ? 1 : Math.ceil(2 * LETTERS / size));
      return {
        font, labels: { query, key }, width, left, top, cell, height, turn,
        right: left + cell * key.length, bottom: top + height * query.length, steps: { query: step(height), key: turn ? step(cell) : 1 },
      };
    }

    #drawn() {
      const { labels: { query, key }, width, left, top, cell, height, right, bottom, steps } = this.#plan;
      const density = window.devicePixelRatio || 1;
      Object.assign(this.canvas, { width: Math.round(width * density), height: Math.ceil((bottom + 2) * density) });
      Object.assign(this.canvas.style, { width: `${width}px`, height: `${bottom + 2}px` });
      const sheet = make("canvas", { width: this.canvas.width, height: this.canvas.height }), context = sheet.getContext("2d");
      context.scale(density, density);

      // One pixel per cell; where cells are smaller than the pixels of the screen, the largest weight of those that share one.
      const across = Math.min(key.length, Math.round((right - left) * density));
      const down = Math.min(query.length, Math.round((bottom - top) * density));
      const shares = new Uint8Array(across * down), weights = this.#weights, largest = this.#largest;
      for (let row = 0, i = 0; row < query.length; row++) {
        const start = Math.floor((row * down) / query.length) * across;
        for (let column = 0; column < key.length; column++, i++) {
          const at = start + Math.floor((column * across) / key.length);
          shares[at] = Math.max(shares[at], 255 * Math.sqrt(weights[i] / largest));
        }
      }
      context.imageSmoothingEnabled = false;
      context.drawImage(this.#paint(make("canvas", { width: across, height: down }), shares), left, top, right - left, bottom - top);

      context.fillStyle = this.#inks.paper;
      if (cell >= 8) for (let x = left; x <= right; x += cell) context.fillRect(x - 0.5, top, 1, bottom - top);
      if (height >= 8) for (let y = top; y <= bottom; y += height) context.fillRect(left, y - 0.5, right - left, 1);
      context.strokeStyle = this.#inks.rule;
      context.strokeRect(left - 0.5, top - 0.5, right - left + 1, bottom - top + 1);
      for (const side of ["query", "key"]) {
        for (let i = 0; i < this.#tokens[side].length; i += steps[side]) this.#label(context, side, i);
      }
      return sheet;
    }

    // Left of its row or above its column; the label of what is pointed at lies over its neighbours.
    #label(context, side, i, pointed = false) {
      const { font, labels, left, top, cell, height, turn } = this.#plan, label = labels[side][i];
      context.save();
      context.font = pointed ? `600 ${font}` : font;
      context.direction = readsFromRight(label) ? "rtl" : "ltr";
      context.textBaseline = "middle";
      context.textAlign = side === "query" ? "right" : turn ? "left" : "center";
      if (side === "query") context.translate(left - 6, top + (i + 0.5) * height);
      else context.translate(left + (i + 0.5) * cell, top - (turn ? 6 : 10));
      if (side === "key") context.rotate(-turn);
      if (pointed) {
        const wide = context.measureText(label).width + 4;
        context.fillStyle = this.#inks.paper;
        context.fillRect({ right: 2 - wide, left: -2, center: -wide / 2 }[context.textAlign], -LETTERS / 2 - 1, wide, LETTERS + 2);
      }
      context.fillStyle = pointed ? this.#inks.mark : this.#inks.muted;
      context.fillText(label, 0, 0.5);
      context.restore();
    }

    #point({ query, key }) {
      const { width, left, top, cell, height, right, bottom } = this.#plan, context = this.canvas.getContext("2d");
      context.resetTransform();
      context.clearRect(0, 0, this.canvas.width, this.canvas.height);
      context.drawImage(this.#picture, 0, 0);
      context.scale(this.canvas.width / width, this.canvas.width / width);
      context.strokeStyle = this.#inks.mark;
      const away = (size) => Math.max(0.5, (5 - size) / 2);  // lines do not cover the cells that they point out
      const [x, y] = [left + key * cell - away(cell), top + query * height - away(height)];
      if (query != null) context.strokeRect(left - 0.5, y, right - left + 1, height + 2 * away(height));
      if (key != null) context.strokeRect(x, top - 0.5, cell + 2 * away(cell), bottom - top + 1);
      if (query != null) this.#label(context, "query", query, true);
      if (key != null) this.#label(context, "key", key, true);
    }

    // ---- what the reader does

    #listen() {
      const hover = (link) => { if (!isSame(link, this.#hovered)) { this.#hovered = link; this.#show(); } };
      const pin = (link) => { this.#pinned = isSame(link, this.#pinned) ? null : link; this.#hovered = null; this.#show(); };
      const on = (target, events, act) => events.split(" ").forEach((event) => target.addEventListener(event, act));

      for (const [side, text] of Object.entries(this.sides)) {
        const under = ({ target }, act) => target.dataset.index && act({ query: null, key: null, [side]: Number(target.dataset.index) });
        on(text, "pointerover focusin", (event) => under(event, hover));
        on(text, "pointerleave focusout", () => hover(null));
        on(text, "click", (event) => under(event, pin));
        on(text, "keydown", (event) => { if ([" ", "Enter"].includes(event.key)) { event.preventDefault(); under(event, pin); } });
        rove(text, () => 1);
      }

      // Beside the cells lie the labels: there a row or a column is meant as a whole.
      const under = ({ offsetX, offsetY }) => {
        const { left, top, cell, height, right, bottom } = this.#plan;
        const outside = offsetX >= right || offsetY >= bottom || (offsetX < left && offsetY < top);
        const [query, key] = [Math.floor((offsetY - top) / height), Math.floor((offsetX - left) / cell)];
        return outside ? null : { query: query < 0 ? null : query, key: key < 0 ? null : key };
      };
      const move = (down, across) => {
        const from = this.#hovered ?? this.#pinned ?? this.#strongest, { query, key } = this.#tokens;
        return { query: between(0, (from.query ?? 0) + down, query.length - 1), key: between(0, (from.key ?? 0) + across, key.length - 1) };
      };
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Enter: [0, 0], " ": [0, 0] };
      on(this.canvas, "pointermove", (event) => hover(under(event)));
      on(this.canvas, "pointerleave blur", () => hover(null));
      on(this.canvas, "click", (event) => under(event) && pin(under(event)));
      on(this.canvas, "keydown", (event) => {
        if (!moves[event.key]) return;
        event.preventDefault();
        (event.key.startsWith("Arrow") ? hover : pin)(move(...moves[event.key]));
      });
      on(this, "keydown", (event) => { if (event.key === "Escape" && this.#pinned) pin(this.#pinned); });

      let width = this.matrix.clientWidth;
      new ResizeObserver(() => {
        if (width !== this.matrix.clientWidth) this.#draw();
        width = this.matrix.clientWidth;
      }).observe(this.matrix);
      for (const query of ["(prefers-color-scheme: dark)", "print"]) on(matchMedia(query), "change", () => { this.#colour(); this.#draw(); });
    }
  }

  if (!customElements.get(NAME)) customElements.define(NAME, AlignmentViewer);
  document.querySelectorAll(NAME).forEach((viewer) => viewer.connectedCallback());
}
