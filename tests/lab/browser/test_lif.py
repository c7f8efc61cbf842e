from typing import Any

import torch

from neuropil.lab.view import ask, find_view
from neuropil.models.lif import LIFConfig, rate


def test_the_rate_follows_the_slider(lab: Any, page: Any):
    page.goto(lab.link("/view/lif"))
    page.get_by_label("current", exact=True).fill("2")
    expected = float(rate(torch.tensor(2.0), LIFConfig()))
    page.wait_for_function(
        "expected => Math.abs(document.querySelectorAll('p [data-value]')[1]?.dataset.value - expected) < 1e-3",
        arg=expected,
    )
    measured = float(page.locator("p [data-value]").first.get_attribute("data-value"))
    assert abs(measured - expected) < 0.01 * expected


def test_a_link_restores_the_view(lab: Any, page: Any):
    page.goto(lab.link("/view/lif", state='{"current":1.5,"tau_m":10}'))
    page.locator(".view[data-ready]").wait_for()
    assert page.get_by_label("current", exact=True).input_value() == "1.5"
    expected = float(rate(torch.tensor(1.5), LIFConfig(tau_m=10.0)))
    shown = float(page.locator("p [data-value]").nth(1).get_attribute("data-value"))
    assert abs(shown - expected) < 1e-3


def test_a_current_is_drawn_over_time(lab: Any, page: Any):
    page.goto(lab.link("/view/lif"))
    page.locator(".view[data-ready]").wait_for()
    chart = page.get_by_role("img", name="Current over time")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.7 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 0.1 * box["height"], steps=5)
    page.mouse.up()
    page.get_by_role("img", name="Current over time: drawn").wait_for()
    drawing = page.evaluate("() => JSON.parse(new URLSearchParams(location.hash.split('?')[1]).get('state')).drawing")
    assert drawing[0] == 1.2
    assert max(drawing) > 2.5
    expected = ask(find_view("lif"), "simulate", None, {"drawn": drawing})
    page.locator(f".view p b [data-value='{expected['rate']}']").wait_for()
