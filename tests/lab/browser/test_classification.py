from collections.abc import Callable
from typing import Any

from lab.small_runs import SMALL
from neuropil.lab.pictures import PictureRequest, chosen_picture, held_out
from neuropil.runs.run import Run


def shown(page: Any, name: str) -> float:
    return float(page.locator(f".bars [data-name='{name}']").get_attribute("data-value"))


def test_probabilities_move_with_what_is_chosen_and_drawn(lab: Any, page: Any, trained_run: Callable[..., Run]):
    run = trained_run("mlp", **SMALL["mlp"])
    page.goto(lab.link("/view/classification", run="mlp"))
    page.locator(".view[data-ready]").wait_for()
    expected = run.predict(held_out(run).examples.inputs[20:21]).scores[0]
    page.locator(".gallery button").nth(20).click()
    page.wait_for_function(
        "expected => Math.abs(document.querySelector('.bars [data-name=\"0\"]').dataset.value - expected) < 1e-5",
        arg=float(expected[0]),
    )
    assert all(abs(shown(page, str(digit)) - float(expected[digit])) < 1e-5 for digit in range(10))

    page.get_by_role("button", name="Clear").click()
    box = page.locator("canvas.pad").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 180, steps=4)
    page.mouse.up()
    page.wait_for_function("() => /drawing/.test(location.hash) && /f/.test(location.hash.split('drawing')[1])")
    drawing = page.evaluate("JSON.parse(new URLSearchParams(location.hash.split('?')[1]).get('state')).drawing")
    expected = run.predict(chosen_picture(run, PictureRequest(drawing=drawing))).scores[0]
    page.wait_for_function(
        "expected => Math.abs(document.querySelector('.bars [data-name=\"1\"]').dataset.value - expected) < 1e-5",
        arg=float(expected[1]),
    )
    page.reload()  # the link has the drawing
    page.locator(".view[data-ready]").wait_for()
    assert abs(shown(page, "1") - float(expected[1])) < 1e-5


def test_a_convolutional_network_shows_its_maps(lab: Any, page: Any, trained_run: Callable[..., Run]):
    run = trained_run("cnn", **SMALL["cnn"])
    page.goto(lab.link("/view/classification", run="cnn"))
    page.get_by_text("Activation maps", exact=True).wait_for()
    stem = run.activations(held_out(run).examples.inputs[:1])["stem"][0]
    figure = page.locator(".pictures figure").first
    channel = int(figure.locator("figcaption").inner_text())
    value = float(figure.locator("canvas").get_attribute("data-value"))
    assert abs(value - float(stem[channel, 0, 0])) < 1e-3
