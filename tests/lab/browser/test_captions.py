from collections.abc import Callable
from typing import Any

from lab.small_runs import SMALL
from neuropil.lab.scenes import scenes
from neuropil.runs.run import Run


def test_a_picture_is_captioned_word_by_word(lab: Any, page: Any, trained_run: Callable[..., Run]):
    run = trained_run("captioner", **SMALL["captioner"])
    pictures = scenes(run, 24).pictures
    number = min(2, len(pictures) - 1)
    text = run.predictor.caption(pictures[number : number + 1]).texts[0]
    page.goto(lab.link("/view/captions", run="captioner"))
    page.get_by_role("button", name=f"Example {number + 1}:").click()
    page.wait_for_function("text => document.querySelector('[data-caption]')?.dataset.caption === text", arg=text)
    page.get_by_role("button", name="Next word").click()
    choices = run.predictor.alternatives(pictures[number : number + 1], text)
    shown = float(page.locator(".grow [data-value]").first.get_attribute("data-value"))
    assert abs(shown - choices[min(1, len(choices) - 1)].share) < 1e-6
