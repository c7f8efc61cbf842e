import re
from typing import Any

import pytest

from neuropil.lab.view import ask, find_view


def test_updates_are_those_of_the_library(lab: Any, page: Any):
    page.goto(lab.link("/view/gan_game", state='{"units":"small","r1":0.05}'))
    page.locator(".view[data-ready]").wait_for()
    for number in range(1, 3):
        page.get_by_role("button", name="One update").click()
        page.get_by_text(f"Update {number}:").wait_for()
    settings = {"units": "small", "r1": 0.05, "session": "beside", "updates": 2, "reset": True}
    expected = ask(find_view("gan_game"), "step", None, settings)
    shown = float(page.locator("[data-part=discriminator]").get_attribute("data-value"))
    assert shown == pytest.approx(expected["discriminator_loss"], rel=1e-5)


def test_it_plays_until_it_is_paused(lab: Any, page: Any):
    page.goto(lab.link("/view/gan_game", state='{"units":"small"}'))
    page.get_by_role("button", name="Play").click()
    page.get_by_text(re.compile(r"Update [1-9]\d+:")).wait_for()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Play").wait_for()
