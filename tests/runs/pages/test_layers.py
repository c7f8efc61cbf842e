"""Gradients and signal of a run for other weights than its own."""

from pathlib import Path
from typing import Any

import pytest
import torch

import neuropil
from neuropil.runs.pages.layers import LayerProbe
from neuropil.runs.run import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    options: dict[str, Any] = {"hidden_sizes": (12, 9), "epochs": 1, "dropout": 0.0, "activation": "tanh"}
    folder = tmp_path_factory.mktemp("layers") / "mlp"
    return neuropil.train("mlp", out=folder, show_progress=False, report=False, **options)


def test_the_trained_weights_have_the_profiles_of_the_run(run: Run):
    probe = LayerProbe(run)
    for _ in range(2):
        found = probe.profiles("trained")
        assert found.gradients == run.gradients()
        assert found.signal == run.signal()
        assert found.time == {}
        probe.profiles("initial", scale=3.0)


def test_larger_weights_saturate_and_first_weights_lose_more(run: Run):
    probe = LayerProbe(run)
    trained, initial, large = probe.profiles(), probe.profiles("initial"), probe.profiles(scale=20.0)
    assert initial.gradients.loss > trained.gradients.loss
    shares = [profile.signal.layers[1].saturated_share for profile in (trained, large)]
    assert shares[0] is not None
    assert shares[1] is not None
    assert shares[0] < 0.5 < shares[1]
    norms = [profile.gradients.layers[0].parameter_norm for profile in (trained, large)]
    assert norms[1] / norms[0] == pytest.approx(20, rel=0.01)  # biases stay as they are


def test_the_first_examples_of_the_batch_may_do(run: Run):
    probe = LayerProbe(run)
    with torch.no_grad():
        answers = probe.model.eval()(probe.batch["input"][:4])
        expected = torch.nn.functional.cross_entropy(answers, probe.batch["target"][:4]).item()
    assert probe.profiles(examples=4).gradients.loss == pytest.approx(expected, rel=1e-5)


def test_a_cell_forgets_sooner_with_smaller_weights(tmp_path: Path):
    (tmp_path / "book.txt").write_text("The cat sat on the mat. " * 200)
    options: dict[str, Any] = {"hidden_size": 8, "embedding_size": 4, "epochs": 1, "vocabulary_size": 60}
    trained = neuropil.train(
        "rnn", out=tmp_path / "rnn", data=tmp_path / "book.txt", show_progress=False, report=False, **options
    )
    probe = LayerProbe(trained)
    kept = []
    for scale in (1.0, 0.3):
        (norms,) = (each.norms for each in probe.profiles("initial", scale).time.values())
        kept.append(norms[5] / norms[0])
    assert kept[1] < 0.1 * kept[0]
    weights = {name: tensor.clone() for name, tensor in trained.model.state_dict().items()}
    for name, tensor in probe.model.state_dict().items():
        assert torch.equal(tensor, weights[name])
