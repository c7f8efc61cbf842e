"""Finding hidden tokens: only the chosen places count."""

import torch
from torch.nn import functional as F

from neuropil.models.bert import BERTConfig, MaskedBERT
from neuropil.parts.masked_token import MaskedToken


def test_the_loss_is_the_cross_entropy_at_the_chosen_places():
    torch.manual_seed(0)
    model = MaskedBERT(
        BERTConfig(width=8, heads=2, layers=1, feed_forward=8, context=9, vocabulary_size=20, pooler=False)
    ).eval()
    learner = MaskedToken(model, model.bert, model.logits)
    batch = {"input": torch.randint(20, (3, 9)), "target": torch.randint(20, (3, 9)), "scored": torch.rand(3, 9) < 0.3}
    logits, target = model(batch["input"])[batch["scored"]], batch["target"][batch["scored"]]
    torch.testing.assert_close(learner.loss(batch), F.cross_entropy(logits, target))
    metrics = learner.metrics(batch)
    torch.testing.assert_close(metrics["loss"], F.cross_entropy(logits, target, reduction="none"))
    assert torch.equal(metrics["accuracy"], (logits.argmax(-1) == target).float())
    assert set(learner.phases()[0].parameters) == set(dict(model.named_parameters()))
