from collections.abc import Callable
from typing import Any

from lab.small_runs import SMALL
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run


def test_a_dragged_point_moves_the_forecast(lab: Any, page: Any, trained_run: Callable[..., Run]):
    run = trained_run("forecaster", **SMALL["forecaster"])
    page.goto(lab.link("/view/forecast", run="forecaster"))
    page.locator(".view[data-ready]").wait_for()
    point = page.locator("svg.chart circle.f1").last.bounding_box()
    x, y = point["x"] + point["width"] / 2, point["y"] + point["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 40, steps=4)
    page.mouse.up()
    page.get_by_text("1 point is changed").wait_for()
    page.wait_for_load_state("networkidle")
    changes = page.evaluate("JSON.parse(new URLSearchParams(location.hash.split('?')[1]).get('state')).changes")
    (step, value), view = changes[0], find_view("forecast")
    expected = ask(view, "read", run, {"steps": [step], "values": [value]})["mase"]["forecaster"]
    page.wait_for_function(
        "expected => Math.abs(document.querySelector('p b [data-value]').dataset.value - expected) < 1e-9", arg=expected
    )
    assert expected != ask(view, "read", run, {})["mase"]["forecaster"]
