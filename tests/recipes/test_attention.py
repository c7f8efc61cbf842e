"""Attention over patches as a recipe: what its report says of the weights, and pictures of the user's own."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import neuropil
from neuropil.data.examples.files import ClassificationDataConfig
from neuropil.errors import InputError
from neuropil.inspection.report.page import Picture, Section, Table
from neuropil.inspection.report.patch_attention import weights_of
from neuropil.models.attention import PatchAttention, PatchAttentionConfig, PatchAttentionLayer
from neuropil.parts.attention import attention_weights
from neuropil.recipes.attention import AttentionOptions, build
from neuropil.tasks.classification.experiment import ClassificationExperiment
from neuropil.training.config import TrainingConfig
from neuropil.training.history import read_history

SMALL = PatchAttentionConfig(width=8, key_width=4)


def trained(
    folder: Path, data: ClassificationDataConfig, epochs: int, **options
) -> tuple[ClassificationExperiment, list[Section]]:
    experiment = build(
        AttentionOptions(data=data, model=SMALL.override(**options), training=TrainingConfig(epochs=epochs)), seed=0
    )
    experiment.train(folder, show_progress=False)
    return experiment, experiment.sections(read_history(folder / "metrics.jsonl"))


def colours(folder: Path) -> Path:
    """Pictures of 7 × 10 in three colours, which no patch divides: red ones and blue ones."""
    random = np.random.default_rng(0)
    images = random.integers(0, 100, (60, 7, 10, 3), dtype=np.uint8)
    labels = np.arange(60) % 2
    images[labels == 0, ..., 0] += 120
    images[labels == 1, ..., 2] += 120
    np.savez(folder / "colours.npz", x_train=images, y_train=labels)
    return folder / "colours.npz"


def test_recorded_weights_are_the_similarity_of_queries_and_keys():
    experiment = build(AttentionOptions(model=SMALL), seed=0)
    model, test = experiment.model, experiment.splits.test.take(torch.arange(5))
    assert isinstance(model, PatchAttention)
    weights = weights_of(model, test)
    assert model.training
    layer = model.eval().layers[0]
    assert isinstance(layer, PatchAttentionLayer)
    z = model.positions(model.embed(model.patches(test.inputs)))
    query, key, _ = layer.attention.projection(layer.norm1(z)).split((4, 4, 8), dim=-1)
    torch.testing.assert_close(weights["layer 1"], attention_weights(query, key).detach())
    assert list(weights) == ["layer 1", "layer 2"]


def test_the_report_shows_what_looks_where_and_how_widely(tmp_path: Path):
    experiment, sections = trained(tmp_path, ClassificationDataConfig(), epochs=1)
    titles = [section.title for section in sections]
    assert titles == ["Training", "Errors", "Attention weights", "Attention received", "Parameters", "Data"]
    looking, spread = sections[2:4]
    assert len([block for block in looking.blocks if isinstance(block, Picture)]) == 2
    (table,) = [block for block in spread.blocks if isinstance(block, Table)]
    assert isinstance(experiment.model, PatchAttention)
    weights = weights_of(experiment.model, experiment.splits.test)
    for (name, entropy, amounts_to, *_), matrices in zip(table.rows, weights.values(), strict=True):
        expected = torch.distributions.Categorical(probs=matrices).entropy().mean().item() / math.log(2)
        assert name in weights
        assert float(str(entropy)) == pytest.approx(expected, abs=0.006)
        assert float(str(amounts_to)) == pytest.approx(2**expected, abs=0.06)
        assert 1 <= 2**expected <= 16


def test_pictures_of_the_users_own_in_colour_and_of_any_size(tmp_path: Path):
    experiment, sections = trained(
        tmp_path, ClassificationDataConfig(data=colours(tmp_path)), epochs=40, patch=3, layers=1
    )
    assert experiment.model_config.to_dict()["shape"] == [3, 7, 10]
    assert sum(isinstance(block, Picture) for section in sections[2:4] for block in section.blocks) == 3
    assert experiment.own_result().metrics["accuracy"] > 0.9


def test_raw_patches_and_values_of_their_own_width_are_trained_and_loaded(tmp_path: Path):
    options = {"embedding": "none", "value_width": 16, "key_width": 8, "layers": 2, "test": 0.8}
    run = neuropil.train("attention", **options, epochs=1, out=tmp_path / "run", report=False, show_progress=False)
    model = neuropil.load(run.folder).model
    assert isinstance(model, PatchAttention)
    first, second = (layer.get_submodule("attention.projection") for layer in model.layers)
    assert (first.in_features, first.out_features) == (4, 8 + 8 + 16)  # patches of 2 × 2 pixels
    assert (second.in_features, second.out_features) == (16, 8 + 8 + 16)


def test_a_table_is_refused_with_a_way_out(tmp_path: Path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,label\n" + "\n".join(f"{i},{i * i},{'xy'[i % 2]}" for i in range(40)))
    with pytest.raises(InputError) as error:
        build(AttentionOptions(data=ClassificationDataConfig(data=path, target="label")), seed=0)
    assert str(error.value) == (
        "attention over patches learns from pictures with class labels, but got 40 rows of 2 features in 2 classes "
        "(rows.csv): train the mlp on it."
    )


@pytest.mark.slow
def test_it_is_well_above_logistic_regression(tmp_path: Path):
    run = neuropil.train("attention", out=tmp_path / "run", show_progress=False)
    own, logistic = (result.metrics["accuracy"] for result in run.results[:2])
    assert own >= 0.975
    assert own > logistic
