"""How soon each view of the lab follows a change, in a real browser: from the question to the picture that is drawn.

python -m benchmarks.lab_views FOLDER     with a run of each system that is looked at; what is missing is trained
"""

import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

import neuropil
from benchmarks.claims import publish, table
from benchmarks.lab_viewers import Lab
from neuropil.lab.view import VIEWS, LabView

CHANGES, PAUSE = 20, 400
"""Of each view; and milliseconds from one to the next, in which an answer of a small model has come."""
GOAL = 100.0
SYSTEMS = {"adversarial": "cnn", "classification": "cnn", "products": "cnn", "gates": "lstm", "attention": "gpt2"}
"""Where it is another than the first of the view."""
ABOUT = (
    "Milliseconds from a change in a view of the lab to the drawn picture, in Chromium on the machine of the lab, "
    f"with models trained on embedded data: {CHANGES} changes of one control, a slider, a text or a choice."
)
CONTROLS = ".view input[type=range], .view textarea, .view input[type=text], .view select"
CHANGE = """([controls, place, share]) => {
  const one = document.querySelectorAll(controls)[place], chosen = one.tagName === 'SELECT';
  if (one.type === 'range') one.value = Number(one.min) + share * (Number(one.max) - Number(one.min));
  else if (chosen) one.selectedIndex = Math.floor(share * 1000) % one.options.length;
  else one.value = one.value.replace(/ [0-9]+$/, '') + ' ' + Math.floor(10 * share);
  one.dispatchEvent(new Event(chosen ? 'change' : 'input', { bubbles: true }));
}"""
DRAWN = """() => performance.getEntriesByType('measure').filter(one => one.name.startsWith('drawn:'))
  .map(one => one.duration)"""


def main() -> None:
    runs = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/lab-views")
    for view in VIEWS:
        if view.needs_run and not (runs / system_of(view) / "model.safetensors").exists():
            neuropil.train(system_of(view), out=runs / system_of(view), report=False)
    lab, rows = Lab(runs), []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for view in VIEWS:
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            times = measured(page, lab, view)
            page.close()
            if times:
                figures = (statistics.median(times), max(times))
                rows.append([view.title, view_of(view), str(len(times)), *(f"{each:.0f}" for each in figures)])
                print(*rows[-1], sep="\t", flush=True)
        browser.close()
    lab.process.terminate()
    within = sum(float(row[3]) <= GOAL for row in rows)
    summary = f"\n{within} of {len(rows)} views have a median of at most {GOAL:.0f} ms."
    lines = [*table(["view", "of", "changes", "median", "slowest"], rows), summary]
    publish("lab-views", ABOUT, lines, command="python -m benchmarks.lab_views")


def system_of(view: LabView) -> str:
    return SYSTEMS.get(view.name, view.systems[0])


def view_of(view: LabView) -> str:
    return system_of(view) if view.needs_run else "no run"


def measured(page: Page, lab: Any, view: LabView) -> list[float]:
    """Of the first control whose changes ask something."""
    run = f"?run={system_of(view)}" if view.needs_run else ""
    page.goto(f"http://127.0.0.1:{lab.port}/#/view/{view.name}{run}")
    page.locator(".view[data-ready]").wait_for(timeout=120_000)
    page.wait_for_timeout(1000)
    controls = page.locator(CONTROLS).count()
    for place in range(controls):
        before = len(page.evaluate(DRAWN))
        for change in range(CHANGES + 2):
            if change == 2 and len(page.evaluate(DRAWN)) == before:
                break  # it asks nothing
            page.evaluate(CHANGE, [CONTROLS, place, 0.15 + 0.7 * (change * 0.37 % 1)])
            page.wait_for_timeout(PAUSE)
        found = page.evaluate(DRAWN)[before:]
        if len(found) >= CHANGES // 2:
            return found[2:]
    return []


if __name__ == "__main__":
    main()
