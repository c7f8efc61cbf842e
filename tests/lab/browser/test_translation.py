from collections.abc import Callable
from typing import Any

from neuropil.inspection.heads import masked_heads
from neuropil.runs.run import Run

TEXT = "say 148"


def test_a_typed_text_is_translated_and_again_without_heads(lab: Any, page: Any, pair_run: Callable[[str], Run]):
    run = pair_run("transformer")
    page.goto(lab.link("/view/translation", run="transformer"))
    page.get_by_label("Text", exact=True).fill(TEXT)
    page.wait_for_function(
        "text => document.querySelector('[data-translation]').dataset.translation === text", arg=run.translate(TEXT)
    )
    written = page.get_by_role("group", name="Written tokens").locator(".token")
    alternatives = run.predictor.alternatives(TEXT, run.translate(TEXT))
    written.nth(1).hover()
    share = float(page.locator(".headpanels p [data-value]").get_attribute("data-value"))
    assert abs(share - alternatives[1].share) < 1e-6
    page.get_by_label("remove or restore all heads of decoder 1 to source").click()
    with masked_heads(run.model, {"decoder.0.cross": [0, 1]}):
        expected = run.translate(TEXT)
    page.wait_for_function(
        "text => document.querySelector('[data-translation]').dataset.translation === text", arg=expected
    )
    assert page.get_by_label("keep head 1 of decoder 1 to source").is_checked() is False
    page.get_by_label("Text", exact=True).fill("")
    page.get_by_text("Write something to translate").wait_for()
