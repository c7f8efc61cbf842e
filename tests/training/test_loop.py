"""The loop on real digits: what it promises of seeds, checkpoints, stopping and diagnosis."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from neuropil.errors import DivergedError, InputError
from neuropil.metrics import find_metric
from neuropil.parts.objectives import Classification
from neuropil.protocols import Batch, Batches, Phase
from neuropil.training import loop
from neuropil.training.config import TrainingConfig
from neuropil.training.distributed import agreement
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row, read_history
from neuropil.training.interruption import Interrupted
from neuropil.training.loop import fit
from neuropil.training.optimizers import OPTIMIZERS
from neuropil.training.weights import read_tensors
from training.learners import DigitBatches, DigitLearner, digits, same_weights, weights_of

TRAIN, VALIDATION = DigitBatches(0, 520, seed=3), DigitBatches(600, 800)


def train(
    folder: Path,
    config: TrainingConfig,
    learner: DigitLearner | None = None,
    seed: int = 0,
    train: Batches = TRAIN,
    validation: Batches | None = VALIDATION,
):
    learner = learner or DigitLearner()
    rows = fit(learner, train, validation, config, seed=seed, folder=folder, show_progress=False)
    return learner, rows


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_learns_the_digits(optimizer, tmp_path: Path):
    rate = 0.2 if optimizer == "sgd" else 0.05 if optimizer == "momentum" else 3e-3
    _, rows = train(tmp_path, TrainingConfig(epochs=40, optimizer=optimizer, learning_rate=rate))
    assert [row for row in rows if row["kind"] == "validation"][-1]["accuracy"] > 0.85


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path: Path):
    config = TrainingConfig(epochs=2)
    first, second = (weights_of(train(tmp_path / name, config)[0]) for name in ("a", "b"))
    assert same_weights(first, second)
    assert not same_weights(first, weights_of(train(tmp_path / "c", config, seed=1)[0]))


class EnoughError(Exception):
    pass


def test_a_watch_is_told_of_each_validation_and_what_it_raises_ends_the_run(tmp_path: Path):
    told: list[tuple[int, float]] = []

    def watch(rows: Sequence[Row], share: float) -> None:
        assert rows[-1]["kind"] == "validation"
        told.append((sum(row["kind"] == "validation" for row in rows), share))
        if len(told) == 3:
            raise EnoughError

    options = {"seed": 0, "folder": tmp_path, "show_progress": False, "watch": watch}
    with pytest.raises(EnoughError):
        fit(DigitLearner(), TRAIN, VALIDATION, TrainingConfig(epochs=4), **options)
    assert told == [(1, 0.25), (2, 0.5), (3, 0.75)]
    assert [row["kind"] for row in read_history(tmp_path / "metrics.jsonl")].count("validation") == 3


def test_training_leaves_the_callers_random_numbers_alone(tmp_path: Path):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    train(tmp_path, TrainingConfig(epochs=1))
    assert torch.equal(torch.rand(3), expected)


class Scheduled(DigitLearner):
    """Writes down what it is told before each update."""

    def __init__(self):
        super().__init__()
        self.shares: list[float] = []

    def begin_update(self, share: float) -> None:
        self.shares.append(share)


def test_a_scheduled_learner_is_told_the_share_of_the_run_that_is_done(tmp_path: Path):
    learner = Scheduled()
    train(tmp_path, TrainingConfig(epochs=2, accumulate=2), learner)
    updates = 2 * 6  # eleven batches a pass, two at a time
    assert learner.shares == pytest.approx([update / updates for update in range(updates)])


def test_a_scheduled_learner_of_a_run_with_a_time_limit_hears_of_time(tmp_path: Path):
    learner = Scheduled()
    train(tmp_path, TrainingConfig(minutes=0.005), learner)
    assert learner.shares == sorted(learner.shares)
    assert 0 <= learner.shares[0] <= learner.shares[-1] <= 1


class Watchful(DigitLearner):
    def warning(self, metrics: Mapping[str, float]) -> str:
        return f"high loss: it is {metrics['loss']:.2f}; train for longer."


def test_a_fault_is_named_once_with_its_cure_and_not_at_the_beginning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rows = fit(Watchful(), TRAIN, VALIDATION, TrainingConfig(epochs=8), seed=0, folder=tmp_path, show_progress=True)
    said = [line for line in capsys.readouterr().err.splitlines() if "high loss" in line]
    losses = [row["loss"] for row in rows if row["kind"] == "validation"]
    assert said == [f"training: high loss: it is {losses[1]:.2f}; train for longer."]


class StoppedAt(DigitLearner):
    """Sends its own process the signal of Ctrl-C in the middle of an update."""

    def __init__(self, update: int):
        super().__init__()
        self.updates_left = update

    def loss(self, batch: Batch) -> torch.Tensor:
        self.updates_left -= 1
        if self.updates_left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return super().loss(batch)


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "adamw", "average": 0.9},
        {"optimizer": "momentum", "accumulate": 3, "clip": 0.5},
        {"optimizer": "rmsprop", "schedule": "inverse_sqrt", "keep": "last"},
    ],
    ids=lambda options: options["optimizer"],
)
@pytest.mark.parametrize("update", [1, 11, 17])
def test_an_interrupted_run_resumes_to_the_same_bits(update: int, options: dict, tmp_path: Path):
    config = TrainingConfig(epochs=3, **options)
    whole, rows = train(tmp_path / "whole", config)
    with pytest.raises(Interrupted):
        train(tmp_path / "cut", config, StoppedAt(update))
    resumed, resumed_rows = train(tmp_path / "cut", config)
    assert same_weights(weights_of(whole), weights_of(resumed))
    assert (tmp_path / "whole/model.safetensors").read_bytes() == (tmp_path / "cut/model.safetensors").read_bytes()
    timeless = [
        [{key: value for key, value in row.items() if key != "seconds"} for row in part]
        for part in (rows, resumed_rows)
    ]
    assert timeless[0] == timeless[1]


def test_a_finished_run_is_left_as_it_is(tmp_path: Path):
    config = TrainingConfig(epochs=1)
    learner, _ = train(tmp_path, config)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    again, _ = train(tmp_path, config, DigitLearner(seed=5))
    assert same_weights(weights_of(learner), weights_of(again))
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_accumulated_batches_make_the_update_of_one_large_batch(tmp_path: Path):
    small, large = DigitBatches(0, 400, size=50), DigitBatches(0, 400, size=200)
    config = TrainingConfig(epochs=2, optimizer="sgd", learning_rate=0.1, schedule="constant", keep="last")
    plain, _ = train(tmp_path / "large", config, DigitLearner(dropout=0), train=large)
    grouped, rows = train(tmp_path / "small", config.override(accumulate=4), DigitLearner(dropout=0), train=small)
    assert rows[-1]["step"] == 4
    for name, weight in weights_of(plain).items():
        torch.testing.assert_close(weights_of(grouped)[name], weight, rtol=1e-5, atol=1e-6)


def test_each_example_of_an_update_counts_once_when_the_last_batch_is_smaller(tmp_path: Path):
    config = TrainingConfig(epochs=1, optimizer="sgd", learning_rate=0.5, schedule="constant", warmup=0, keep="last")
    whole, (row, *_) = train(tmp_path / "a", config, DigitLearner(dropout=0), train=DigitBatches(0, 52, size=52))
    unequal = DigitBatches(0, 52, size=50)
    parts, (same, *_) = train(tmp_path / "b", config.override(accumulate=2), DigitLearner(dropout=0), train=unequal)
    assert same["loss"] == pytest.approx(row["loss"], rel=1e-6)
    for name, weight in weights_of(whole).items():
        torch.testing.assert_close(weights_of(parts)[name], weight, rtol=1e-5, atol=1e-6)


class WeightedDigits(DigitBatches):
    """Digits of which each counts as much as its class and one more."""

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        for batch in super().epoch(number, start):
            yield {**batch, "weight": batch["target"] + 1.0}


def test_weights_sum_across_accumulated_batches(tmp_path: Path):
    config = TrainingConfig(epochs=1, optimizer="sgd", learning_rate=0.5, schedule="constant", warmup=0, keep="last")
    learners = [Classification(DigitLearner(dropout=0).model) for _ in range(3)]
    batches = [WeightedDigits(0, 52, size=52), WeightedDigits(0, 52, size=10), DigitBatches(0, 52, size=52)]
    rows = [
        fit(learner, train, None, config.override(accumulate=6), seed=0, folder=new, show_progress=False)[0]
        for learner, train, new in zip(learners, batches, folders(tmp_path, 3), strict=True)
    ]
    assert rows[1]["loss"] == pytest.approx(rows[0]["loss"], rel=1e-6)
    assert rows[2]["loss"] != pytest.approx(rows[0]["loss"], rel=1e-3)
    whole, parts = (dict(learner.model.named_parameters()) for learner in learners[:2])
    for name, weight in whole.items():
        torch.testing.assert_close(parts[name], weight, rtol=1e-5, atol=1e-6)


def folders(parent: Path, count: int) -> list[Path]:
    made = [parent / str(number) for number in range(count)]
    for folder in made:
        folder.mkdir()
    return made


def test_a_clip_of_zero_is_refused():
    with pytest.raises(InputError, match=r"clip must be above 0, but got 0\.0\.$"):
        TrainingConfig(clip=0.0)


def test_a_clipped_update_is_no_longer_than_the_limit(tmp_path: Path):
    learner = DigitLearner()
    before = weights_of(learner)
    config = TrainingConfig(
        epochs=1,
        optimizer="sgd",
        learning_rate=1,
        schedule="constant",
        warmup=0,
        clip=0.01,
        weight_decay=0,
        keep="last",
    )
    train(tmp_path, config, learner, train=DigitBatches(0, 50))
    moved = sum(float((weights_of(learner)[name] - before[name]).square().sum()) for name in before) ** 0.5
    assert moved == pytest.approx(0.01, rel=1e-3)


def test_the_best_weights_are_kept_and_the_last_ones_on_request(tmp_path: Path):
    wild = {"epochs": 8, "optimizer": "sgd", "learning_rate": 3.0, "schedule": "constant", "monitor": "accuracy"}
    best, rows = train(tmp_path / "best", TrainingConfig(**wild))
    accuracies = [row["accuracy"] for row in rows if row["kind"] == "validation"]
    assert evaluate(best, VALIDATION)["accuracy"] == max(accuracies)
    last, rows = train(tmp_path / "last", TrainingConfig(**wild, keep="last"))
    assert (
        evaluate(last, VALIDATION)["accuracy"] == [row["accuracy"] for row in rows if row["kind"] == "validation"][-1]
    )


def test_early_stopping_waits_for_its_patience(tmp_path: Path):
    class Worsening(DigitLearner):
        calls = 0

        def metrics(self, batch: Batch) -> dict[str, torch.Tensor]:
            Worsening.calls += 1
            return {"error": torch.full((len(batch["input"]),), float(abs(Worsening.calls - 2)))}

    validation = DigitBatches(600, 650)
    _, rows = train(
        tmp_path, TrainingConfig(epochs=50, monitor="error", patience=3), Worsening(), validation=validation
    )
    assert [row["error"] for row in rows if row["kind"] == "validation"] == [1, 0, 1, 2, 3]


def test_early_stopping_leaves_the_best_weights_whatever_is_kept_otherwise(tmp_path: Path):
    wild = {"epochs": 30, "optimizer": "sgd", "learning_rate": 3.0, "schedule": "constant", "monitor": "accuracy"}
    learner, rows = train(tmp_path, TrainingConfig(**wild, keep="last", patience=2))
    accuracies = [row["accuracy"] for row in rows if row["kind"] == "validation"]
    assert evaluate(learner, VALIDATION)["accuracy"] == max(accuracies) > accuracies[-1]


def test_minutes_end_a_run_inside_an_epoch_and_validate_it(tmp_path: Path):
    _, rows = train(
        tmp_path, TrainingConfig(minutes=0.01, schedule="cosine"), train=DigitBatches(0, 1700, size=1, seed=0)
    )
    assert 0.4 < rows[-1]["seconds"] < 10
    assert rows[-1]["kind"] == "validation"
    assert rows[-1]["epoch"] != int(rows[-1]["epoch"])


@pytest.mark.parametrize(("validation_seconds", "least", "most"), [(0.0, 17, 21), (12.0, 4, 5), (90.0, 1, 1)])
def test_a_time_limit_is_validated_several_times_and_seldom_where_that_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, validation_seconds: float, least: int, most: int
):
    now = 0.0

    def monotonic() -> float:
        nonlocal now
        now += 0.1
        return now

    def slow_evaluate(learner: DigitLearner, batches: Batches) -> dict[str, float]:
        nonlocal now
        now += validation_seconds
        return evaluate(learner, batches)

    for module in (loop, agreement):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=monotonic))
    monkeypatch.setattr(loop, "evaluate", slow_evaluate)
    monkeypatch.setattr(loop, "evaluation_seconds", lambda learner, batches: validation_seconds)
    _, rows = train(tmp_path, TrainingConfig(minutes=5.0, checkpoint_seconds=1e9))
    steps = [row["step"] for row in rows if row["kind"] == "validation"]
    assert least <= len(steps) <= most
    assert len(set(steps)) == len(steps)
    assert steps[-1] == rows[-1]["step"]


def test_the_time_that_a_limit_leaves_for_training_is_what_ends_it(tmp_path: Path):
    _, rows = train(tmp_path, TrainingConfig(minutes=60.0, seconds=0.2))
    assert rows[-1]["seconds"] < 10


def test_without_validation_the_last_weights_are_kept(tmp_path: Path):
    _, rows = train(tmp_path, TrainingConfig(epochs=1), validation=None)
    assert {row["kind"] for row in rows} == {"train"}
    assert (tmp_path / "model.safetensors").exists()


def test_a_loss_that_is_no_number_stops_with_a_diagnosis_and_keeps_the_last_good_checkpoint(tmp_path: Path):
    config = TrainingConfig(
        epochs=3, optimizer="sgd", learning_rate=1e30, schedule="constant", warmup=0, checkpoint_seconds=0
    )
    with pytest.raises(DivergedError) as error:
        train(tmp_path, config)
    message = str(error.value)
    assert message.startswith("the loss of phase 'classify' must stay finite, but got ")
    assert "the largest gradient norms of the update before were" in message
    assert message.endswith(f"; the last good checkpoint is in {tmp_path}.")
    tensors, facts = read_tensors(tmp_path / "checkpoint.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())
    assert facts["state"]["step"] >= 1


class BreaksAt(DigitLearner):
    """Its loss stays finite, and the gradient of one update is not a number."""

    def __init__(self, update: int):
        super().__init__()
        self.updates_left = update

    def loss(self, batch: Batch) -> torch.Tensor:
        self.updates_left -= 1
        loss = super().loss(batch)
        return loss + (0 * loss).sqrt() if self.updates_left == 0 else loss


@pytest.mark.parametrize(("keep", "validation"), [("last", VALIDATION), ("best", None), ("best", VALIDATION)])
def test_a_last_update_that_is_not_finite_does_not_finish_the_run(keep: Any, validation: Any, tmp_path: Path):
    config = TrainingConfig(epochs=2, keep=keep, checkpoint_seconds=0)
    with pytest.raises(DivergedError, match="got nan at step 22, where 4 of 4 weights are not finite any more"):
        train(tmp_path, config, BreaksAt(22), validation=validation)
    tensors, facts = read_tensors(tmp_path / "checkpoint.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())
    assert facts["state"]["step"] == 21
    assert not facts["state"]["finished"]


class Undefined(DigitLearner):
    """Its first validations are not numbers."""

    def __init__(self, batches: int):
        super().__init__()
        self.undefined = batches

    def metrics(self, batch: Batch) -> dict[str, torch.Tensor]:
        self.undefined -= 1
        metrics = super().metrics(batch)
        return {**metrics, "loss": metrics["loss"] * torch.nan} if self.undefined >= 0 else metrics


def test_a_validation_that_is_no_number_is_never_the_best(tmp_path: Path):
    learner, rows = train(tmp_path, TrainingConfig(epochs=3), Undefined(len(VALIDATION)))
    losses = [row["loss"] for row in rows if row["kind"] == "validation"]
    assert losses[0] != losses[0]
    assert evaluate(learner, VALIDATION)["loss"] == min(losses[1:])


def test_a_run_whose_validations_are_all_no_numbers_says_so(tmp_path: Path):
    with pytest.raises(DivergedError) as error:
        train(tmp_path, TrainingConfig(epochs=2), Undefined(2 * len(VALIDATION)))
    assert str(error.value) == (
        "the validation metric 'loss' must be a number, but got nan in every validation: "
        "monitor another metric or lower the learning rate."
    )


def test_the_diagnosis_names_the_first_layer_that_is_not_finite(tmp_path: Path):
    class Overflowing(DigitLearner):
        def loss(self, batch: Batch) -> torch.Tensor:
            return super().loss({"input": batch["input"] * 1e39, "target": batch["target"]})

    learner = Overflowing()
    with pytest.raises(DivergedError) as error:
        train(tmp_path, TrainingConfig(epochs=1, learning_rate=0.5), learner)
    assert str(error.value) == (
        "the loss of phase 'classify' must stay finite, but got nan at step 0, where 0 is the first layer whose "
        "output is not finite; no update was made before: lower the learning rate (0.5 at that step) or clip "
        "gradients (--clip 1); no checkpoint had been written yet."
    )


class TwoPhases(DigitLearner):
    """The lower layer and the upper one, each with its own optimiser, rate and cadence, on the same loss."""

    def __init__(self, stop: int = -1, dropout: float = 0.2, **upper: Any):
        super().__init__(dropout=dropout)
        self.upper, self.left, self.order = upper, stop, list[str]()

    def phases(self) -> list[Phase]:
        names = dict(self.model.named_parameters())
        lower = {name: parameter for name, parameter in names.items() if name.startswith("0.")}
        upper = {name: parameter for name, parameter in names.items() if name.startswith("3.")}
        return [Phase("lower", lower, self.noting("lower")), Phase("upper", upper, self.noting("upper"), **self.upper)]

    def noting(self, phase: str):
        def loss(batch: Batch) -> torch.Tensor:
            self.order.append(phase)
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGINT)
            return self.loss(batch)

        return loss


def test_two_phases_take_turns_and_log_their_own_losses(tmp_path: Path):
    learner = TwoPhases()
    _, rows = train(tmp_path, TrainingConfig(epochs=1), learner)
    assert learner.order == ["lower", "upper"] * 11
    assert {"lower_loss", "upper_loss"} <= rows[0].keys()


def test_a_phase_is_played_in_each_nth_update_and_neither_moves_nor_logs_in_the_others(tmp_path: Path):
    learner = TwoPhases(every=4)
    train(tmp_path / "long", TrainingConfig(epochs=1), learner)
    assert learner.order == (["lower"] * 4 + ["upper"]) * 2 + ["lower"] * 3
    learner = TwoPhases(every=4)
    before = weights_of(learner)
    batches = DigitBatches(0, 150)  # three updates
    _, rows = train(tmp_path / "short", TrainingConfig(epochs=1), learner, train=batches)
    moved = {name for name, weight in weights_of(learner).items() if not torch.equal(weight, before[name])}
    assert moved == {"0.weight", "0.bias"}
    assert "lower_loss" in rows[0]
    assert "upper_loss" not in rows[0]


def test_the_loss_of_a_phase_is_the_mean_over_the_updates_that_played_it(tmp_path: Path):
    class Known(TwoPhases):
        def loss(self, batch: Batch) -> torch.Tensor:
            return 0 * super().loss(batch) + len(self.order)

    _, (row, *_) = train(tmp_path, TrainingConfig(epochs=1), Known(every=4))
    assert row["upper_loss"] == (5 + 10) / 2  # the fifth and the tenth of all losses


def test_phases_with_learning_rates_of_their_own_log_them(tmp_path: Path):
    config = TrainingConfig(epochs=1, learning_rate=0.1, schedule="constant", warmup=0)
    _, (row, *_) = train(tmp_path / "two", config, TwoPhases(learning_rate=0.02))
    assert (row["lower_learning_rate"], row["upper_learning_rate"]) == (0.1, 0.02)
    assert "learning_rate" not in row
    assert find_metric("upper_learning_rate").better is None
    _, (row, *_) = train(tmp_path / "one", config, TwoPhases())
    assert row["learning_rate"] == 0.1
    assert "lower_learning_rate" not in row


def test_a_phase_has_its_own_optimizer_and_learning_rate(tmp_path: Path):
    config = TrainingConfig(epochs=1, optimizer="adam", learning_rate=0.1, schedule="constant", warmup=0, keep="last")
    learner = TwoPhases(optimizer="sgd", learning_rate=0.0)
    before = weights_of(learner)
    train(tmp_path / "still", config, learner)
    after = weights_of(learner)
    assert torch.equal(after["3.weight"], before["3.weight"])
    assert not torch.equal(after["0.weight"], before["0.weight"])

    class UpperAlone(TwoPhases):
        def phases(self) -> list[Phase]:
            return super().phases()[1:]

    learner = UpperAlone(dropout=0.0, optimizer="sgd", learning_rate=0.5)
    before = weights_of(learner)["3.bias"]
    images, labels = digits()
    loss = torch.nn.functional.cross_entropy(learner.model(images[:50]), labels[:50])
    (gradient,) = torch.autograd.grad(loss, [learner.model.get_parameter("3.bias")])
    train(tmp_path / "moved", config, learner, train=DigitBatches(0, 50))
    torch.testing.assert_close(weights_of(learner)["3.bias"], before - 0.5 * gradient)


@pytest.mark.parametrize("stop", [3, 8, 17])
def test_phases_of_their_own_resume_to_the_same_bits(stop: int, tmp_path: Path):
    own = {"optimizer": "momentum", "learning_rate": 0.05, "every": 3}
    config = TrainingConfig(epochs=3, optimizer="adamw", clip=1.0)
    whole, rows = train(tmp_path / "whole", config, TwoPhases(**own))
    with pytest.raises(Interrupted):
        train(tmp_path / "cut", config, TwoPhases(stop, **own))
    resumed, resumed_rows = train(tmp_path / "cut", config, TwoPhases(**own))
    assert same_weights(weights_of(whole), weights_of(resumed))
    assert [row | {"seconds": 0} for row in rows] == [row | {"seconds": 0} for row in resumed_rows]


@pytest.mark.parametrize("metric", ["mase", "perplexity", "energy"])
def test_the_best_weights_of_a_metric_that_should_fall_are_kept(metric: str, tmp_path: Path):
    class Reporting(DigitLearner):
        def metrics(self, batch: Batch) -> dict[str, torch.Tensor]:
            found = super().metrics(batch)
            return {**found, metric: found["loss"].exp()}

    wild = {"epochs": 8, "optimizer": "sgd", "learning_rate": 3.0, "schedule": "constant", "monitor": metric}
    best, rows = train(tmp_path, TrainingConfig(**wild), Reporting())
    values = [row[metric] for row in rows if row["kind"] == "validation"]
    assert evaluate(best, VALIDATION)[metric] == min(values) < values[-1]


class Unlearning(DigitLearner):
    """As if its first weights were those of a fit, which training can only spoil."""

    fitted_start = True

    def loss(self, batch: Batch) -> torch.Tensor:
        return -super().loss(batch)


def test_the_first_weights_of_a_fitted_model_are_kept_if_none_are_better(tmp_path: Path):
    learner = Unlearning()
    before = {name: value.clone() for name, value in weights_of(learner).items()}
    _, rows = train(tmp_path, TrainingConfig(epochs=2), learner)
    steps = [row["step"] for row in rows if row["kind"] == "validation"]
    assert steps[0] == 0 < steps[1]
    assert same_weights(weights_of(learner), before)
    assert all(row["step"] for row in train(tmp_path / "other", TrainingConfig(epochs=1))[1])


def test_a_metric_without_a_better_direction_cannot_be_monitored(tmp_path: Path):
    class Covering(DigitLearner):
        def metrics(self, batch: Batch) -> dict[str, torch.Tensor]:
            return {"coverage_80": super().metrics(batch)["accuracy"]}

    with pytest.raises(InputError) as error:
        train(tmp_path, TrainingConfig(epochs=1, monitor="coverage_80"), Covering())
    assert str(error.value) == "monitor must name a metric of which more or less is better, but got 'coverage_80'."


@pytest.mark.usefixtures("bfloat16")
def test_bfloat16_and_averaging_still_learn(tmp_path: Path):
    _, rows = train(tmp_path, TrainingConfig(epochs=40, precision="bfloat16", average=0.9, learning_rate=3e-3))
    assert rows[-1]["accuracy"] > 0.85


def test_metrics_are_json_lines_with_steps_and_rates(tmp_path: Path):
    _, rows = train(tmp_path, TrainingConfig(epochs=2))
    written = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert written == rows == read_history(tmp_path / "metrics.jsonl")
    assert [(row["kind"], row["step"], row["epoch"]) for row in rows] == [
        ("train", 11, 1),
        ("validation", 11, 1),
        ("train", 22, 2),
        ("validation", 22, 2),
    ]
    assert all("learning_rate" in row for row in rows if row["kind"] == "train")


def test_tensorboard_events_are_written_on_request(tmp_path: Path):
    train(tmp_path, TrainingConfig(epochs=1, tensorboard=True))
    assert list((tmp_path / "tensorboard").glob("events.*"))


def test_a_misspelt_monitor_gets_the_nearest_metric(tmp_path: Path):
    with pytest.raises(InputError) as error:
        train(tmp_path, TrainingConfig(epochs=1, monitor="acuracy"))
    assert str(error.value) == "monitor must name a validation metric, but got 'acuracy': did you mean 'accuracy'?"


@pytest.mark.slow
def test_a_compiled_run_learns_too(tmp_path: Path):
    _, rows = train(tmp_path, TrainingConfig(epochs=40, compile=True, learning_rate=3e-3))
    assert rows[-1]["accuracy"] > 0.85


def test_compiling_without_a_compiler_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(InputError) as error:
        train(tmp_path, TrainingConfig(epochs=1, compile=True))
    assert str(error.value) == (
        "compile=True needs a C++ compiler, but got a machine without one: install g++ or train without compile."
    )


def test_a_small_data_set_is_passed_over_until_the_updates_are_made_and_a_large_one_ten_times(tmp_path: Path):
    _, small = train(tmp_path / "small", TrainingConfig(updates=60), train=DigitBatches(0, 100))
    assert (small[-1]["step"], small[-1]["epoch"]) == (60, 30)
    _, large = train(tmp_path / "large", TrainingConfig(updates=60), train=DigitBatches(0, 600))
    assert (large[-1]["step"], large[-1]["epoch"]) == (120, 10)


def test_training_does_not_import_the_compiler(tmp_path: Path):
    """It takes longer than a small run. (The model is one of ours, with every optimiser, clipping and averaging.)"""
    words = f"""
import sys
from pathlib import Path
import torch
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.parts.objectives import Classification
from neuropil.training.config import TrainingConfig
from neuropil.training.loop import fit
from neuropil.training.optimizers import OPTIMIZERS

class Data:
    def __len__(self):
        return 2
    def epoch(self, number, start=0):
        return iter([{{"input": torch.rand(4, 1, 8, 8), "target": torch.arange(4)}}] * (2 - start))

for name in OPTIMIZERS:
    learner = Classification(MLP(MLPConfig(hidden_sizes=(4,))))
    config = TrainingConfig(epochs=1, optimizer=name, clip=1.0, average=0.9, checkpoint_seconds=0)
    fit(learner, Data(), Data(), config, seed=0, folder=Path({str(tmp_path)!r}) / name, show_progress=False)
print("torch._dynamo" in sys.modules)
"""
    for name in OPTIMIZERS:
        (tmp_path / name).mkdir()
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


class Watched(DigitLearner):
    """Notes in which precision it is trained and evaluated."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = set[tuple[str, torch.dtype]]()

    def loss(self, batch: Batch) -> torch.Tensor:
        self.seen.add(("loss", self.model(batch["input"]).dtype))
        return super().loss(batch)

    def metrics(self, batch: Batch) -> dict[str, torch.Tensor]:
        self.seen.add(("metrics", self.model(batch["input"]).dtype))
        return super().metrics(batch)


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_validation_has_the_precision_of_training(precision: Any, tmp_path: Path):
    learner, _ = train(tmp_path, TrainingConfig(epochs=1, precision=precision), Watched())
    assert isinstance(learner, Watched)
    assert learner.seen == {(what, getattr(torch, precision)) for what in ("loss", "metrics")}
