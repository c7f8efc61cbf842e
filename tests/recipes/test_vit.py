"""The Vision Transformer as a user meets it: pictures in, classes out, and a folder that other libraries open."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageClassification

import neuropil
from neuropil.data.examples.embedded import load_digits
from neuropil.errors import InputError
from neuropil.inspection.report.page import Picture
from neuropil.models import ViT
from neuropil.recipes.vit import ViTOptions, build
from neuropil.runs.run import Run
from neuropil.training.history import read_history

SMALL: dict[str, Any] = {"width": 16, "heads": 2, "layers": 2, "epochs": 1}


def write_folder(root: Path, height: int, width: int, count: int = 6) -> Path:
    """Two classes: dark and light noise."""
    generator = np.random.default_rng(0)
    for name, low in (("dark", 0), ("light", 128)):
        (root / name).mkdir(parents=True)
        for index in range(count):
            Image.fromarray(generator.integers(low, low + 128, (height, width, 3), dtype=np.uint8)).save(
                root / name / f"{index}.png"
            )
    return root


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return neuropil.train("vit", out=tmp_path_factory.mktemp("vit") / "run", report=False, show_progress=False, **SMALL)


def test_the_folder_opens_in_hugging_faces_library_with_equal_logits(run: Run):
    theirs = AutoModelForImageClassification.from_pretrained(run.folder).eval()
    pictures = load_digits().inputs[:20]
    said = json.loads((run.folder / "preprocessor_config.json").read_text())
    mean, std = (torch.tensor(said[name]).view(-1, 1, 1) for name in ("image_mean", "image_std"))
    ready = (pictures * said["rescale_factor"] - mean) / std
    with torch.no_grad():
        torch.testing.assert_close(run.model(pictures), theirs(ready).logits, atol=1e-4, rtol=1e-4)


def test_their_processor_makes_our_pictures_ready(run: Run):
    processor = AutoImageProcessor.from_pretrained(run.folder)
    picture = load_digits().inputs[0]
    ready = processor(picture.permute(1, 2, 0).numpy(), return_tensors="pt", input_data_format="channels_last")[
        "pixel_values"
    ]
    model = run.model
    assert isinstance(model, ViT)
    torch.testing.assert_close(ready, model.standardize(picture[None]), atol=1e-4, rtol=1e-4)


def test_it_comes_back_and_stands_beside_logistic_regression(run: Run):
    pictures = load_digits().inputs[:5]
    assert torch.equal(neuropil.load(run.folder).predict(pictures).scores, run.predict(pictures).scores)
    again = ViT.from_pretrained(run.folder)
    with torch.no_grad():
        torch.testing.assert_close(again(pictures), run.model(pictures))
    assert [result.name for result in run.results] == ["vit", "logistic regression", "always the most frequent class"]


def test_the_report_lays_roll_out_over_pictures(tmp_path: Path):
    experiment = build(ViTOptions().override(**SMALL), seed=0)
    experiment.train(tmp_path, show_progress=False)
    sections = {
        section.title: section.blocks for section in experiment.sections(read_history(tmp_path / "metrics.jsonl"))
    }
    rolled, heads = (block for block in sections["Where it looks"] if isinstance(block, Picture))
    assert rolled.alt == "pictures, and beside each the same lit where the answer was drawn from"
    assert heads.alt == "one picture, lit where each head of each layer looks"


# --- pictures of the user's -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "patch", "shape"),
    [((16, 24), None, (16, 24)), ((19, 13), None, (18, 12)), ((19, 13), 5, (20, 15)), ((40, 40), None, (40, 40))],
)
def test_image_files_are_brought_to_a_size_that_patches_fill(
    tmp_path: Path, size: tuple[int, int], patch: int | None, shape: tuple[int, int]
):
    folder = write_folder(tmp_path / "pictures", *size)
    run = neuropil.train(
        "vit", data=folder, patch=patch, out=tmp_path / "run", report=False, show_progress=False, **SMALL
    )
    model = run.model
    assert isinstance(model, ViT)
    assert model.config.shape == (3, *shape)
    assert max(model.patches.grid) <= 8
    assert ("resized to" in run.settings["facts"]["source"]) == (shape != size)
    assert len(run.predict(folder / "dark" / "0.png")) == 1
    notes = list[str]()
    assert set(run.evaluate(folder, notify=notes.append)) == {"loss", "accuracy"}
    # pictures that were resized once more for the patches are not known again
    assert notes == (["9 of 12 examples were in the training part of this run."] if shape == size else [])


def test_arrays_that_patches_do_not_fill_are_refused(tmp_path: Path):
    images = np.zeros((8, 11, 13), dtype=np.uint8)
    np.savez(tmp_path / "d.npz", images=images, labels=np.arange(8) % 2)
    with pytest.raises(InputError) as error:
        build(ViTOptions().override(data=tmp_path / "d.npz", **SMALL), seed=0)
    assert str(error.value) == (
        "pictures must have sides that patches of 2 pixels fill, but got 11×13: resize them to 12×12 or give another "
        "--patch."
    )


def test_what_are_no_pictures_is_refused(tmp_path: Path):
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(f"{i},{i % 2}" for i in range(20)))
    with pytest.raises(InputError) as error:
        build(ViTOptions().override(data=tmp_path / "t.csv", target="b", **SMALL), seed=0)
    assert str(error.value) == (
        "the vit learns from pictures with class labels, but got 20 rows of 1 feature in 2 classes (t.csv): train "
        "the mlp on it."
    )


@pytest.mark.slow
def test_it_reads_digits(tmp_path: Path):
    run = neuropil.train("vit", out=tmp_path / "run", show_progress=False)
    assert run.metrics["accuracy"] >= 0.975
