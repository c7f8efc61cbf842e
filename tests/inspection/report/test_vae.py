"""Sentences about a code are made from its numbers."""

import torch

from neuropil.data.examples.embedded import load_digits
from neuropil.inspection.report.page import Picture, Table, Text
from neuropil.inspection.report.vae import vae_sections
from neuropil.models.vae import VAE, VAEConfig


def test_dimensions_are_listed_by_what_they_say_and_collapsed_ones_are_named():
    """μ = (2, 0, 1) and σ = 1 for every input: KL = ½ μ²."""
    torch.manual_seed(0)
    model = VAE(VAEConfig(hidden_sizes=(4,), latent_size=3))
    digits = load_digits()
    model.unit_range.fit(digits.inputs)
    with torch.no_grad():
        for layer in (model.mean, model.log_variance):
            layer.weight.zero_()
            layer.bias.zero_()
        model.mean.bias.copy_(torch.tensor([2.0, 0.0, 1.0]))
    model.train()
    dimensions, *others = vae_sections(model, digits)
    text, table = dimensions.blocks
    assert isinstance(text, Text)
    assert isinstance(table, Table)
    assert text.text == (
        "The code of a test example says 2.5 nats about it on average, in 2 of 3 dimensions. Collapsed, so that the "
        "decoder ignores them: 2."
    )
    assert list(table.rows) == [[1, 2.0, ""], [3, 0.5, ""], [2, 0.0, "collapsed"]]
    assert [section.title for section in others] == ["Codes", "Latent grid", "Interpolation"]
    assert all(isinstance(section.blocks[1], Picture) for section in others)
    assert model.training
