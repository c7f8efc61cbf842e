import pytest
import torch

from inspection.products.traceable import build
from neuropil.errors import InputError
from neuropil.inspection.products import trace
from neuropil.inspection.products.opened import NumberPlace
from neuropil.inspection.recording import record
from neuropil.parts.attention import Dot
from neuropil.parts.multi_head import heads_of


@pytest.mark.parametrize(
    "name",
    ["gpt2", "bert", "vit", "transformer", "transformer, pre-norm", "attention", "attention, cosine",
     "attention, gaussian", "attention, additive"],
)  # fmt: skip
def test_weights_are_those_that_are_recorded(name: str):
    model, given = build(name)
    with torch.no_grad(), record(model.eval()) as tape:
        model(*given)
    stages = trace(model, given).stages
    for module, weights in tape.attention.items():
        mine = stages[f"{module}.weights"].values
        torch.testing.assert_close(mine if mine.ndim == 3 else mine[None], weights[0])


def test_a_score_is_a_sum_of_products_of_a_query_and_a_key():
    traced = trace(*build("gpt2"))
    opened = traced.open(NumberPlace("blocks.1.attention.scores", (1, 4, 2)))
    assert opened.equation == "e[1, 4, 2] = 1/√d Σ_w q[1, 4, w] k[1, 2, w]"
    assert [factor.place for factor in opened.terms[3].factors] == [
        None,
        NumberPlace("blocks.1.attention.query", (1, 4, 3)),
        NumberPlace("blocks.1.attention.key", (1, 2, 3)),
    ]
    query = traced.open(NumberPlace("blocks.1.attention.query", (1, 4, 3)))
    assert query.terms[0].factors[0].index == (7, 0)  # head 1 of width 4, number 3
    mixed = traced.open(NumberPlace("blocks.1.attention.mixed", (1, 2, 3)))
    assert [term.factors[1].index for term in mixed.terms] == [(1, key, 3) for key in range(3)]
    assert mixed.equation == "o[1, 2, 3] = Σ_j a[1, 2, j] v[1, j, 3]"


def test_cross_attention_looks_at_what_was_read():
    traced = trace(*build("transformer, pre-norm"))
    key = traced.open(NumberPlace("decoder.0.cross.key", (0, 2, 1)))
    assert key.terms[0].factors[1].place == NumberPlace("encoder_norm", (2, 0))
    query = traced.open(NumberPlace("decoder.0.cross.query", (0, 2, 1)))
    assert query.terms[0].factors[1].place == NumberPlace("decoder.0.cross_sum.norm", (2, 0))


def test_heads_that_were_removed_leave_the_bias():
    model, given = build("gpt2 with fewer heads")
    opened = trace(model, given).open(NumberPlace("blocks.0.attention", (1, 2)))
    assert [term.factors[0].name for term in opened.terms] == ["blocks.0.attention.output.bias"]


def test_other_scores_are_refused():
    model, given = build("gpt2")
    heads_of(model)["blocks.0.attention"].score = Dot()
    with pytest.raises(InputError) as error:
        trace(model, given)
    assert str(error.value) == (
        "the scores that can be opened are scaled dot, cosine, Gaussian and additive, but got Dot."
    )
