"""sample, reconstruct and interpolate, as they are typed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import neuropil
from neuropil.cli import main
from neuropil.data.examples.embedded import load_digits


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vae") / "run"
    few: dict[str, Any] = {"epochs": 1, "classifier_updates": 1, "scored_samples": 10, "importance_samples": 2}
    neuropil.train("vae", out=folder, seed=0, show_progress=False, **few)
    return folder


@pytest.fixture
def digits(tmp_path: Path) -> list[str]:
    paths = [tmp_path / f"{index}.png" for index in range(2)]
    for path, pixels in zip(paths, load_digits().inputs[:, 0], strict=False):
        Image.fromarray(pixels.numpy()).save(path)
    return [str(path) for path in paths]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as exit:
        main(list(words))
    assert exit.value.code == 2
    return capsys.readouterr().err.strip()


def test_samples_are_a_grid_arrays_or_json(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    main(["sample", str(folder), "--count", "6"])
    assert capsys.readouterr().out.strip() == "samples.png"
    with Image.open("samples.png") as grid:
        assert grid.size == (3 * 66 + 2, 2 * 66 + 2)
    main(["sample", str(folder), "--count", "6", "--seed", "3", "--out", "some.npz"])
    expected = neuropil.load(folder).sample(6, seed=3).values.numpy()
    np.testing.assert_array_equal(np.load("some.npz")["x"], expected)
    capsys.readouterr()
    main(["sample", str(folder), "--count", "6", "--seed", "3", "--json"])
    lines = capsys.readouterr().out.splitlines()
    np.testing.assert_array_equal([json.loads(line)["values"] for line in lines], expected)


def test_pictures_are_reconstructed_and_interpolated_between(folder: Path, digits: list[str], tmp_path: Path):
    both, way = tmp_path / "both.npz", tmp_path / "way.npz"
    main(["reconstruct", str(folder), *digits, "--out", str(both)])
    main(["interpolate", str(folder), *digits, "--steps", "5", "--out", str(way)])
    run = neuropil.load(folder)
    np.testing.assert_array_equal(np.load(both)["x"], run.reconstruct(digits).values.numpy())
    np.testing.assert_array_equal(np.load(way)["x"], run.interpolate(digits[0], digits[1], 5).values.numpy())
    # A way begins and ends at what the two pictures are decoded to.
    np.testing.assert_array_equal(np.load(way)["x"][[0, -1]], np.load(both)["x"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--count", "30000", "--out", "many.png"],
            "a grid shows at most 22,956 samples, but got 30,000: write them with --out samples.npz.",
        ),
        (
            ["--out", "grid.tiff"],
            "generated examples are written to .png, .jpg, .webp, .npz or .npy, but got 'grid.tiff': name it grid.png, "
            "or .npz for arrays.",
        ),
        (["--steps", "3"], "samples of this model take no options, but got 'steps': leave it out."),
        (["--count", "0"], "--count must be at least 1, but got 0."),
    ],
)
def test_what_cannot_be_sampled_or_drawn_gets_one_sentence(
    folder: Path,
    options: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, "sample", str(folder), *options) == f"neuropil: {sentence}"
    assert not list(tmp_path.iterdir())
