"""The script of a drawing, in a browser: boxes open and close where they are, and close to what Python drew."""

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuropil.autodiff import graph, ops
from neuropil.autodiff.networks import RowRNN

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser is installed")

WATCHER = """
const svg = document.querySelector("svg"), seen = [];
const within = (box, card) => box.querySelector(box.matches(".open") ? ":scope > .frame > .name" : card);
const name = (box) => within(box, ":scope > .card .name").textContent.slice(2);
function room(node) {  // a card with its op, or the frame of an open box
  const open = node.firstElementChild.matches(".open");
  const parts = open ? [node.querySelector(".frame > rect")] : [...node.querySelectorAll(".box, .op rect")];
  const sides = parts.map((part) => part.getBoundingClientRect()).filter((side) => side.width);
  return [Math.min(...sides.map((s) => s.left)), Math.min(...sides.map((s) => s.top)),
          Math.max(...sides.map((s) => s.right)), Math.max(...sides.map((s) => s.bottom))];
}
function look() {
  const nodes = [...svg.querySelectorAll("[data-i]")].filter((node) => node.getBoundingClientRect().width);
  const parents = [...new Set(nodes.map((node) => node.parentNode))];
  const { width, height } = svg.getBoundingClientRect();
  seen.push({ width, height, rooms: nodes.map(room), parents: nodes.map((node) => parents.indexOf(node.parentNode)) });
}
function press(text) {
  const shown = [...svg.querySelectorAll(".group")].filter((box) => box.getBoundingClientRect().width);
  const box = shown.find((box) => name(box) === text);
  within(box, ":scope > .card").dispatchEvent(new MouseEvent("click"));
  look();
}
look();
for (const text of CLICKS) press(text);
document.title = JSON.stringify(seen);
"""


def watched(svg: str, clicks: list[str], folder: Path) -> list[dict[str, Any]]:
    """What a browser shows at first and after each click."""
    page = folder / "page.html"
    page.write_text(
        "<!doctype html><meta charset=utf-8><body "
        f"style=margin:0>{svg}<script>{WATCHER.replace('CLICKS', json.dumps(clicks))}</script>"
    )
    command = [
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={folder / 'profile'}",
        "--dump-dom",
        page.as_uri(),
    ]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return json.loads(re.findall(r"<title>(\[.*?\])</title>", shown)[0])


def test_boxes_open_in_place_and_close_to_what_was_drawn(tmp_path: Path):
    loss = ops.cross_entropy(RowRNN(8, 8, 10, np.random.default_rng(0))(np.zeros((2, 8, 8))), np.array([0, 1]))
    svg = graph(loss).draw(layout="layered")
    start, cell, both, less, closed = watched(svg, ["cell", "output", "cell", "output"], tmp_path)
    assert len(both["rooms"]) > len(cell["rooms"]) > len(start["rooms"]) == len(closed["rooms"])
    assert len(less["rooms"]) < len(both["rooms"])
    assert both["height"] > cell["height"] > start["height"]
    assert np.allclose(start["rooms"], closed["rooms"], atol=0.2)
    for view in (start, cell, both, less, closed):
        for (a, parent), (b, other) in itertools.combinations(zip(view["rooms"], view["parents"], strict=True), 2):
            assert 0 <= a[0] <= a[2] <= view["width"]
            assert 0 <= a[1] <= a[3] <= view["height"]
            assert parent != other or a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
