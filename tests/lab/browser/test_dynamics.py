from typing import Any

from neuropil.lab.view import ask, find_view

COMPILED = 120_000
"""Milliseconds: on a machine where the simulator was never used."""


def test_a_push_is_integrated_and_held(lab: Any, page: Any):
    page.goto(lab.link("/view/dynamics", state='{"neurons":100}'))
    page.locator(".view[data-ready]").wait_for(timeout=COMPILED)
    view, common = find_view("dynamics"), {"session": 55, "neurons": 100}
    ask(view, "follow", None, {**common, "duration": 200})
    page.get_by_role("button", name="Push down").click()
    expected = ask(view, "follow", None, {**common, "duration": 500, "input": -2})
    page.locator(f".view p b [data-value='{expected['last'][0]}']").wait_for()
    page.get_by_label("feedback strength").fill("0.5")
    expected = ask(view, "follow", None, {**common, "duration": 40, "feedback": 0.5})
    page.locator(f".view p b [data-value='{expected['last'][0]}']").wait_for()
    page.get_by_label("what it does").select_option(label="oscillator")
    page.get_by_role("img", name="Path in the plane").wait_for()
    page.get_by_role("button", name="Run").click()
    page.get_by_role("button", name="Pause").click()
