from collections.abc import Callable
from typing import Any

from lab.small_runs import SMALL
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run


def test_a_covered_pattern_comes_back_and_is_named(lab: Any, page: Any, trained_run: Callable[..., Run]):
    run = trained_run("hopfield", **SMALL["hopfield"])
    page.goto(lab.link("/view/recall", run="hopfield"))
    page.locator(".view[data-ready]").wait_for()
    page.get_by_label("Share", exact=True).fill("0.4")
    page.locator(".gallery button").nth(6).click()
    expected = ask(find_view("recall"), "settle", run, {"example": 6, "share": 0.4})
    page.locator(f"[data-found='{expected['found']}']").wait_for()
    assert run.predictor.stored.names[6] in expected["found"]
    page.get_by_label("Step", exact=True).fill("3")
    total = sum(map(sum, expected["frames"][3]))
    page.locator(f"canvas[aria-label='What it has become'][data-value='{total}']").wait_for()
    energy = page.locator("p[role=status] [data-value]").first.get_attribute("data-value")
    assert float(energy) == expected["energies"][expected["points"][3]]
