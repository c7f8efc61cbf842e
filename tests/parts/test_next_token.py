"""Truncated back-propagation through time: what is carried, what is cut, and what survives a kill."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from neuropil.data.corpus.streams import TextStreams
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.models.recurrent import CellName, RecurrentNetwork, RecurrentNetworkConfig
from neuropil.parts import next_token
from neuropil.parts.next_token import NextToken, NextTokenInWindow
from neuropil.protocols import Remembering
from neuropil.training.evaluation import evaluate
from neuropil.training.interruption import Interrupted
from neuropil.training.loop import TrainingConfig, fit

VOCABULARY = 12


def model(cell: CellName = "lstm", **options: Any) -> RecurrentNetwork:
    torch.manual_seed(0)
    return RecurrentNetwork(
        RecurrentNetworkConfig(
            cell=cell,
            hidden_size=8,
            embedding_size=6,
            vocabulary_size=VOCABULARY,
            output_size=VOCABULARY,
            shape="aligned",
            **options,
        )
    )


def tokens(count: int = 400) -> torch.Tensor:
    return torch.randint(4, VOCABULARY, (count,), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", "mingru"])
def test_pieces_with_a_carried_state_give_the_losses_of_the_whole(cell: CellName):
    network = model(cell, layers=2).eval()
    text = tokens(101)
    carried = evaluate(NextToken(network), TextStreams(text, 1, 7))
    with torch.no_grad():
        logits = network(text[:-1].unsqueeze(0))[0]
    assert carried["loss"] == pytest.approx(F.cross_entropy(logits, text[1:]).item(), abs=1e-6)
    assert carried["accuracy"] == pytest.approx((logits.argmax(-1) == text[1:]).float().mean().item())
    assert evaluate(NextToken(network, carry_state=False), TextStreams(text, 1, 7))["loss"] != pytest.approx(
        carried["loss"], abs=1e-4
    )


def test_every_token_of_a_padded_last_row_weighs_the_same():
    network = model().eval()
    text = tokens(50)
    (batch,) = TextStreams(text, 3, 100).epoch(0)
    losses = NextToken(network).metrics(batch)["loss"]
    assert losses.shape == (49,)
    torch.testing.assert_close(NextToken(network).loss(batch), losses.mean())


def test_no_gradient_goes_back_beyond_its_piece():
    network = model("gru")
    learner = NextToken(network)
    first, second, *_ = TextStreams(tokens(), 2, 5, seed=0).epoch(0)
    learner.loss(first)
    learner.loss(second).backward()
    seen = network.embedding.weight.grad
    assert seen is not None
    touched = set(seen.abs().sum(1).nonzero().flatten().tolist())
    assert touched == set(second["input"].flatten().tolist())


def test_a_row_that_begins_forgets_and_the_others_go_on():
    network = model().eval()
    learner = NextToken(network)
    first, second, *_ = TextStreams(tokens(), 2, 5, seed=0).epoch(0)
    learner.loss(first)
    mixed = learner.loss(dict(second) | {"begins": torch.tensor([True, False])})
    with torch.no_grad():
        fresh = F.cross_entropy(network(second["input"][:1])[0], second["target"][0])
        whole = network(torch.cat([first["input"], second["input"]], 1)[1:])[0, 5:]
    torch.testing.assert_close(mixed, (fresh + F.cross_entropy(whole, second["target"][1])) / 2)


class StoppedAt(NextToken):
    """Sends its own process the signal of Ctrl-C in the middle of an update."""

    left = -1

    def loss(self, batch):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return super().loss(batch)


@pytest.mark.parametrize("cell", ["lstm", "mingru"])
def test_a_run_that_stops_in_the_middle_of_a_text_comes_out_as_if_it_had_not(tmp_path: Path, cell: CellName):
    config = TrainingConfig(epochs=2, accumulate=2)
    train, validation = TextStreams(tokens(), 4, 6, seed=0), TextStreams(tokens(60), 2, 6)

    def learn(folder: Path, stop: int) -> dict[str, torch.Tensor]:
        learner = StoppedAt(model(cell, dropout=0.2))
        learner.left = stop
        fit(learner, train, validation, config, seed=0, folder=folder, show_progress=False)
        return learner.model.state_dict()

    whole = learn(tmp_path / "whole", -1)
    with pytest.raises(Interrupted):
        learn(tmp_path / "cut", 9)
    resumed = learn(tmp_path / "cut", -1)
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_what_is_carried_can_be_saved_and_recalled():
    first, second, *_ = TextStreams(tokens(), 2, 5, seed=0).epoch(0)
    learner, other = NextToken(model()), NextToken(model())
    assert isinstance(learner, Remembering)
    assert learner.memory() == {}
    other.recall({})
    learner.loss(first)
    assert set(learner.memory()) == {"0.h", "0.c"}
    other.recall(learner.memory())
    assert torch.equal(learner.loss(second), other.loss(second))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("at_once", [1, 70, 2**22])
def test_windows_have_the_losses_of_all_logits_at_once(tied: bool, at_once: int, monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    network = GPT2(
        GPT2Config(width=8, heads=2, layers=1, feed_forward=8, context=9, vocabulary_size=VOCABULARY, tied=tied)
    ).eval()
    monkeypatch.setattr(next_token, "LOGITS_AT_ONCE", at_once)
    learner = NextTokenInWindow(network)
    batch = {"input": torch.randint(VOCABULARY, (3, 9)), "target": torch.randint(VOCABULARY, (3, 9))}
    scored = torch.rand(3, 9) < 0.5
    logits = network(batch["input"])
    expected = F.cross_entropy(logits.flatten(0, 1), batch["target"].flatten())
    torch.testing.assert_close(learner.loss(batch), expected)
    ours = torch.autograd.grad(learner.loss(batch), list(network.parameters()))
    for gradient, wanted in zip(ours, torch.autograd.grad(expected, list(network.parameters())), strict=True):
        torch.testing.assert_close(gradient, wanted)
    metrics = learner.metrics(batch | {"scored": scored})
    torch.testing.assert_close(
        metrics["loss"], F.cross_entropy(logits[scored], batch["target"][scored], reduction="none")
    )
    assert torch.equal(metrics["accuracy"], (logits[scored].argmax(-1) == batch["target"][scored]).float())
