from collections.abc import Callable
from typing import Any

import pytest

from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run


def test_a_slider_scales_the_weights(lab: Any, page: Any, trained_run: Callable[..., Run]):
    run = trained_run("mlp", "deep_mlp", epochs=1, hidden_sizes=(16, 16))
    page.goto(lab.link("/view/layers", run="deep_mlp"))
    page.locator("[data-spread='output']").wait_for()
    page.get_by_label("scale of the weights", exact=True).fill("0.5")
    scale = round(10**0.5, 3)
    page.get_by_text(f"× {scale:.2f}; loss").wait_for()
    expected = ask(find_view("layers"), "read", run, {"scale": scale})["layers"][-1]["spread"]
    shown = float(page.locator("[data-spread='output']").get_attribute("data-value"))
    assert shown == pytest.approx(expected, rel=1e-6)
