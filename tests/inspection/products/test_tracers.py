"""Of every model whose numbers can be opened: each number follows from its terms, down to the input and the weights."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from inspection.products.traceable import KINDS, build, recurrent, text
from neuropil.errors import InputError
from neuropil.inspection.products import open_number, places, trace
from neuropil.inspection.products.opened import LEAVES, NumberPlace, OpenedNumber, Term
from neuropil.inspection.products.stages import TracedPass

EPSILON = {torch.float64: 1e-13, torch.float32: 1e-5}


def size_of(opened: OpenedNumber) -> float:
    """Of the numbers that are added up, in whose last digits a sum is uncertain."""
    finite = [abs(term.value) for term in opened.terms if math.isfinite(term.value)]
    if opened.operation != "normalisation":
        return 1 + math.fsum(finite)
    role = {term.role: abs(term.value) for term in opened.terms}
    deviation = role["std"] if "std" in role else math.sqrt(role["variance"] + role["epsilon"])
    return 1 + role.get("scale", 1) * (role["x"] + role["mean"]) / deviation + role.get("shift", 0)


def value_of(term: Term, opened: OpenedNumber) -> float:
    """By the definition of each operation, from the factors alone."""
    factors = [factor.value for factor in term.factors]
    if opened.operation == "softmax":
        return math.exp(factors[0] - max(each.factors[0].value for each in opened.terms))
    if opened.operation == "variance":
        return (factors[0] - factors[1]) ** 2
    if opened.operation == "squared distance":
        return factors[0] * (factors[1] - factors[2]) ** 2
    return math.prod(factors)


def require_true(opened: OpenedNumber, traced: TracedPass, model: nn.Module, epsilon: float) -> None:
    assert math.isclose(opened.recomputed(), opened.value, rel_tol=0, abs_tol=epsilon * size_of(opened)), opened
    parameters = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers())
    for term in opened.terms:
        assert math.isclose(term.value, value_of(term, opened), rel_tol=1e-12)
        for factor in term.factors:
            if factor.kind == "number":
                assert factor.value == traced.stages[factor.name].values[factor.index]
            elif factor.kind == "parameter":
                assert factor.value == parameters[factor.name][factor.index]


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=12)
@given(data=st.data())
def test_every_way_down_ends_at_the_input_or_a_parameter(name: str, data: st.DataObject):
    model, given_input = build(name)
    traced = trace(model, given_input)
    last = list(traced.stages.values())[-1]
    place: NumberPlace | None = NumberPlace(
        last.name, tuple(data.draw(st.integers(0, size - 1)) for size in last.shape)
    )
    for _ in range(20 * len(traced.stages)):  # a recurrent cell is passed once for each step
        opened = traced.open(place)
        require_true(opened, traced, model, EPSILON[torch.float64])
        if not opened.terms:
            assert opened.operation in LEAVES
            return
        factor = data.draw(st.sampled_from(data.draw(st.sampled_from(opened.terms)).factors))
        place = factor.place
        if place is None:
            assert factor.kind in ("parameter", "constant")
            return
    raise AssertionError("no end was found")


@pytest.mark.parametrize("name", KINDS)
def test_every_stage_follows_from_the_ones_before(name: str):
    """In single precision, with which the fused kernels are used: the first, the last and a number between."""
    model, given_input = build(name, torch.float32)
    traced = trace(model, given_input)
    for stage in traced.stages.values():
        assert len(stage.axes) == len(stage.shape)
        flat = torch.arange(stage.values.numel()).reshape(stage.shape)
        for number in {0, stage.values.numel() // 2, stage.values.numel() - 1}:
            index = tuple(int(axis) for axis in (flat == number).nonzero()[0]) if stage.shape else ()
            opened = traced.open(NumberPlace(stage.name, index))
            require_true(opened, traced, model, EPSILON[torch.float32])
            assert "{" not in opened.equation
            for factor in (factor for term in opened.terms for factor in term.factors if factor.place):
                assert factor.name in traced.stages


@pytest.mark.parametrize("name", KINDS)
def test_the_outputs_are_those_of_the_model(name: str):
    model, given_input = build(name, torch.float32)
    with torch.no_grad():
        outputs = model.eval()(*given_input)[0]
    stages = trace(model, given_input, "identity").stages
    last = list(stages.values())[-1]
    assert torch.equal(last.values, outputs)


@pytest.mark.parametrize("name", ["deep mlp", "gpt2 with fewer heads", "lstm", "transformer"])
def test_looking_changes_nothing(name: str):
    model, given_input = build(name, torch.float32)
    model.train()
    before, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    trace(model, given_input)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert model.training
    assert torch.equal(torch.get_rng_state(), random)
    assert not any(module._forward_hooks or "select" in vars(module) for module in model.modules())


def test_one_number_is_opened_without_a_pass_of_ones_own():
    model, given_input = build("mlp")
    place = NumberPlace("probabilities", (3,))
    assert open_number(model, given_input, place) == trace(model, given_input).open(place)
    assert [stage.name for stage in places(model, given_input[0])] == list(trace(model, given_input).stages)


def test_labels_have_probabilities_of_their_own():
    model, given_input = build("mlp")
    stages = trace(model, given_input, "logistic").stages
    torch.testing.assert_close(stages["probabilities"].values, stages["output"].values.sigmoid())


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (NumberPlace("outputs", (0,)), "a number is opened in a stage of the pass, but got 'outputs': "
         "did you mean 'output'?"),
        (NumberPlace("output", (10,)), "a number of output has an index within [10], but got [10]."),
        (NumberPlace("output", (0, 0)), "a number of output has an index within [10], but got [0, 0]."),
        (NumberPlace("output", (-1,)), "a number of output has an index within [10], but got [-1]."),
    ],
)  # fmt: skip
def test_a_place_that_is_not_there_is_refused(place: NumberPlace, message: str):
    traced = trace(*build("mlp"))
    with pytest.raises(InputError) as error:
        traced.open(place)
    assert str(error.value) == message


def test_other_models_and_batches_are_refused():
    with pytest.raises(InputError) as error:
        trace(nn.Linear(2, 2), torch.zeros(1, 2))
    assert str(error.value) == (
        "the models whose numbers can be opened are MLP, CNN, RecurrentNetwork, RecurrentTextClassifier, GPT2, BERT, "
        "MaskedBERT, BERTClassifier, ViT, Transformer, PatchAttention, but got Linear."
    )
    model, (pictures,) = build("mlp")
    with pytest.raises(InputError) as error:
        trace(model, pictures.expand(3, -1, -1, -1))
    assert str(error.value) == (
        "the numbers of one example are opened, so its batch must be of one, but got a tensor of shape [3, 1, 8, 8]."
    )


def test_a_padded_text_is_refused():
    model, _ = recurrent()
    with pytest.raises(InputError) as error:
        trace(model, torch.nn.functional.pad(*text(3), (0, 2)))
    assert str(error.value) == (
        "a text to open must have one token or more, and no padding, but got 2 tokens of padding among 5."
    )


def test_axes_are_steps_of_a_text_or_patches_of_a_picture():
    assert trace(*build("gpt2")).stages["norm"].axes == ("time", "width")
    assert trace(*build("vit")).stages["norm"].axes == ("patch", "width")
    assert trace(*build("attention")).stages["layers.0.attention.scores"].axes == ("query", "key")


def test_stages_stand_in_the_parts_of_the_model():
    stages = trace(*build("gpt2")).stages
    assert stages["embedding"].path == ()
    assert stages["blocks.1.attention.scores"].path == ("blocks.1", "blocks.1.attention")
    assert stages["blocks.1.feed_forward_sum.norm"].path == ("blocks.1", "blocks.1.feed_forward")
    assert trace(*build("lstm")).stages["reader.forwards.1.c"].path == ("reader.forwards.1",)
    assert trace(*build("residual mingru")).stages["reader.blocks.0.cell.h"].path == (
        "reader.blocks.0",
        "reader.blocks.0.cell",
    )
