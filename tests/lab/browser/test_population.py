from typing import Any

from neuropil.lab.view import ask, find_view

COMPILED = 120_000
"""Milliseconds: on a machine where the simulator was never used."""


def test_the_decoded_value_follows_the_sliders(lab: Any, page: Any):
    page.goto(lab.link("/view/population"))
    page.locator(".view[data-ready]").wait_for(timeout=COMPILED)
    for label, value in (("represented value x", "-0.4"), ("neurons", "80")):
        page.get_by_label(label, exact=True).fill(value)
    page.get_by_label("decoded function").select_option(label="x²")
    expected = ask(find_view("population"), "represent", None, {"value": -0.4, "neurons": 80, "function": "x²"})
    page.locator(f".view p b [data-value='{expected['said']}']").wait_for()
    shown = [float(each.get_attribute("data-value")) for each in page.locator(".view p [data-value]").all()]
    names = ("true", "said", "distortion", "noise_error", "rmse", "mean_rate")
    assert shown == [expected[name] for name in names]


def test_intercepts_push_each_other(lab: Any, page: Any):
    page.goto(lab.link("/view/population"))
    page.locator(".view[data-ready]").wait_for(timeout=COMPILED)
    page.get_by_label("highest intercept").fill("-0.5")
    page.get_by_label("lowest intercept").fill("0.2")
    page.wait_for_function("() => document.querySelector('[aria-label=\"highest intercept\"]').value === '0.2'")
    page.get_by_role("button", name="Move x").click()
    page.wait_for_function("() => document.querySelector('[aria-label=\"represented value x\"]').value !== '0.5'")
    page.get_by_role("button", name="Hold x").click()
