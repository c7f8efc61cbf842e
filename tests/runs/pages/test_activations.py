"""The page on the activation maps of a run, as a user asks for it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import neuropil
from command_line import said
from neuropil.runs.run import Run
from real_data import digits


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("activations") / "cnn"
    return neuropil.train("cnn", width=4, epochs=1, out=folder, show_progress=False)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "digit.png"
    Image.fromarray(digits()[0][0].reshape(8, 8).astype(np.uint8)).save(path)
    return path


def test_a_page_shows_every_layer_and_names_the_most_active_channels(
    run: Run, picture: Path, capsys: pytest.CaptureFixture[str]
):
    predicted, *layers, path = said(capsys, "inspect", str(run.folder), "--activations", str(picture)).splitlines()
    maps = run.activations(picture)
    assert predicted == f"Predicted: {', '.join(run.predict(picture).lines()[0])}."
    expected = []
    for name, each in maps.items():
        order = each[0].abs().mean((1, 2)).argsort(descending=True)[:3].tolist()
        channels = ", ".join(map(str, order))
        expected.append(f"{name}: {each.shape[1]} channels, of which {channels} are the most active.")
    assert layers == expected
    page = Path(path).read_text()
    assert Path(path) == run.folder / "activations.html"
    assert all(name in page for name in [*maps, "digit.png"])


def test_maps_of_a_file_and_of_an_array_are_those_of_a_forward_hook(run: Run, picture: Path):
    pixels = np.array(Image.open(picture))[None, None]
    seen: list[Any] = []
    handle = run.model.get_submodule("blocks.0").register_forward_hook(lambda _m, _i, output: seen.append(output))
    run.predict(pixels)
    handle.remove()
    assert torch.equal(run.activations(pixels)["blocks.0"], seen[0])
    assert torch.equal(run.activations(picture)["blocks.0"], seen[0])


def test_the_report_of_a_cnn_has_them_too(run: Run):
    page = run.report.read_text()
    assert "Activation maps" in page
    assert "First weights" in page


def test_several_pictures_are_refused(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "some.npz"
    np.savez(path, inputs=digits()[0][:3].reshape(3, 1, 8, 8).astype(np.uint8))
    error = said(capsys, "inspect", str(run.folder), "--activations", str(path), code=2)
    assert f"activation maps are drawn of one picture, but got 3 in {path}: give the path of one image file." in error
    assert (
        not (run.folder / "activations.html").exists()
        or "some.npz" not in (run.folder / "activations.html").read_text()
    )


def test_a_model_without_convolutions_is_refused(tmp_path: Path, picture: Path, capsys: pytest.CaptureFixture[str]):
    mlp = neuropil.train("mlp", hidden_sizes=(8,), epochs=1, out=tmp_path / "mlp", show_progress=False)
    error = said(capsys, "inspect", str(mlp.folder), "--activations", str(picture), code=2)
    rule = (
        f"{mlp.folder} must hold a convolutional network that classifies pictures, but got a run of mlp: train a cnn."
    )
    assert rule in error
