"""`make lab-screenshots`: pictures of the lab for its page, the README and the cards of systems, taken in a browser.

make lab-screenshots                 trains the runs that are shown, which takes a quarter of an hour
make lab-screenshots RUNS=folder     uses those in a folder, and trains what is missing
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import neuropil

PICTURES = Path(__file__).parent / "pictures"
CARDS = Path(__file__).parents[1] / "src" / "neuropil" / "lab" / "page" / "pictures"
WIDTH, HEIGHT = 1280, 860
CARD = (448, 252)
RUNS = ("cnn", "gpt2", "bert", "bert_classifier", "transformer", "rnn", "gru", "mingru", "tagger", "vae")
TOUR = {
    "home": ("/", ()),
    "playground": ("/view/playground", ("Learn",)),
    "spiking-network": ("/view/spiking_network", ("Run",)),
    "classification": ("/view/classification?run=cnn", ()),
    "products": ("/view/products?run=cnn", ()),
    "attention": ("/view/attention?run=gpt2", ()),
    "generation": ("/view/generation?run=gpt2", ()),
    "translation": ("/view/translation?run=transformer", ()),
    "latent": ("/view/latent?run=vae", ()),
}
"""By the name of the picture, the page and what is pressed on it."""
FRONT = ("playground", "spiking-network", "classification", "attention")
"""Together in the README."""
SHOWN_ON_CARDS = {
    "rnn": "gates",
    "gru": "gates",
    "mingru": "gates",
    "tagger": "gates",
    "gpt2": "generation",
    "bert": "fill",
    "bert_classifier": "attention",
}
"""Systems whose pages have no picture of their own."""
SECONDS_PRESSED = 6.0


def main(words: list[str]) -> None:
    runs = Path(words[0]) if words else Path("runs/lab-screenshots")
    for name in RUNS:
        if not (runs / name / "model.safetensors").exists():
            neuropil.train(name, out=runs / name, report=False)
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    with served(runs) as address, sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = opened.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        taken = {}
        for name, (link, pressed) in TOUR.items():
            taken[name] = shot(page, f"{address}#{link}", pressed)
            save(taken[name], PICTURES / f"lab-{name}.webp")
        save(together([taken[name] for name in FRONT]), PICTURES / "lab.webp")
        page.set_viewport_size({"width": 700, "height": 600})
        for system, view in SHOWN_ON_CARDS.items():
            page.goto(f"{address}#/view/{view}?run={quote(system)}&embedded=1")
            page.locator(".view[data-ready]").wait_for()
            page.wait_for_timeout(500)
            part = page.locator(".view canvas").first if view == "gates" else page.locator(".view")
            image = Image.open(BytesIO(part.screenshot())).convert("RGB")
            height = round(image.width * CARD[1] / CARD[0])
            image.crop((0, 0, image.width, min(height, image.height))).resize(CARD).save(
                CARDS / f"{system}.webp", quality=80
            )
        opened.close()


@contextmanager
def served(runs: Path) -> Iterator[str]:
    words = [sys.executable, "-m", "neuropil", "lab", "--runs", str(runs), "--port", "0", "--no-open"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stdout is not None  # noqa: S101
    try:
        yield process.stdout.readline().split()[4]
    finally:
        process.terminate()


def shot(page: Page, link: str, pressed: Any) -> Image.Image:
    page.goto("about:blank")
    page.goto(link)
    page.locator(".view[data-ready], .card").first.wait_for()
    for name in pressed:
        page.get_by_role("button", name=name, exact=True).click()
        time.sleep(SECONDS_PRESSED)
    page.wait_for_timeout(800)
    return Image.open(BytesIO(page.screenshot())).convert("RGB")


def together(images: list[Image.Image]) -> Image.Image:
    """Two and two."""
    width, height, gap = WIDTH * 3 // 4, HEIGHT * 3 // 4, 8
    sheet = Image.new("RGB", (2 * width + gap, 2 * height + gap), "#dfe2e7")
    for place, image in enumerate(images):
        sheet.paste(image.resize((width, height)), ((place % 2) * (width + gap), (place // 2) * (height + gap)))
    return sheet


def save(image: Image.Image, path: Path) -> None:
    image.save(path, quality=82, method=6)
    print(f"{path.relative_to(PICTURES.parents[1])}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
