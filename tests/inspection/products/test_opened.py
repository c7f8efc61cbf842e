import math

import pytest
import torch

from inspection.products.traceable import build
from neuropil.inspection.products import trace
from neuropil.inspection.products.opened import NumberPlace, OpenedNumber


def opened(name: str, stage: str, *index: int) -> OpenedNumber:
    return trace(*build(name)).open(NumberPlace(stage, index))


@pytest.mark.parametrize(
    ("name", "stage", "index"),
    [
        ("mlp", "hidden.0", (2,)),
        ("mlp", "probabilities", (7,)),
        ("cnn", "pooled", (1,)),
        ("gru in both directions", "pooled", (3,)),
        ("gpt2", "norm.variance", (2,)),
        ("attention, cosine", "layers.0.attention.query.length", (2,)),
    ],
)
def test_what_is_left_out_is_summed(name: str, stage: str, index: tuple[int, ...]):
    whole = opened(name, stage, *index)
    short = whole.shortened(3)
    assert len(short.terms) == 3
    assert short.rest_count == len(whole.terms) - 3
    assert short.count == whole.count
    assert math.isclose(short.recomputed(), whole.value, rel_tol=1e-12)
    assert short.shortened(3) == short


def test_the_largest_terms_come_first():
    whole = opened("mlp", "hidden.1", 0)
    sizes = [abs(term.value) for term in whole.shortened(4).terms]
    assert sizes == sorted((abs(term.value) for term in whole.terms), reverse=True)[:4]


def test_a_softmax_keeps_its_own_term():
    model, given = build("mlp")
    traced = trace(model, given)
    least = int(traced.stages["probabilities"].values.argmin())
    short = traced.open(NumberPlace("probabilities", (least,))).shortened(2)
    assert [term.factors[0].index for term in short.terms] == [
        (int(traced.stages["output"].values.argmax()),),
        (least,),
    ]


def test_a_normalisation_keeps_all_of_its_parts():
    whole = opened("gpt2", "norm", 1, 1)
    assert whole.shortened(2) is whole
    assert [term.role for term in whole.terms] == ["x", "mean", "variance", "epsilon", "scale", "shift"]


def test_a_masked_score_is_a_leaf():
    model, given = build("gpt2")
    traced = trace(model, given)
    score = traced.open(NumberPlace("blocks.0.attention.scores", (1, 2, 4)))
    assert (score.operation, score.value, score.terms) == ("masked", -math.inf, ())
    assert score.equation == "e[1, 2, 4] = −∞: this query may not look at this key"
    weight = traced.open(NumberPlace("blocks.0.attention.weights", (1, 2, 4)))
    assert (weight.value, weight.recomputed(), weight.own_term.value) == (0, 0, 0)
    assert [term.factors[0].index[-1] for term in weight.terms] == [0, 1, 2, 4]


def test_a_token_names_its_row():
    model, given = build("gpt2")
    found = trace(model, given).open(NumberPlace("tokens", (3, 5)))
    token = int(given[0][0, 3])
    assert found.operation == "lookup"
    assert [(term.role, term.factors[0].name, term.factors[0].index) for term in found.terms] == [
        ("row", "input", (3,)),
        ("found", "tokens.weight", (token, 5)),
    ]
    assert found.value == model.get_parameter("tokens.weight")[token, 5]


def test_one_unit_of_an_mlp_by_hand():
    model, given = build("mlp")
    found = trace(model, given).open(NumberPlace("hidden.0", (2,)))
    assert found.equation == "a[2] = Σ_j W[2, j] h[j] + b[2]"
    weight, bias = model.get_parameter("hidden.0.weight")[2], model.get_parameter("hidden.0.bias")[2]
    inputs = model.get_submodule("standardize")(given[0]).flatten()
    torch.testing.assert_close(torch.tensor([term.value for term in found.terms[:-1]]).double(), weight * inputs)
    assert found.terms[-1].value == bias
    assert found.terms[9].factors[1].place == NumberPlace("standardize", (0, 1, 1))
