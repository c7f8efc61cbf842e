"use strict";

// The map of word_map.py. The same text stands beside every map of a page: the first run defines the element, each run starts those that are
// whole by then.
{
  const NAME = "neuropil-word-map";
  const WIDTH = 760, HEIGHT = 560, MARGIN = 34, LETTERS = 12.5;  // pixels of the drawing, as in word_map.py
  const DEEPEST = 12;  // times the whole map
  const FRAME = `
    <form>
      <input type="search" placeholder="search a word" aria-label="search a word on the map" autocomplete="off" spellcheck="false">
      <span class="zoom">
        <button type="button" aria-label="zoom in">+</button><button type="button" aria-label="zoom out">−</button>
        <button type="button" aria-label="show the whole map">⤢</button>
      </span>
    </form>
    <p class="status" aria-live="polite"></p>`;
  const between = (low, value, high) => Math.min(Math.max(value, low), high);
  const drawn = (tag, properties) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
    return element;
  };

  class WordMap extends HTMLElement {
    #chosen = null; #pinned = null; #found = [];  // numbers of words
    #view = { x: 0, y: 0, zoom: 1 };  // the corner and the size of what is seen; the whole map is 0, 0, 1
    #begun; #moved;  // of a drag

    start() {
      const described = this.querySelector("script[type='application/json']");
      if (this.words || !described) return;
      Object.assign(this, JSON.parse(described.textContent));
      this.svg = this.querySelector("svg");
      this.svg.insertAdjacentHTML("beforebegin", FRAME);
      this.input = this.querySelector("input");
      this.status = this.querySelector(".status");
      this.links = this.svg.insertBefore(drawn("g", { class: "links" }), this.svg.firstChild);
      this.marks = [...this.svg.querySelectorAll("[data-word]")];
      this.index = new Map(this.words.map(({ word }, number) => [word, number]));
      const pen = document.createElement("canvas").getContext("2d");
      pen.font = `${LETTERS}px ${getComputedStyle(this).fontFamily}`;
      this.widths = this.words.map(({ word }) => pen.measureText(word).width);
      this.#listen();
      this.#choose(null);
      this.dataset.ready = "";
    }

    #listen() {
      const numberAt = (event) => event.target.closest?.("[data-word]")?.dataset.word;
      this.svg.addEventListener("pointermove", (event) => {
        if (this.#begun) this.#drag(event);
        else this.#choose(numberAt(event) === undefined ? this.#pinned : Number(numberAt(event)));
      });
      this.svg.addEventListener("pointerleave", () => { if (!this.#begun) this.#choose(this.#pinned); });
      this.svg.addEventListener("pointerdown", (event) => {
        this.#begun = { x: event.clientX, y: event.clientY, view: { ...this.#view } };
        this.#moved = false;
      });
      for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { this.#begun = null; });
      this.svg.addEventListener("click", (event) => {
        if (this.#moved) return;
        this.#pinned = numberAt(event) === undefined ? null : Number(numberAt(event));
        this.#choose(this.#pinned);
      });
      this.svg.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey) return;  // without them the page scrolls
        event.preventDefault();
        const box = this.svg.getBoundingClientRect();
        this.#zoom(Math.exp(-event.deltaY / 200), (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
      }, { passive: false });
      const [closer, farther, whole] = this.querySelectorAll("button");
      closer.addEventListener("click", () => this.#zoom(1.6, ...this.#middle()));
      farther.addEventListener("click", () => this.#zoom(1 / 1.6));
      whole.addEventListener("click", () => this.#zoom(0));
      this.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
      this.input.addEventListener("input", () => this.#search());
      this.addEventListener("keydown", ({ key }) => {
        if (key !== "Escape") return;
        this.input.value = "";
        this.#found = [];
        this.#choose(this.#pinned = null);
      });
    }

    #search() {
      const typed = this.input.value.trim().toLowerCase();
      const rank = ({ word }) => [word.toLowerCase() === typed, word.toLowerCase().startsWith(typed)].map(Number);
      const matches = [...this.words.keys()].filter((number) => typed && this.words[number].word.toLowerCase().includes(typed));
      this.#found = matches.sort((a, b) => {
        const [[same, begins], [other, starts]] = [rank(this.words[a]), rank(this.words[b])];
        return other - same || starts - begins || a - b;
      });
      this.#pinned = this.#found[0] ?? null;
      this.#choose(this.#pinned);
      if (this.#pinned !== null) this.#center(this.#pinned);
      if (typed && !this.#found.length) this.status.textContent = `“${this.input.value.trim()}” is not among the ${this.words.length} words of the map.`;
    }

    #zoom(factor, x = 0.5, y = 0.5) {
      const zoom = between(1, this.#view.zoom * factor, DEEPEST), room = 1 / this.#view.zoom - 1 / zoom;
      this.#look({ zoom, x: this.#view.x + x * room, y: this.#view.y + y * room });
    }

    // Where to look closer, as a share of what is seen: at the word that is kept, or in the middle.
    #middle() {
      if (this.#pinned === null) return [0.5, 0.5];
      const [x, y] = this.#place(this.#pinned);
      return [between(0, x / WIDTH, 1), between(0, y / HEIGHT, 1)];
    }

    #center(number) {
      const [x, y] = this.#place(number), { zoom, ...corner } = this.#view;
      this.#look({ zoom, x: corner.x + (x / WIDTH - 0.5) / zoom, y: corner.y + (y / HEIGHT - 0.5) / zoom });
    }

    #drag(event) {
      const box = this.svg.getBoundingClientRect(), { x, y, view } = this.#begun;
      const [right, down] = [event.clientX - x, event.clientY - y];
      this.#moved ||= Math.hypot(right, down) > 4;
      if (this.#moved) this.#look({ ...view, x: view.x - right / box.width / view.zoom, y: view.y - down / box.height / view.zoom });
    }

    #look({ x, y, zoom }) {
      const last = 1 - 1 / zoom;
      this.#view = { zoom, x: between(0, x, last), y: between(0, y, last) };
      this.#draw();
    }

    #choose(number) {
      this.#chosen = number;
      const word = this.words[number];
      const near = word ? word.near.map(([other]) => this.index.get(other)).filter((other) => other !== undefined) : [];
      this.marks.forEach((mark, i) => {
        mark.classList.toggle("chosen", i === number);
        mark.classList.toggle("near", near.includes(i));
        mark.classList.toggle("found", this.#found.includes(i));
      });
      this.svg.classList.toggle("asked", Boolean(word));
      this.near = near;
      if (word) {
        const count = word.count === null ? "" : `, ${word.count.toLocaleString("en")} times`;
        const nearest = word.near.map(([other, cosine]) => `${other} ${cosine.toFixed(2).replace("-", "−")}`).join(" · ");
        const name = Object.assign(document.createElement("b"), { textContent: word.word, dir: "auto" });
        this.status.replaceChildren(name, `${count}; nearest by cosine: ${nearest}`);
      } else {
        this.status.textContent = "Point at a word to see its nearest words, or search for one; a click keeps it. Drag, and + or Ctrl with the wheel, to look closer.";
      }
      this.#draw();
    }

    #place(number) {
      const { point: [x, y] } = this.words[number], { zoom, ...corner } = this.#view;
      const [across, down] = [MARGIN + x * (WIDTH - 2 * MARGIN), MARGIN + y * (HEIGHT - 2 * MARGIN)];
      return [(across - corner.x * WIDTH) * zoom, (down - corner.y * HEIGHT) * zoom];
    }

    // Labels are shown as far as there is room: of what is asked for first, then of frequent words.
    #draw() {
      const places = this.words.map((_, number) => this.#place(number)), taken = [];
      const first = [this.#chosen, ...this.near, ...this.#found].filter((number) => number !== null);
      for (const number of new Set([...first, ...this.words.keys()])) {
        const [x, y] = places[number], half = this.widths[number] / 2 + 2;
        const box = [x - half, y - LETTERS - 6, x + half, y - 3];
        const free = taken.every(([left, top, right, bottom]) => box[0] > right || box[2] < left || box[1] > bottom || box[3] < top);
        this.marks[number].setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
        this.marks[number].classList.toggle("named", free || number === this.#chosen);
        if (free) taken.push(box);
      }
      this.links.replaceChildren(...(this.#chosen === null ? [] : this.near.map((other) => {
        const [[x1, y1], [x2, y2]] = [places[this.#chosen], places[other]];
        return drawn("line", { x1, y1, x2, y2 });
      })));
    }
  }

  if (!customElements.get(NAME)) customElements.define(NAME, WordMap);
  document.querySelectorAll(NAME).forEach((map) => map.start());
}
