import re
from typing import Any

import pytest

from neuropil.lab.view import ask, find_view


def test_it_learns_step_by_step_as_the_library_does(lab: Any, page: Any):
    page.goto(lab.link("/view/playground", state='{"data":"xor","learning_rate":0.05}'))
    page.locator(".view[data-ready]").wait_for()
    for number in range(1, 4):
        page.get_by_role("button", name="One update").click()
        page.get_by_text(f"Update {number},").wait_for()
    settings = {"data": "xor", "learning_rate": 0.05, "session": "beside", "updates": 3, "reset": True}
    expected = ask(find_view("playground"), "step", None, settings)
    shown = float(page.locator("[data-part=test]").get_attribute("data-value"))
    assert shown == pytest.approx(expected["test"]["loss"], rel=1e-6)


def test_a_layer_more_begins_again(lab: Any, page: Any):
    page.goto(lab.link("/view/playground"))
    page.get_by_role("button", name="Learn").click()
    page.get_by_text(re.compile(r"Update [1-9]\d+,")).wait_for()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="One hidden layer more").click()
    page.get_by_text("layer 3: 4").wait_for()
    page.get_by_text("Update 0,").wait_for()
