"""What heads are worth, and models without some of them."""

import copy
import dataclasses
import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.inspection.heads import gradient_importance, least_important, leave_one_out, masked_heads, without_heads
from neuropil.models.transformer import Transformer, TransformerConfig
from neuropil.parts.multi_head import heads_of, remove_heads
from neuropil.parts.objectives import SequenceToSequence
from neuropil.parts.parameters import count_parameters
from neuropil.protocols import Batch
from neuropil.sampling.text.beam_search import greedy_search
from neuropil.training.weights import load_model, save_model

HEADS = 3
NAMES = ["encoder.0.attention", "encoder.1.attention"] + [
    f"decoder.{i}.{kind}" for i in range(2) for kind in ("attention", "cross")
]
some_heads = st.dictionaries(st.sampled_from(NAMES), st.sets(st.integers(0, HEADS - 1)))


def made(**options: Any) -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(
        width=12, heads=HEADS, layers=2, feed_forward=16, source_vocabulary_size=15, target_vocabulary_size=15
    )
    model = Transformer(dataclasses.replace(config, **options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model.eval()


def batch(seed: int = 1) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return {side: torch.randint(4, 15, (3, time), generator=generator) for side, time in (("source", 6), ("target", 5))}


def output(model: Transformer) -> Tensor:
    with torch.no_grad():
        return model(batch()["source"], batch()["target"])


@torch.no_grad()
def silence(model: nn.Module, name: str, head: int) -> None:
    """Without any mask: nothing of what the head says is read."""
    attention = heads_of(model)[name]
    attention.output.weight[:, head * attention.head_width : (head + 1) * attention.head_width] = 0


# --- masked, silenced, removed ----------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(off=some_heads, norm=st.sampled_from(["post", "pre"]))
def test_a_model_whose_heads_are_masked_silenced_or_removed_is_the_same(off: dict[str, set[int]], norm: str):
    model = made(norm=norm)
    silenced, removed = copy.deepcopy(model), copy.deepcopy(model)
    with masked_heads(model, off):
        masked = output(model)
    for name, heads in off.items():
        for head in heads:
            silence(silenced, name, head)
    remove_heads(removed, off)
    torch.testing.assert_close(masked, output(silenced), atol=1e-5, rtol=0)
    torch.testing.assert_close(masked, output(removed), atol=1e-5, rtol=0)
    assert removed.config.kept_heads == tuple(HEADS - len(off.get(name, ())) for name in NAMES)
    gone = sum(map(len, off.values()))
    assert count_parameters(model) - count_parameters(removed) == gone * (
        4 * 12 * 4 + 3 * 4
    )  # of four projections, three have biases


@settings(deadline=None, max_examples=10)
@given(off=some_heads)
def test_a_pruned_model_is_saved_and_loads_into_a_model_made_from_its_config(
    tmp_path_factory: Any, off: dict[str, set[int]]
):
    path: Path = tmp_path_factory.mktemp("pruned") / "model.safetensors"
    model = made()
    remove_heads(model, off)
    save_model(path, model)
    restored = Transformer(TransformerConfig.from_dict(model.config.to_dict())).eval()
    load_model(path, restored)
    assert torch.equal(output(restored), output(model))
    remove_heads(
        restored, {name: range(attention.heads) for name, attention in heads_of(restored).items()}
    )  # and once more
    assert restored.config.kept_heads == (0,) * 6


@pytest.mark.parametrize(
    "off",
    [{}, {"encoder.0.attention": [1]}, dict.fromkeys(NAMES[2:], range(HEADS)), dict.fromkeys(NAMES, range(HEADS))],
)
def test_a_pruned_decoder_still_writes_with_its_cache_what_it_would_write_without(off: dict[str, Any]):
    model, source = made(), batch()["source"]
    remove_heads(model, off)
    with torch.no_grad():
        written = greedy_search(model.step, model.begin(source), [7] * 3, start=1, end=2)
    for row, one in enumerate(written):
        prefix = torch.tensor([[1, *one.tokens]])
        with torch.no_grad():
            best = model(source[row : row + 1], prefix).argmax(-1)[0].tolist()
        assert best[: len(one.tokens) + one.finished] == [*one.tokens, *([2] if one.finished else [])]


def test_a_pruned_model_goes_on_learning():
    model = made()
    remove_heads(model, {"decoder.0.cross": [0, 2], "encoder.1.attention": range(HEADS)})
    SequenceToSequence(model).loss(batch()).backward()
    gone = {
        "encoder.1.attention.projection.weight",
        "encoder.1.attention.projection.bias",
        "encoder.1.attention.output.weight",
    }
    assert {
        name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()
    } == gone
    assert all(not model.get_parameter(name).numel() for name in gone)


def test_masks_go_with_their_block_also_when_it_fails():
    model = made()
    before = output(model)
    with masked_heads(model, {"encoder.0.attention": [0]}):
        assert not torch.equal(output(model), before)
    assert torch.equal(output(model), before)
    with pytest.raises(KeyError), masked_heads(model, {"encoder.0.attention": [0]}):
        raise KeyError
    assert torch.equal(output(model), before)
    assert all(attention.head_mask is None for attention in heads_of(model).values())


def test_what_is_masked_around_a_block_stays_masked_in_it():
    model = made()
    with masked_heads(model, {"encoder.0.attention": iter([0, 2])}):
        both = output(model)
    with masked_heads(model, {"encoder.0.attention": [0]}):
        one = output(model)
        with masked_heads(model, {"encoder.0.attention": [2]}):
            assert torch.equal(output(model), both)
        assert torch.equal(output(model), one)
        silenced = copy.deepcopy(model)
        importance = gradient_importance(model, [functools.partial(mean_loss, model)])
        assert torch.equal(output(model), one)
    silence(silenced, "encoder.0.attention", 0)
    assert importance["encoder.0.attention"][0] == 0
    for name, values in gradient_importance(silenced, [functools.partial(mean_loss, silenced)]).items():
        torch.testing.assert_close(importance[name], values, atol=1e-5, rtol=1e-3)


@pytest.mark.usefixtures("bfloat16")
def test_heads_of_a_model_in_half_precision_can_be_masked():
    model = made().bfloat16()
    with masked_heads(model, {"encoder.0.attention": [0]}):
        assert output(model).dtype == torch.bfloat16


# --- importance -------------------------------------------------------------------------------------------------------


def mean_loss(model: nn.Module, seed: int = 1) -> Tensor:
    return SequenceToSequence(model).metrics(batch(seed))["loss"].mean()


def test_gradient_importance_is_the_slope_of_the_loss_in_each_heads_factor():
    model, step = made().double(), 1e-4
    importance = gradient_importance(model, [functools.partial(mean_loss, model)])
    assert list(importance) == NAMES
    for name, attention in heads_of(model).items():
        for head in range(HEADS):
            sides = []
            for sign in (1, -1):
                attention.head_mask = torch.ones(HEADS, dtype=torch.float64)
                attention.head_mask[head] += sign * step
                sides.append(mean_loss(model).item())
            attention.head_mask = None
            slope = abs(sides[0] - sides[1]) / (2 * step)
            assert slope > 0
            assert importance[name][head].item() == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_pulls_of_several_batches_do_not_cancel_out():
    model = made()
    one, other = (gradient_importance(model, [functools.partial(mean_loss, model, seed)]) for seed in (1, 2))
    both = gradient_importance(model, (functools.partial(mean_loss, model, seed) for seed in (1, 2)))
    for name in NAMES:
        torch.testing.assert_close(both[name], (one[name] + other[name]) / 2)
    opposite = gradient_importance(model, [lambda: mean_loss(model), lambda: -mean_loss(model)])
    torch.testing.assert_close(opposite[NAMES[0]], one[NAMES[0]])


def test_leaving_one_out_is_the_rise_of_the_loss_without_what_the_head_says():
    model = made()
    rises = leave_one_out(model, lambda: mean_loss(model).item())
    whole = mean_loss(model).item()
    assert list(rises) == NAMES
    for name in NAMES:
        for head in range(HEADS):
            without = copy.deepcopy(model)
            silence(without, name, head)
            assert rises[name][head].item() == pytest.approx(mean_loss(without).item() - whole, abs=1e-5)


def test_a_head_that_nobody_reads_is_worth_nothing_by_both_measures_and_goes_first():
    model = made()
    silence(model, "decoder.1.cross", 2)
    gradient = gradient_importance(model, [functools.partial(mean_loss, model)])
    rises = leave_one_out(model, lambda: mean_loss(model).item())
    assert gradient["decoder.1.cross"][2] == 0
    assert rises["decoder.1.cross"][2] == 0
    assert sum(int((values == 0).sum()) for values in gradient.values()) == 1
    assert least_important(gradient, 1) == {"decoder.1.cross": [2]}
    assert least_important({name: values.abs() for name, values in rises.items()}, 1) == {"decoder.1.cross": [2]}


def test_measuring_leaves_the_model_as_it_was():
    model = made(dropout=0.5).train()
    first = gradient_importance(model, [functools.partial(mean_loss, model)])
    again = gradient_importance(model, [functools.partial(mean_loss, model)])
    assert all(torch.equal(first[name], again[name]) for name in NAMES), "dropout is off while heads are measured"
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    with pytest.raises(KeyError):
        gradient_importance(model.eval(), [functools.partial({}.__getitem__, "no loss")])
    leave_one_out(model, lambda: 0.0)
    assert not model.training
    assert all(attention.head_mask is None for attention in heads_of(model).values())


def test_heads_that_are_gone_are_not_measured():
    model = made()
    remove_heads(model, {NAMES[0]: [0], NAMES[1]: range(HEADS)})
    importance = gradient_importance(model, [functools.partial(mean_loss, model)])
    assert {name: len(values) for name, values in importance.items()} == {
        NAMES[0]: 2,
        **dict.fromkeys(NAMES[2:], HEADS),
    }
    assert list(leave_one_out(model, lambda: mean_loss(model).item())) == list(importance)


# --- which ones go ----------------------------------------------------------------------------------------------------


def test_layers_are_compared_in_units_of_their_own_length():
    importance = {"strong": torch.tensor([300.0, 400.0]), "weak": torch.tensor([0.8, 0.6])}  # as 0.6, 0.8 and 0.8, 0.6
    assert least_important(importance, 2) == {"strong": [0], "weak": [1]}
    assert least_important(importance, 2, per_layer_scale=False) == {"weak": [0, 1]}


def test_a_head_that_does_harm_goes_before_one_that_does_nothing():
    importance = {"one": torch.tensor([3.0, -4.0]), "two": torch.tensor([0.0, 0.0])}
    assert least_important(importance, 1) == {"one": [1]}
    assert least_important(importance, 3) == {"one": [1], "two": [0, 1]}


@given(count=st.integers(0, 9))
def test_so_many_heads_are_chosen_as_were_asked_for_and_more_are_chosen_from_the_rest(count: int):
    importance = {"one": torch.tensor([0.3, 0.1, 0.2]), "two": torch.tensor([0.5, 0.4]), "three": torch.tensor([0.9])}
    chosen = least_important(importance, count)
    assert sum(map(len, chosen.values())) == min(count, 6)
    more = least_important(importance, count + 1)
    assert all(set(heads) <= set(more[name]) for name, heads in chosen.items())


# --- what cannot be ---------------------------------------------------------------------------------------------------


def test_models_without_heads_are_refused():
    model = made()
    remove_heads(model, dict.fromkeys(NAMES, range(HEADS)))
    for nothing, name in ((nn.Linear(2, 2), "Linear"), (model, "Transformer")):
        for measure in (lambda m: gradient_importance(m, []), lambda m: leave_one_out(m, lambda: 0.0)):
            with pytest.raises(InputError) as error:
                measure(nothing)
            assert str(error.value) == f"heads are measured in models that have some, but got a {name} without any."


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            {"encoder.0.attention": [0], "decoder.1.cros": [0]},
            "heads are chosen by the name of their attention module, but got 'decoder.1.cros': did you mean "
            "'decoder.1.cross'?",
        ),
        (
            {"encoder.0.attention": [0], "decoder.1.cross": [0, 3]},
            "heads to remove must be among the 3 of the layer, counted from 0, but got 3.",
        ),
    ],
    ids=["layer", "head"],
)
def test_heads_that_are_not_there_are_named_before_any_is_masked_or_removed(chosen: dict[str, list[int]], message: str):
    model = made()
    with pytest.raises(InputError) as error:
        remove_heads(model, chosen)
    assert str(error.value) == message
    with pytest.raises(InputError) as error, masked_heads(model, chosen):
        pass
    assert str(error.value) == message
    assert torch.equal(output(model), output(made()))


def test_weights_without_heads_are_those_that_are_left():
    weights = {"a": torch.arange(12.0).reshape(1, 3, 2, 2), "b": torch.zeros(1, 2, 2, 2)}
    left = without_heads(weights, {"a": [1], "b": [0, 1]})
    assert list(left) == ["a"]
    assert torch.equal(left["a"], weights["a"][:, [0, 2]])
