"""Our encoder and decoder without attention beside PyTorch's own recurrent layers with the same weights: logits, states
and gradients."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from neuropil.models.seq2seq import Seq2Seq, Seq2SeqConfig
from neuropil.parts.recurrence import Recurrence
from neuropil.protocols import PADDING

TORCHS: dict[str, Any] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
EMBEDDING, UNITS = 5, 6


def made(cell: str, layers: int, bidirectional: bool) -> Seq2Seq:
    config = Seq2SeqConfig.from_dict(
        {
            "cell": cell,
            "attention": "none",
            "embedding_size": EMBEDDING,
            "hidden_size": UNITS,
            "layers": layers,
            "bidirectional": bidirectional,
            "dropout": 0.0,
            "source_vocabulary_size": 11,
            "target_vocabulary_size": 9,
        }
    )
    model = Seq2Seq(config)
    for parameter in model.parameters():  # not the zeros that biases start as
        nn.init.normal_(parameter, std=0.5)
    return model


def torchs(ours: Recurrence, cell: str) -> nn.Module:
    """PyTorch's layers; what our cells have once, it has as a sum of two biases."""
    layers, inside = len(ours.forwards), {}
    theirs = TORCHS[cell](
        EMBEDDING, ours.cells[0].hidden_size, layers, batch_first=True, bidirectional=ours.bidirectional
    )
    for name, kind in (("", ours.forwards), ("_reverse", ours.backwards)):
        for layer, part in enumerate(kind):
            one: Any = part
            bias = torch.zeros_like(one.bias)
            if cell == "gru":
                bias[-one.hidden_size :] = one.state_bias
            weights = {
                "weight_ih": one.input_weight,
                "weight_hh": one.state_weight,
                "bias_ih": one.bias,
                "bias_hh": bias,
            }
            inside |= {f"{key}_l{layer}{name}": weight.detach() for key, weight in weights.items()}
    theirs.load_state_dict(inside)
    return theirs


def joined(h: Tensor, layers: int) -> Tensor:
    """Both directions of a layer beside each other, as our decoder begins with them."""
    return torch.cat(h.unflatten(0, (layers, -1)).unbind(1), -1)


class Theirs(nn.Module):
    def __init__(self, model: Seq2Seq):
        super().__init__()
        cell, self.layers = model.config.cell, model.config.layers
        self.encoder, self.decoder = torchs(model.encoder, cell), torchs(model.decoder.recurrence, cell)
        self.source, self.target, self.output = model.source, model.target, model.output

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        lengths = (source != PADDING).sum(1)
        packed = pack_padded_sequence(self.source(source), lengths, batch_first=True, enforce_sorted=False)
        _, last = self.encoder(packed)
        first = (
            tuple(joined(part, self.layers) for part in last) if isinstance(last, tuple) else joined(last, self.layers)
        )
        return self.output(self.decoder(self.target(target), first)[0])


@settings(deadline=None, max_examples=30)
@given(
    cell=st.sampled_from(sorted(TORCHS)),
    layers=st.integers(1, 3),
    bidirectional=st.booleans(),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    time=st.integers(1, 6),
    seed=st.integers(0, 2**16),
)
def test_logits_are_those_of_torchs_layers(
    cell: str, layers: int, bidirectional: bool, lengths: list[int], time: int, seed: int
):
    torch.manual_seed(seed)
    model, longest = made(cell, layers, bidirectional), max(lengths)
    source = torch.randint(4, 11, (len(lengths), longest)).masked_fill(
        torch.arange(longest) >= torch.tensor(lengths)[:, None], PADDING
    )
    target = torch.randint(4, 9, (len(lengths), time))
    torch.testing.assert_close(model(source, target), Theirs(model)(source, target), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("cell", sorted(TORCHS))
@pytest.mark.parametrize("bidirectional", [True, False])
def test_gradients_are_those_of_torchs_layers(cell: str, bidirectional: bool):
    torch.manual_seed(0)
    model = made(cell, 2, bidirectional).double()
    source, target = torch.randint(4, 11, (3, 6)), torch.randint(4, 9, (3, 5))
    source[1, 3:] = source[2, 5:] = PADDING
    theirs = Theirs(model).double()
    shared = [model.source.weight, model.target.weight, model.output.weight, model.output.bias]
    both = [torch.autograd.grad(net(source, target).square().sum(), shared) for net in (model, theirs)]
    for ours, other in zip(*both, strict=True):
        torch.testing.assert_close(ours, other)
