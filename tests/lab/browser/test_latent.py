from collections.abc import Callable
from typing import Any

from lab.small_runs import SMALL
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run


def test_the_decoded_picture_follows_the_pointer(lab: Any, page: Any, trained_run: Callable[..., Run]):
    run = trained_run("vae", **SMALL["vae"])
    page.goto(lab.link("/view/latent", run="vae"))
    page.locator(".view[data-ready]").wait_for()
    page.locator("canvas.scatter").hover(position={"x": 120, "y": 90})
    page.wait_for_function("() => /%22x%22/.test(location.hash)")
    opened = ask(find_view("latent"), "open", run, {})
    axes = {"horizontal": opened["horizontal"], "vertical": opened["vertical"]}
    shown = page.locator("p.said [data-value]").evaluate_all("all => all.map(e => +e.dataset.value)")
    assert abs(shown[0] - opened["shown"]["code"][opened["horizontal"]]) > 0.01
    expected = ask(find_view("latent"), "decode", run, {**axes, "x": shown[0], "y": shown[1]})["picture"]
    total = sum(map(sum, expected))
    page.locator(f"canvas[aria-label='Decoded under the pointer'][data-value='{total}']").wait_for()
    # by keyboard, the same
    page.get_by_label("Vertical", exact=True).fill("1")
    expected = ask(find_view("latent"), "decode", run, {**axes, "x": shown[0], "y": 1.0})["picture"]
    page.locator(f"canvas[aria-label='Decoded under the pointer'][data-value='{sum(map(sum, expected))}']").wait_for()
