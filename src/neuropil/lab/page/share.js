// A view as a file: one HTML page that holds everything it shows, or one picture.

import { h } from "./dom.js";

async function still({ root, title }) {
  const copy = root.cloneNode(true);
  const canvases = [...root.querySelectorAll("canvas")];
  [...copy.querySelectorAll("canvas")].forEach((canvas, index) => {
    const from = canvases[index], image = h("img", { src: from.toDataURL(), alt: from.getAttribute("aria-label") ?? "", class: from.className });
    image.style.cssText = from.style.cssText;
    canvas.replaceWith(image);
  });
  const inputs = [...root.querySelectorAll("input, textarea, select")];
  [...copy.querySelectorAll("input, textarea, select")].forEach((input, index) => {
    const from = inputs[index];
    if (input.tagName === "TEXTAREA") input.textContent = from.value;
    else if (input.tagName === "SELECT") [...input.options].forEach((option, place) => option.toggleAttribute("selected", place === from.selectedIndex));
    else { input.setAttribute("value", from.value); input.toggleAttribute("checked", from.checked); }
    input.setAttribute("disabled", "");
  });
  const styles = await Promise.all([...document.querySelectorAll("link[rel=stylesheet]")].map(async (sheet) => (await fetch(sheet.href)).text()));
  const heading = h("h1", {}, title);
  return { heading, copy, style: styles.join("\n") };
}

// Written as text: a page of our own may not be given styles in any other way.
export async function saveHtml(view) {
  const { heading, copy, style } = await still(view);
  const theme = document.documentElement.dataset.theme;
  const body = h("main", {}, heading, h("p", { class: "note" }, `As it was on ${new Date().toLocaleString()}, in the neuropil lab.`), copy);
  const policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
  const head = [`<meta charset="utf-8">`, `<meta http-equiv="content-security-policy" content="${policy}">`, `<meta name="viewport" content="width=device-width">`, h("title", {}, view.title).outerHTML, `<style>${style}</style>`];
  const page = `<!doctype html>\n<html lang="en"${theme ? ` data-theme="${theme}"` : ""}><head>${head.join("\n")}</head><body>${body.outerHTML}</body></html>\n`;
  save(new Blob([page], { type: "text/html" }), view.title, "html");
}

export async function savePng(view) {
  const { heading, copy, style } = await still(view);
  const box = view.root.getBoundingClientRect(), width = Math.ceil(box.width) + 32, height = Math.ceil(box.height) + 90;
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark" || (document.documentElement.dataset.theme ?? "") === "dark"
    || !document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches;
  const holder = document.createElementNS("http://www.w3.org/1999/xhtml", "div");
  holder.append(Object.assign(document.createElement("style"), { textContent: `${style.replaceAll(":root", ".sheet")} .sheet { color-scheme: ${dark ? "dark" : "light"}; font: 1rem/1.5 var(--sans); background: var(--paper); color: var(--ink); padding: 16px; }` }));
  holder.append(h("div", { class: "sheet" }, heading, copy));
  const markup = new XMLSerializer().serializeToString(holder);
  const drawing = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><foreignObject width="100%" height="100%">${markup}</foreignObject></svg>`;
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawing)}`;
  await image.decode();
  const canvas = h("canvas", { width: 2 * width, height: 2 * height }), context = canvas.getContext("2d");
  context.scale(2, 2);
  context.fillStyle = dark ? "#15171b" : "#ffffff";
  context.fillRect(0, 0, width, height);
  context.drawImage(image, 0, 0);
  save(await new Promise((done) => canvas.toBlob(done, "image/png")), view.title, "png");
}

function save(blob, title, suffix) {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: `${title.replace(/[^\p{L}\p{N}]+/gu, "-")}.${suffix}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
