"""Down to one multiplication, by pointer and by keys, with the library's numbers on the page."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from lab.small_runs import SMALL
from neuropil.inspection.products.opened import NumberPlace
from neuropil.inspection.products.stages import TracedPass
from neuropil.lab.pictures import PictureRequest, chosen_picture
from neuropil.runs.products import trace_run
from neuropil.runs.run import Run

CANVAS = ".stage[data-stage='{}'] canvas.pixels"


@pytest.fixture
def digit(trained_run: Callable[..., Run]) -> Run:
    return trained_run("mlp", **SMALL["mlp"])


def number_of(page: Any, selector: str = ".opened .result [data-value]") -> float:
    return float(page.locator(selector).get_attribute("data-value"))


def wait_for(page: Any, stage: str, index: list[int]) -> None:
    """Until this number is open."""
    name = stage.rpartition(".")[2] if not stage.rpartition(".")[2].isdigit() else stage
    words = f"{name}[{', '.join(map(str, index))}]"
    page.wait_for_function("words => document.querySelector('.opened h2')?.textContent === words", arg=words)


def value_of(traced: TracedPass, stage: str, index: list[int]) -> float:
    return traced.open(NumberPlace(stage, tuple(index))).value


def test_a_probability_is_followed_down_to_a_pixel_and_back(lab: Any, page: Any, digit: Run):
    traced = trace_run(digit, chosen_picture(digit, PictureRequest())).traced
    page.goto(lab.link("/view/products", run="mlp"))
    page.locator(".view[data-ready]").wait_for()
    probabilities = traced.stages["probabilities"].values
    best = int(probabilities.argmax())
    assert number_of(page) == probabilities[best].item()
    for stage in ("output", "hidden.0.relu", "hidden.0", "standardize", "input"):
        button = page.locator(f".opened button.factor[data-stage='{stage}']").first
        index = [int(each) for each in button.get_attribute("data-index").split(",")]
        shown = float(button.locator("[data-value]").get_attribute("data-value"))
        button.click()
        wait_for(page, stage, index)
        assert number_of(page) == shown == value_of(traced, stage, index)
    assert page.locator(".crumbs li").count() == 6
    page.locator(".crumbs button").nth(1).click()
    page.wait_for_function("() => document.querySelectorAll('.crumbs li').length === 2")
    terms = page.locator(".terms [data-term]").evaluate_all("all => all.map(one => Number(one.dataset.value))")
    assert abs(sum(terms) - number_of(page)) < 1e-4
    page.locator(".opened .source a").click()
    assert "self.output(h)" in page.locator(".marked").inner_text()


def test_keys_reach_a_number_and_open_it(lab: Any, page: Any, digit: Run):
    traced = trace_run(digit, chosen_picture(digit, PictureRequest())).traced
    page.goto(lab.link("/view/products", run="mlp"))
    page.locator(".view[data-ready]").wait_for()
    page.locator(CANVAS.format("input")).focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    wait_for(page, "input", [0, 1, 2])
    assert number_of(page) == value_of(traced, "input", [0, 1, 2])
    page.locator(CANVAS.format("hidden.0")).focus()
    page.keyboard.press("Enter")
    wait_for(page, "hidden.0", [0])
    page.locator(".opened button.factor").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelectorAll('.crumbs li').length === 2")
    page.keyboard.press("Escape")
    wait_for(page, "hidden.0", [0])


def test_a_number_follows_what_is_drawn(lab: Any, page: Any, digit: Run):
    page.goto(lab.link("/view/products", run="mlp", state=json.dumps({"trail": [{"stage": "output", "index": [1]}]})))
    page.locator(".view[data-ready]").wait_for()
    before = number_of(page)
    page.get_by_role("button", name="Clear").click()
    page.wait_for_function(
        "was => document.querySelector('.opened .result [data-value]').dataset.value != was", arg=before
    )
    empty = trace_run(digit, chosen_picture(digit, PictureRequest(drawing="0" * 28 * 28))).traced
    assert number_of(page) == value_of(empty, "output", [1])


def test_a_typed_text_and_a_link_open_the_same_number(lab: Any, page: Any, text_run: Callable[[str], Run]):
    run = text_run("gpt2")
    trail = [{"stage": "blocks.1.attention.weights", "index": [1, 2, 1]}]
    state = json.dumps({"text": "3 is odd", "trail": trail, "parts": ["", "blocks.1"]})
    page.goto(lab.link("/view/products", run="texts_gpt2", state=state))
    page.locator(".view[data-ready]").wait_for()
    assert number_of(page) == value_of(trace_run(run, "3 is odd").traced, trail[0]["stage"], trail[0]["index"])
    assert page.locator(CANVAS.format("blocks.0.attention.scores")).is_hidden()
    page.locator("summary", has_text="blocks.0").click()
    page.locator(CANVAS.format("blocks.0.attention.scores")).click(position={"x": 3, "y": 3})
    wait_for(page, "blocks.0.attention.scores", [0, 0, 0])
    page.get_by_label("Text").fill("4 is even, see 5")
    expected = value_of(trace_run(run, "4 is even, see 5").traced, "blocks.0.attention.scores", [0, 0, 0])
    page.wait_for_function(
        "v => document.querySelector('.opened .result [data-value]').dataset.value == v", arg=expected
    )


def test_the_view_is_accessible_and_fits_a_phone(lab: Any, page: Any, digit: Run):
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(lab.link("/view/products", run="mlp"))
    page.locator(".view[data-ready]").wait_for()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], scheme
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
