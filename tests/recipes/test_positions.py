"""With positions, without them, and with the patches of every picture shuffled."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import neuropil
from neuropil.data.examples.embedded import load_digits
from neuropil.inspection.report.page import Gallery, Picture, Table
from neuropil.models.attention import PatchAttention, PatchAttentionConfig
from neuropil.parts.positions import sinusoidal
from neuropil.recipes.positions import PositionsOptions, build, image_of, shuffle_patches, similarity_by_distance
from neuropil.tasks.study import Study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = build(PositionsOptions(width=16, layers=1, updates=100, learning_rate=5e-3), seed=0)
    study.train(tmp_path_factory.mktemp("positions"), show_progress=False)
    return study


def accuracies(study: Study) -> dict[str, float]:
    return {result.name: result.metrics["accuracy"] for result in study.evaluate()}


def test_only_without_positions_shuffled_patches_are_the_same_picture(study: Study):
    accuracy = accuracies(study)
    assert accuracy["no positions, patches shuffled"] == accuracy["no positions"]
    for kind in ("learned", "sinusoidal"):
        assert accuracy[f"{kind} positions, patches shuffled"] < accuracy[f"{kind} positions"] - 0.2
    (table,) = [block for block in study.findings.sections[2].blocks if isinstance(block, Table)]
    changed = {str(row[0]): (str(row[3]), float(str(row[4]))) for row in table.rows}
    assert changed["none"][0] == "0.0 %"
    assert changed["none"][1] < 1e-4
    assert min(changed["learned"][1], changed["sinusoidal"][1]) > 0.1


def test_every_section_has_its_picture(study: Study):
    titles = [section.title for section in study.findings.sections]
    assert titles == [
        "Sinusoidal positions",
        "Learning with and without",
        "Shuffled patches",
        "What was learned about places",
    ]
    assert [
        sum(isinstance(block, Picture | Gallery) for block in section.blocks) for section in study.findings.sections
    ] == [2, 1, 1, 1]


@settings(deadline=None, max_examples=15)
@given(batch=st.integers(1, 5), patches=st.integers(1, 9), seed=st.integers(0, 100))
def test_shuffling_keeps_every_patch_of_a_picture_and_is_repeatable(batch: int, patches: int, seed: int):
    x = torch.randn(batch, patches, 3)
    mixed = shuffle_patches(x, seed, number=0)
    assert torch.equal(mixed, shuffle_patches(x, seed, number=0))
    for before, after in zip(x, mixed, strict=True):
        assert sorted(map(tuple, before.tolist())) == sorted(map(tuple, after.tolist()))


def test_every_picture_is_shuffled_in_a_way_of_its_own():
    x = torch.arange(16.0)[:, None].expand(50, 16, 1)
    orders = {tuple(row) for row in shuffle_patches(x, 0, 0)[..., 0].tolist()}
    assert len(orders) > 45
    assert not torch.equal(shuffle_patches(x, 0, 0), shuffle_patches(x, 0, 1))


def test_patches_laid_out_again_are_the_picture():
    digits = load_digits().inputs[:20]
    for patch in (2, 3):
        model = PatchAttention(PatchAttentionConfig(patch=patch, width=4, key_width=4))
        model.standardize.fit(digits)
        assert torch.equal(image_of(model, model.patches(digits))[..., :8, :8], digits)


def test_similarity_is_that_of_any_two_positions_so_far_apart():
    encodings = sinusoidal(60, 64)
    expected = encodings[37] @ encodings[37:].T / 32
    torch.testing.assert_close(similarity_by_distance(22, 64), expected, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_with_its_defaults_positions_are_worth_a_quarter_of_the_digits(tmp_path: Path):
    run = neuropil.train("positions", out=tmp_path / "run", show_progress=False)
    accuracy = {result.name: result.metrics["accuracy"] for result in run.results}
    assert min(accuracy["learned positions"], accuracy["sinusoidal positions"]) > 0.96
    assert accuracy["no positions"] == accuracy["no positions, patches shuffled"] < 0.75
