"""An estimate counts the updates that a run will make, and times a few."""

from pathlib import Path

import pytest

import neuropil
from neuropil.errors import InputError
from neuropil.runs.estimate import TimeEstimate, estimate


def test_it_counts_the_updates_and_passes_of_the_run(tmp_path: Path):
    options = {"epochs": 3, "batch_size": 100, "hidden_sizes": (8,)}
    found = estimate("mlp", options)
    run = neuropil.train("mlp", **options, out=tmp_path / "run", report=False, show_progress=False)
    last = max((row for row in run.rows if row["kind"] == "train"), key=lambda row: row["step"])
    assert (found.updates, found.epochs) == (last["step"], 3)
    assert found.seconds is not None
    assert found.seconds == pytest.approx(found.preparing + found.training + found.evaluation)
    assert found.training > 0


def test_a_time_limit_is_its_own_estimate():
    assert estimate("gpt2", {"minutes": 2.0}) == TimeEstimate(120.0, "", training=120.0)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("lif", "it simulates"), ("activations", "it makes a report, and trains no model by steps")],
)
def test_what_cannot_be_timed_says_why(name: str, reason: str):
    found = estimate(name, {})
    assert found.seconds is None
    assert found.sentence() == f"How long it takes is not known beforehand: {reason}."


def test_a_sentence_says_what_the_time_is_for():
    found = TimeEstimate(200.0, preparing=5.0, training=180.0, evaluation=15.0)
    assert found.sentence() == (
        "About 3:20 on this machine: 0:05 to prepare the data, 3:00 to train, and 0:15 for evaluation and report."
    )


def test_what_training_would_refuse_is_refused():
    with pytest.raises(InputError) as caught:
        estimate("mlp", {"monitor": "accurcy"})
    assert str(caught.value) == "monitor must name a validation metric, but got 'accurcy': did you mean 'accuracy'?"
