"""Sentences about a game are made from its numbers."""

import pytest
import torch

from neuropil.data.examples.dataset import Examples, Schema
from neuropil.inspection.report.gan import gan_sections
from neuropil.inspection.report.page import Table, Text
from neuropil.models.gan import GAN, AdversarialGame, GANConfig


def words_of(generator_bias: float, spread: float) -> tuple[str, dict[str, float]]:
    """Of a generator whose outputs are its noise, scaled and moved, beside examples from N(0, 1)."""
    torch.manual_seed(0)
    model = GAN(GANConfig(shape=(2,), hidden_sizes=(), latent_size=2))
    examples = torch.randn(200, 2)
    with torch.no_grad():
        model.unit_range.fit(examples)
        span = model.unit_range.high - model.unit_range.low
        model.get_parameter("generator.decoder.output.weight").copy_(torch.diag(spread / span))
        model.get_parameter("generator.decoder.output.bias").copy_((generator_bias - model.unit_range.low) / span)
        model.discriminator.output.weight.zero_()
    test = Examples(examples, torch.zeros(200).long(), Schema(kind="table", shape=(2,), classes=()), "made")
    game = gan_sections(model, AdversarialGame(model), test)[0]
    text, table = game.blocks
    assert isinstance(text, Text)
    assert isinstance(table, Table)
    return text.text, {str(name): float(value) for name, value in table.rows}


def test_a_generator_that_makes_the_data_has_no_fault():
    words, measured = words_of(0.0, 1.0)
    assert words == "The game shows none of the usual faults."
    assert measured["energy distance"] < 0.02


def test_samples_that_are_all_alike_are_named_with_the_cure():
    words, measured = words_of(0.0, 0.1)
    share = measured["sample spread"]
    assert share == pytest.approx(0.1, abs=0.02)
    assert words == (
        f"Mode collapse: samples are only {share:.0%} as far apart as real examples. The cure: train for longer, or "
        "raise --r1, or --ratio for a discriminator that keeps up."
    )


def test_a_discriminator_that_does_not_see_the_difference_is_weak():
    words, _ = words_of(1.0, 1.0)
    assert words.startswith("Weak discriminator: the energy distance is 0.")
    assert "but the discriminator's loss 1.386 is nearly chance." in words
