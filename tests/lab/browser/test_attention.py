from collections.abc import Callable
from typing import Any

import torch

from neuropil.inspection.heads import masked_heads
from neuropil.inspection.report.attention import self_attention, tokens_of
from neuropil.runs.run import Run


def test_a_typed_text_is_read_and_a_removed_head_changes_the_answer(
    lab: Any, page: Any, text_run: Callable[[str], Run]
):
    run = text_run("bert_classifier")
    text = "so 8 is even now"
    page.goto(lab.link("/view/attention", run=run.folder.name))
    page.get_by_label("Text", exact=True).fill(text)
    page.locator(".tokens .token", has_text="now").click()
    maps = self_attention(run.predictor, tokens_of(run.predictor, text))
    place = list(maps[-1].queries).index("now")
    shown = [float(each.get_attribute("data-value")) for each in page.locator(".finding [data-value]").all()]
    weights = torch.as_tensor(maps[-1].weights)[0, place].sort(descending=True).values[: len(shown)]
    torch.testing.assert_close(torch.tensor(shown), weights, atol=1e-6, rtol=0)

    layer = maps[0].name
    page.get_by_label("keep head 2 of layer 1").click()
    page.get_by_role("heading", name="Answer without 1 head").wait_for()
    with masked_heads(run.model, {layer: [1]}):
        expected = dict(zip(run.predictor.classes, run.classify(text).scores[0].tolist(), strict=True))
    for name, share in expected.items():
        value = page.locator(f'.answers [data-value][data-name="{name}"]').get_attribute("data-value")
        assert abs(float(value) - share) < 1e-6
    page.get_by_role("button", name="Restore all", exact=True).click()
    page.get_by_role("heading", name="Answer", exact=True).wait_for()
