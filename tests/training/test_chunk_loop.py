"""The loop around learners that make their own updates."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from neuropil.errors import DivergedError
from neuropil.protocols import ChunkLearner, ChunkLosses
from neuropil.training import chunk_loop
from neuropil.training.chunk_loop import ChunkTrainingConfig, fit_chunks, measure_chunks
from neuropil.training.interruption import Interrupted, StopRequest


class Counting:
    """A learner whose weight remembers which chunks it was given, and with which rates."""

    def __init__(self, chunks: int = 4, *, stop_after: int | None = None, loss: float = 2.0):
        self.model, self.chunks, self.stop_after, self.loss = nn.Linear(1, 1), chunks, stop_after, loss
        self.calls: list[tuple[int, int, list[float]]] = []
        with torch.no_grad():
            self.model.weight.zero_()

    def __len__(self) -> int:
        return self.chunks

    @torch.no_grad()
    def learn(self, epoch: int, first: int, rates: Sequence[float]) -> ChunkLosses:
        self.calls.append((epoch, first, list(rates)))
        for chunk, rate in enumerate(rates, first):
            self.model.weight.mul_(1.5).add_(rate * (1 + chunk) + epoch)
        if self.stop_after is not None and len(self.calls) >= self.stop_after:
            STOP[-1].requested = True
        losses = [self.loss * (1 + chunk) for chunk in range(first, first + len(rates))]
        return ChunkLosses(losses, 10 * len(rates), 100 * len(rates))

    def metrics(self) -> Mapping[str, float]:
        return {"loss": float(self.model.weight.detach())}


STOP: list[StopRequest] = []


@pytest.fixture(autouse=True)
def noted(monkeypatch: pytest.MonkeyPatch) -> None:
    enter = StopRequest.__enter__
    monkeypatch.setattr(StopRequest, "__enter__", lambda self: STOP.append(self) or enter(self))


def fitted(learner: Counting, folder: Path, **options: Any) -> list[dict[str, float]]:
    return fit_chunks(learner, ChunkTrainingConfig(**options), folder=folder, title="test", show_progress=False)


def test_every_chunk_is_learned_from_once_in_each_pass_with_rates_that_fall_linearly(tmp_path: Path):
    learner = Counting()
    assert isinstance(learner, ChunkLearner)
    fitted(learner, tmp_path, epochs=2, learning_rate=0.8, final_learning_rate=0.0)
    rates = [rate for _, _, each in learner.calls for rate in each]
    assert rates == pytest.approx([0.8 - 0.1 * step for step in range(8)])
    chunks = [(epoch, first + place) for epoch, first, each in learner.calls for place in range(len(each))]
    assert chunks == [(epoch, chunk) for epoch in range(2) for chunk in range(4)]


def test_the_loss_of_a_pass_is_the_mean_over_all_its_examples(tmp_path: Path):
    rows = fitted(Counting(), tmp_path, epochs=2)
    train = [row for row in rows if row["kind"] == "train"]
    assert [row["loss"] for row in train] == [(2 + 4 + 6 + 8) / 40] * 2
    assert [(row["step"], row["epoch"]) for row in train] == [(4, 1.0), (8, 2.0)]
    assert [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == rows
    assert [row["kind"] for row in rows] == ["train", "validation"] * 2


def test_no_bit_of_a_loss_depends_on_how_many_chunks_a_call_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    together = fitted(Counting(9, loss=0.1), tmp_path / "together", epochs=1)
    monkeypatch.setattr(chunk_loop, "SECONDS_PER_CALL", 1e-12)
    learner = Counting(9, loss=0.1)
    alone = fitted(learner, tmp_path / "alone", epochs=1)
    assert len(learner.calls) == 9
    assert [row["loss"] for row in alone] == [row["loss"] for row in together]


def test_a_run_that_was_stopped_goes_on_to_the_same_weights(tmp_path: Path):
    whole = Counting(7)
    expected = fitted(whole, tmp_path / "whole", epochs=3)
    with pytest.raises(Interrupted) as stopped:
        fitted(Counting(7, stop_after=3), tmp_path / "parts", epochs=3)
    assert stopped.value.folder == tmp_path / "parts"
    resumed = Counting(7)
    rows = fitted(resumed, tmp_path / "parts", epochs=3)
    assert torch.equal(resumed.model.weight, whole.model.weight)
    assert [row["loss"] for row in rows] == [row["loss"] for row in expected]


def test_a_finished_run_learns_no_more_and_has_its_weights(tmp_path: Path):
    first, again = Counting(), Counting()
    rows = fitted(first, tmp_path, epochs=1)
    assert fitted(again, tmp_path, epochs=1) == rows
    assert again.calls == []
    assert torch.equal(again.model.weight, first.model.weight)


def test_a_loss_that_is_not_finite_ends_the_run_with_a_sentence(tmp_path: Path):
    with pytest.raises(DivergedError) as error:
        fitted(Counting(loss=float("nan")), tmp_path)
    assert str(error.value).startswith(
        "the loss must stay finite, but got nan at step 1: lower the learning rate (0.02"
    )
    assert str(error.value).endswith("at that step); no checkpoint was written yet.")


def test_a_time_limit_may_end_inside_a_pass(tmp_path: Path):
    learner = Counting()
    rows = fitted(learner, tmp_path, chunks=6, epochs=2, learning_rate=0.6, final_learning_rate=0.0)
    rates = [rate for _, _, each in learner.calls for rate in each]
    assert rates == pytest.approx([0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
    train = [row for row in rows if row["kind"] == "train"]
    assert [(row["step"], row["epoch"]) for row in train] == [(4, 1.0), (6, 1.5)]
    assert [row["loss"] for row in train] == [(2 + 4 + 6 + 8) / 40, (2 + 4) / 20]


def test_a_learner_learns_nothing_while_its_speed_is_measured():
    learner = Counting(20)
    before = learner.model.weight.detach().clone()
    found = measure_chunks(learner, most_seconds=10)
    assert torch.equal(learner.model.weight, before)
    assert [len(rates) for _, _, rates in learner.calls] == [1, 1, 2, 4, 8, 16, 20]
    assert found.read == pytest.approx(100 / found.seconds)


def test_a_watch_is_told_after_each_pass(tmp_path: Path):
    told: list[tuple[str, float]] = []
    shown = {"title": "test", "show_progress": False}
    watch = lambda rows, share: told.append((rows[-1]["kind"], share))  # noqa: E731
    fit_chunks(Counting(), ChunkTrainingConfig(epochs=4), folder=tmp_path, **shown, watch=watch)
    assert told == [("validation", share) for share in (0.25, 0.5, 0.75, 1.0)]
