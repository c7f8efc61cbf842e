"use strict";

// The page is whole without this script: it adds copy buttons and marks the section that is being read.
for (const block of document.querySelectorAll(".code")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const code = block.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      // Some browsers allow no clipboard in a local file: then the text is selected, and one key copies it.
      getSelection().selectAllChildren(code);
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  block.append(button);
}

const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash, link]));
const observer = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    const link = links.get("#" + encodeURIComponent(target.id));
    if (isIntersecting) link?.setAttribute("aria-current", "true");
    else link?.removeAttribute("aria-current");
  }
}, { rootMargin: "-10% 0px -70% 0px" });
document.querySelectorAll("section").forEach((section) => observer.observe(section));
