"""The table of what a model would say after each of its layers."""

import pytest
import torch

from neuropil.errors import InputError
from neuropil.inspection.pictures.logit_lens import logit_lens

LIKELIEST = [["a", "b"], [" the", "b"], ["cat", "$x$"]]


def test_every_cell_says_what_is_likeliest_and_how_likely():
    shares = torch.tensor([[0.1, 0.2], [0.3, 0.9], [0.75, 1.0]])
    axes = logit_lens(shares, LIKELIEST, ["It", " is"]).axes[0]
    texts = {(int(text.get_position()[0]), int(text.get_position()[1])): text for text in axes.texts}
    assert [texts[0, layer].get_text() for layer in range(3)] == ["a\n10 %", "␣the\n30 %", "cat\n75 %"]
    assert texts[1, 2].get_text() == "$x$\n100 %"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["embedding", "block 1", "block 2"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["It", "␣is"]
    assert texts[0, 2].get_fontweight() == "bold"
    assert texts[0, 0].get_fontweight() == "normal"


def test_the_last_layer_is_on_top():
    low, high = logit_lens(torch.rand(3, 2), LIKELIEST, ["a", "b"]).axes[0].get_ylim()
    assert low < high


def test_a_text_without_tokens_is_refused():
    with pytest.raises(InputError) as error:
        logit_lens(torch.zeros(3, 0), [[], [], []], [])
    assert str(error.value) == "a picture of layers needs at least one token, but got none."
