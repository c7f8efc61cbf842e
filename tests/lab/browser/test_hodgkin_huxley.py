from typing import Any

from neuropil.lab.view import ask, find_view

COMPILED = 120_000
"""Milliseconds: on a machine where the simulator was never used."""


def test_spikes_follow_the_sliders(lab: Any, page: Any):
    page.goto(lab.link("/view/hodgkin_huxley", state='{"amplitude":20,"length":1}'))
    page.locator(".view p b [data-value='1']").wait_for(timeout=COMPILED)
    page.get_by_label("current", exact=True).fill("3")
    page.locator(".view p b [data-value='0']").wait_for()
    page.get_by_role("button", name="Firing").click()
    expected = ask(find_view("hodgkin_huxley"), "simulate", None, {})
    page.locator(f".view p b [data-value='{len(expected['spikes'])}']").wait_for()
    shown = [float(each.get_attribute("data-value")) for each in page.locator(".view p [data-value]").all()]
    assert shown == [len(expected["spikes"]), expected["rate"], expected["resting_voltage"], expected["peak"]]
