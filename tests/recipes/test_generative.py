"""What generative systems refuse before anything is trained, and leaves no folder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import neuropil
from neuropil.errors import InputError


def refusal(system: str, folder: Path, rows: int, **options: Any) -> str:
    data = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
    with pytest.raises(InputError) as error:
        neuropil.train(system, data=data, out=folder / "run", show_progress=False, **options)
    assert not (folder / "run").exists()
    return str(error.value)


@pytest.mark.parametrize("system", ["vae", "rbm"])
def test_samples_need_more_than_one_test_example_beside_them(system: str, tmp_path: Path):
    assert refusal(system, tmp_path, 5) == (
        "samples are scored beside at least 2 test examples, but got 1: give more examples or a larger --test."
    )


def test_a_code_is_shorter_than_its_input(tmp_path: Path):
    assert refusal("autoencoder", tmp_path, 50) == (
        "codes of inputs of 3 numbers must be shorter, but got 16 latent dimensions: choose --latent-size 1, or "
        "denoise with --corruption gaussian."
    )


def test_binarised_pixels_have_a_bernoulli_likelihood(tmp_path: Path):
    assert refusal("vae", tmp_path, 50, binarize=True) == (
        "binarised pixels are 0 or 1, and have a Bernoulli likelihood, but got --likelihood gaussian: add "
        "--likelihood bernoulli."
    )


def test_a_memory_says_that_it_holds_fewer_patterns_than_asked_for(tmp_path: Path):
    data = np.random.default_rng(0).normal(size=(30, 20)).astype(np.float32)
    out = tmp_path / "run"
    run = neuropil.train("hopfield", data=data, patterns=500, capacity_units=20, out=out, show_progress=False)
    assert run.settings["facts"]["notes"][-1].endswith("examples, and 500 were to be stored.")
