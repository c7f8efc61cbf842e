"""The map of a vocabulary: what its markup holds, and what a browser makes of it."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from neuropil.inspection.report.page import Html, Report, Section, render
from neuropil.inspection.report.word_map import MappedWord, word_map_html

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WORDS = [
    MappedWord("king", (0.0, 0.0), 1_204, [("queen", 0.712), ("prince", 0.5)]),
    MappedWord("queen", (0.1, 0.0), 300, [("king", 0.712)]),
    MappedWord("</script><img src=x onerror=alert(1)>", (1.0, 1.0), None, [("<b>", -0.25)]),
]
ASKED = """
const map = document.querySelector("neuropil-word-map"), status = () => map.querySelector(".status").textContent;
const input = map.querySelector("input"), said = [];
const type = (text) => { input.value = text; input.dispatchEvent(new Event("input")); said.push(status()); };
const marked = (name) => [...map.querySelectorAll(`.${name} text`)].map((text) => text.textContent);
map.querySelectorAll("[data-word]")[1].dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
said.push(status(), marked("chosen"), marked("near"), map.querySelectorAll("line").length);
type("KIN");
said.push(marked("found"));
type("zebra");
type("img");
const before = map.querySelector("[data-word]").getAttribute("transform");
map.querySelector("button").click();
said.push(before !== map.querySelector("[data-word]").getAttribute("transform"));
document.title = JSON.stringify(said);
"""


def browsed(markup: str, folder: Path) -> str:
    """The page after its scripts have run."""
    page = folder / "page.html"
    page.write_text(markup, encoding="utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", profile]
    command += ["--window-size=1200,1000", "--virtual-time-budget=4000", "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def test_words_are_data_and_never_markup():
    markup = word_map_html(WORDS)
    assert "<img" not in markup
    data = re.search(r'<script type="application/json">(.*?)</script>', markup, flags=re.DOTALL)
    assert data is not None
    words = json.loads(data[1])["words"]
    assert words[0] == {"word": "king", "point": [0, 0], "count": 1204, "near": [["queen", 0.712], ["prince", 0.5]]}
    assert words[2]["word"] == WORDS[2].word


def test_every_word_has_a_dot_and_a_label_inside_the_drawing():
    markup = word_map_html(WORDS)
    places = re.findall(r'transform="translate\(([\d.]+) ([\d.]+)\)"', markup)
    assert [(float(x), float(y)) for x, y in places] == [(34, 34), (103.2, 34), (726, 526)]
    assert '<text y="-8">king</text>' in markup
    assert '<text y="-8">&lt;/script&gt;' in markup


def test_more_frequent_words_have_larger_dots():
    radii = re.findall(r'<circle r="([\d.]+)"', word_map_html(WORDS[:2]))
    assert radii == ["6.0", "2.2"]


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_words_are_pointed_at_searched_and_seen_from_near_in_a_browser(tmp_path: Path):
    head = "<!doctype html><meta charset=utf-8><title></title>"
    dom = browsed(f"{head}{word_map_html(WORDS)}<script>{ASKED}</script>", tmp_path)
    title = re.search(r"<title>(.*?)</title>", dom)
    assert title is not None
    assert json.loads(title[1].replace("&lt;", "<").replace("&gt;", ">")) == [
        "queen, 300 times; nearest by cosine: king 0.71",
        ["queen"],
        ["king"],
        1,
        "king, 1,204 times; nearest by cosine: queen 0.71 · prince 0.50",
        ["king"],
        "“zebra” is not among the 3 words of the map.",
        "</script><img src=x onerror=alert(1)>; nearest by cosine: <b> −0.25",
        True,
    ]


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_maps_start_in_a_report_under_its_content_policy(tmp_path: Path):
    sections = [Section("Maps", [Html(word_map_html(WORDS)), Html(word_map_html(WORDS[:2]))])]
    dom = browsed(render(Report("Title", "Summary.", sections)), tmp_path)
    assert dom.count('<neuropil-word-map data-ready="">') == 2
