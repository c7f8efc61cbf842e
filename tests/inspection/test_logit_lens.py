"""The logit lens: each row is the model cut off after that block; the last is the model's answer, which looking does
not change."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.inspection import logit_lens as module
from neuropil.inspection.logit_lens import Lens, logit_lens
from neuropil.models.gpt2 import GPT2, GPT2Config

CONFIG = GPT2Config(width=16, heads=2, layers=3, feed_forward=20, context=12, vocabulary_size=23)


def made(tied: bool = True) -> GPT2:
    torch.manual_seed(0)
    model = GPT2(GPT2Config.from_dict(CONFIG.to_dict() | {"tied": tied}))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.eval()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_each_row_is_what_a_model_with_so_many_blocks_would_say(tied: bool, layer: int):
    model, tokens = made(tied), torch.randint(23, (9,))
    lens = logit_lens(model, tokens, best=4)
    shorter = made(tied)
    shorter.blocks = nn.ModuleList(list(shorter.blocks)[:layer])  # type: ignore[assignment]
    shares = shorter(tokens[None])[0].softmax(-1)
    best = shares.topk(4)
    assert torch.equal(lens.tokens[layer], best.indices)
    assert torch.allclose(lens.shares[layer], best.values, atol=1e-6)


def test_looking_changes_neither_the_answer_nor_the_model():
    model, tokens = made(), torch.randint(23, (9,))
    model.train()
    before = model.eval()(tokens[None])
    model.train()
    logit_lens(model, tokens)
    assert model.training
    assert torch.equal(model.eval()(tokens[None]), before)
    assert not any(block._forward_hooks or block._forward_pre_hooks for block in model.blocks)


def test_a_long_text_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch):
    model, tokens = made(), torch.randint(23, (11,))
    whole = logit_lens(model, tokens)
    monkeypatch.setattr(module, "LOGITS_AT_ONCE", 60)
    pieces = logit_lens(model, tokens)
    assert torch.equal(whole.tokens, pieces.tokens)
    assert torch.allclose(whole.shares, pieces.shares, atol=1e-6)


def test_what_is_settled_stays_so_to_the_end():
    first = torch.tensor([[5, 1, 2, 9], [5, 3, 2, 9], [5, 3, 4, 2], [5, 3, 7, 9]])
    lens = Lens(first[:, :, None], F.one_hot(first, 10).float()[:, :, :1])
    assert lens.settled().tolist() == [0, 1, 3, 3]


def test_no_more_tokens_are_named_than_there_are():
    assert logit_lens(made(), torch.tensor([1, 2]), best=100).tokens.shape == (4, 2, 23)


def test_a_text_of_nothing_is_refused():
    with pytest.raises(InputError) as error:
        logit_lens(made(), torch.zeros(0, dtype=torch.int64))
    assert str(error.value) == "a text to look into must have one token or more, but got none."
