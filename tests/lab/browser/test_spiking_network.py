from typing import Any

from neuropil.lab.view import ask, find_view

COMPILED = 180_000
"""Milliseconds: on a machine where the simulator was never used."""


def test_a_slider_acts_on_the_network_that_runs(lab: Any, page: Any):
    page.goto(lab.link("/view/spiking_network", state='{"neurons":1250}'))
    page.locator(".view[data-ready]").wait_for(timeout=COMPILED)
    view = find_view("spiking_network")
    expected = ask(view, "advance", None, {"session": 77, "neurons": 1250, "duration": 200})
    shown = page.locator(".view p b [data-value]").first
    assert float(shown.get_attribute("data-value")) == expected["found"]["rate_hz"]
    page.get_by_label("relative inhibition g").fill("2")
    expected = ask(view, "advance", None, {"session": 77, "neurons": 1250, "g": 2, "duration": 25})
    page.locator(f".view p b [data-value='{expected['found']['rate_hz']}']").wait_for()
    page.get_by_role("button", name="Run").click()
    page.get_by_text("synchronous and regular", exact=True).wait_for()
    page.get_by_role("button", name="Pause").click()
