"""One head against several: what one can gather at most, what is measured, and what is left without some."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import neuropil
from neuropil.data.examples.files import DataConfig
from neuropil.errors import InputError
from neuropil.inspection.heads import masked_heads
from neuropil.inspection.report.page import Picture, Table
from neuropil.models.vit import ViT, ViTConfig
from neuropil.parts.multi_head import heads_of
from neuropil.parts.objectives import Classification
from neuropil.parts.parameters import count_parameters
from neuropil.recipes.heads import (
    Gather,
    Gathering,
    HeadsOptions,
    Queries,
    attention_shares,
    build,
    prune,
)
from neuropil.tasks.study import Study

SIZES: dict[str, Any] = {"width": 8, "asked": 2, "slots": 4, "pruned": 2, "layers": 1}
SMALL: dict[str, Any] = SIZES | {"heads": (1, 2, 4), "picture_heads": (1, 2)}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    few = {"updates": 250, "picture_updates": 5, "learning_rate": 1e-2, "repeats": 2}
    study = build(HeadsOptions(**SMALL, **few, data=DataConfig(test=0.8)), seed=0)
    study.train(tmp_path_factory.mktemp("heads"), show_progress=False)
    return study


# --- what heads can do ------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(heads=st.integers(1, 6), asked=st.integers(1, 5), more=st.integers(0, 5), seed=st.integers(0, 1000))
def test_no_weights_gather_more_than_the_bound_says(heads: int, asked: int, more: int, seed: int):
    """The best prediction of the contents asked for from H weighted means, by NumPy's pseudo-inverse."""
    options = HeadsOptions(
        heads=(1,), picture_heads=(1,), pruned=1, width=4 * asked, asked=asked, slots=max(2, asked + more)
    )
    weights = np.random.default_rng(seed).dirichlet(np.ones(options.slots), size=heads)
    wanted = np.eye(options.slots)[:asked]
    # Contents are independent with variance 1: what is left of them is their distance from the span of the weights.
    left = np.square(wanted - wanted @ np.linalg.pinv(weights) @ weights).sum() / asked
    assert left >= options.least_error(heads, options.numbers) - 1e-9


def test_the_bound_is_reached_by_heads_that_look_at_one_slot_each_and_counts_narrow_heads_by_their_width():
    options = HeadsOptions()
    for heads in range(1, 5):
        weights, wanted = np.eye(16)[:heads], np.eye(16)[:4]
        left = np.square(wanted - wanted @ np.linalg.pinv(weights) @ weights).sum() / 4
        assert left == pytest.approx(options.least_error(heads, options.numbers))
    assert [options.least_error(heads, 32 // heads) for heads in (1, 2, 4, 8, 32)] == [0.75, 0.5, 0, 0, 0]
    assert [options.least_error(heads, 4) for heads in (0, 1, 7, 8)] == [1, 0.875, 0.125, 0]


def test_as_many_heads_as_things_gather_them_exactly():
    """By weights that are set by hand: head i looks for the i-th tag, and passes on what stands there."""
    options = HeadsOptions(asked=4, slots=8, width=32, heads=(4,), picture_heads=(4,), pruned=4)
    model, batch = Gather(options, 4), next(Queries(options, 1, 0).epoch(0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.ask.weight.copy_(torch.eye(32))
        model.attention.query.weight.copy_(100 * torch.eye(32))
        for head in range(4):
            rows = slice(8 * head, 8 * head + 8)
            model.attention.key.weight[rows] = torch.eye(8)
            model.attention.value.weight[rows] = torch.eye(8)
        model.attention.output.weight.copy_(torch.eye(32))
        torch.testing.assert_close(model(batch["places"], batch["contents"]), batch["target"], atol=1e-5, rtol=0)
    shares = attention_shares(Gathering(model), options, seed=0)
    torch.testing.assert_close(shares, torch.eye(4), atol=1e-5, rtol=0)


def test_it_is_torchs_attention_with_as_many_parameters_for_any_number_of_heads():
    options = HeadsOptions()
    batch, sizes = next(Queries(options, 1, 0).epoch(0)), set()
    for heads in options.heads:
        model = Gather(options, heads)
        sizes.add(count_parameters(model))
        theirs: nn.MultiheadAttention = model.attention.to_torch()
        asked = nn.functional.one_hot(batch["places"], 16).flatten(1)[:, None].float()
        tags = torch.eye(16).expand(128, -1, -1)
        with torch.no_grad():
            expected, _ = theirs(model.ask(asked), tags, batch["contents"])
            ours = model(batch["places"], batch["contents"])
        torch.testing.assert_close(ours, expected.unflatten(-1, (4, 8))[:, 0], atol=1e-5, rtol=0)
    assert len(sizes) == 1


def test_queries_ask_for_different_slots_and_want_their_contents():
    options = HeadsOptions(slots=5, asked=4, width=8, heads=(1,), picture_heads=(1,), pruned=1)
    first, again = (list(Queries(options, 3, 7).epoch(0)) for _ in range(2))
    for batch, same in zip(first, again, strict=True):
        assert all(torch.equal(batch[name], same[name]) for name in batch)
        assert all(len(set(row)) == 4 for row in batch["places"].tolist())
        for number in (0, 50):
            expected = batch["contents"][number, batch["places"][number]]
            assert torch.equal(batch["target"][number], expected)
    assert torch.equal(next(Queries(options, 3, 7).epoch(0, start=2))["target"], first[2]["target"])
    assert not torch.equal(first[0]["target"], first[1]["target"])


# --- what is left without some ----------------------------------------------------------------------------------------


def test_heads_are_removed_one_by_one_from_a_copy():
    torch.manual_seed(0)
    model = ViT(ViTConfig(width=8, heads=2, layers=2, patch=4, shape=(1, 8, 8), classes=3))
    learner, x = Classification(model), torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8)
    with torch.no_grad():
        order = iter([("blocks.1.attention", 1), ("blocks.0.attention", 0), ("blocks.1.attention", 0)])
        last = ("blocks.0.attention", 0)
        scores = prune(learner, lambda _: next(order, last), lambda pruned: float(pruned.model(x).square().sum()))
        masks: list[dict[str, list[int]]] = [{}, {"blocks.1.attention": [1]}]
        masks.append({"blocks.1.attention": [1], "blocks.0.attention": [0]})
        masks.append({"blocks.1.attention": [0, 1], "blocks.0.attention": [0]})
        masks.append({"blocks.1.attention": [0, 1], "blocks.0.attention": [0, 1]})
        model.eval()
        for gone, off in enumerate(masks):
            with masked_heads(model, off):
                assert scores[4 - gone] == pytest.approx(float(model(x).square().sum()), rel=1e-5)
    assert list(scores) == [4, 3, 2, 1, 0]
    assert sum(each.heads for each in heads_of(model).values()) == 4


# --- the study --------------------------------------------------------------------------------------------------------


def test_one_head_is_no_better_than_the_bound_and_two_are_better_than_one(study: Study):
    errors = {r.name: r.metrics["squared_error"] for r in study.evaluate() if "squared_error" in r.metrics}
    assert errors["gathering, one head, least possible"] == 0.5
    assert 0.47 < errors["gathering, one head"] < 0.75
    assert errors["gathering, 2 heads"] < errors["gathering, one head"] - 0.1
    assert errors["gathering, always the mean"] == 1.0


def test_every_section_has_its_picture_and_its_numbers(study: Study):
    sections = study.findings.sections
    assert [section.title for section in sections] == [
        "One head and several, at equal width",
        "What the heads attend to",
        "Do we need all?",
    ]
    assert all(sum(isinstance(block, Picture) for block in section.blocks) == 1 for section in sections)
    compared, pruned = (next(each for each in sections[place].blocks if isinstance(each, Table)) for place in (0, 2))
    assert [row[0] for row in compared.rows] == [1, 2, 4]
    assert compared.rows[2][-2:] == ["", ""]
    assert " to " not in compared.caption.rpartition(":")[2]  # parameters, as many for any number of heads
    assert [row[0] for row in pruned.rows] == [2, 1, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": (1, 3)}, "the heads must divide the width, but got 3 heads for a width of 32."),
        ({"heads": (1, 1), "pruned": 1}, "the numbers of heads must differ, but got 1, 1."),
        ({"asked": 5}, "the slots asked for must divide the width, but got 5 slots for a width of 32."),
        ({"asked": 16, "slots": 8}, "a query asks for different slots, but got 16 of 8: give more --slots."),
        ({"pruned": 3}, "--pruned must be one of the numbers of heads compared, but got 3 of 1, 2, 4, 8, 16, 32."),
    ],
)
def test_numbers_that_do_not_fit_are_refused(options: dict[str, Any], message: str, tmp_path: Path):
    with pytest.raises(InputError) as error:
        neuropil.train("heads", out=tmp_path / "run", **options)
    assert str(error.value) == message
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_four_heads_gather_what_one_averages(tmp_path: Path):
    run = neuropil.train(
        "heads",
        heads=(1, 4),
        picture_heads=(4,),
        pruned=4,
        picture_updates=1,
        out=tmp_path / "run",
        show_progress=False,
    )
    errors = {r.name: r.metrics["squared_error"] for r in run.results if "squared_error" in r.metrics}
    assert errors["gathering, one head"] == pytest.approx(0.75, abs=0.03)
    assert errors["gathering, 4 heads"] < 0.2
