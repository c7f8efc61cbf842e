from collections.abc import Callable
from typing import Any

from lab.small_runs import SMALL
from neuropil.inspection.heads import masked_heads
from neuropil.inspection.rollout import patch_maps
from neuropil.lab.pictures import held_out
from neuropil.lab.scenes import scenes
from neuropil.runs.run import Run


def test_a_head_is_shown_over_the_picture_and_can_be_removed(lab: Any, page: Any, trained_run: Callable[..., Run]):
    run = trained_run("vit", **SMALL["vit"])
    picture = held_out(run).examples.inputs[3:4]
    page.goto(lab.link("/view/patches", run="vit"))
    page.get_by_role("button", name="Example 4").click()
    page.locator('[data-head="blocks.0.attention:1"]').click()
    page.get_by_role("heading", name="Layer 1, head 2").wait_for()
    largest = patch_maps(run.model, picture).heads["blocks.0.attention"][0, 1].max()
    shown = float(page.locator(".finding [data-value]").first.get_attribute("data-value"))
    assert abs(shown - float(largest)) < 1e-5
    page.get_by_label("keep head 1 of layer 2").click()
    page.get_by_role("heading", name="Answer without 1 head").wait_for()
    with masked_heads(run.model, {"blocks.1.attention": [0]}):
        expected = run.predict(picture).records()[0]["probabilities"]
    for name in ("0", "7"):
        value = page.locator(f'.answers [data-value][data-name="{name}"]').get_attribute("data-value")
        assert abs(float(value) - expected[name]) < 1e-6
    page.locator("canvas.patches").first.click(position={"x": 100, "y": 40})
    page.get_by_text("The patch at row 1, column 2 looks at").wait_for()


def test_typed_texts_are_compared_with_pictures(lab: Any, page: Any, trained_run: Callable[..., Run]):
    run = trained_run("clip", **SMALL["clip"])
    page.goto(lab.link("/view/patches", run="clip"))
    page.get_by_label("Texts, one a line").fill("a zero\na nine above a one")
    page.get_by_role("rowheader", name="a nine above a one").wait_for()
    cosine = run.predictor.embed_texts(["a nine above a one"])[0] @ run.predict(scenes(run, 12).pictures).vectors[1]
    cell = page.locator('td[data-text="1"][data-picture="1"] [data-value]')
    assert abs(float(cell.get_attribute("data-value")) - float(cosine)) < 1e-4
