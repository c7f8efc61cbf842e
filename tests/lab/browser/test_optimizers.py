from dataclasses import replace
from typing import Any

import pytest

from neuropil.recipes.optimizers import RULES, OptimizersOptions, race
from neuropil.training.loss_surfaces import two_wells_surface


def test_a_click_and_a_slider_change_where_the_race_ends(lab: Any, page: Any):
    page.goto(lab.link("/view/optimizers", state='{"surface":"two_wells","rates":[0.02,0.02,0.02,0.02,0.02,0.02]}'))
    page.locator(".view[data-ready]").wait_for()
    box = page.locator("canvas.plane").bounding_box()
    with page.expect_response("**/optimizers/run"):
        page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 0.3 * box["height"])
    page.get_by_label("momentum β", exact=True).fill("0.8")
    page.wait_for_function("() => new URLSearchParams(location.hash.split('?')[1]).get('state').includes('0.8')")
    state = page.evaluate("JSON.parse(new URLSearchParams(location.hash.split('?')[1]).get('state'))")
    assert (state["x"], state["y"]) == pytest.approx((-2.1 + 0.9 * 4.2, 1.5 - 0.3 * 3.0), abs=0.02)
    surface = replace(two_wells_surface(), start=(state["x"], state["y"]))
    descents = race([(rule, 0.02) for rule in RULES.values()], surface, OptimizersOptions(momentum=0.8), seed=0)
    expected = dict(zip(RULES, descents, strict=True))["momentum"].losses[-1]
    page.wait_for_function(
        "expected => Math.abs(document.querySelector('[data-end=momentum]').dataset.value / expected - 1) < 1e-4",
        arg=expected,
    )


def test_the_race_goes_on_step_by_step(lab: Any, page: Any):
    page.goto(lab.link("/view/optimizers"))
    page.locator(".view[data-ready]").wait_for()
    page.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="Step", exact=True).click()
    assert page.locator("th", has_text="loss at step 1").count() == 1
