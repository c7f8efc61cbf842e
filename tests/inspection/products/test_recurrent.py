import torch
from torch import nn

from inspection.products.traceable import build
from neuropil.inspection.products import trace
from neuropil.inspection.products.opened import NumberPlace
from neuropil.models.text_classifier import RecurrentTextClassifier


def test_the_last_direction_begins_at_the_end():
    traced = trace(*build("lstm in both directions"))
    opened = traced.open(NumberPlace("reader.backwards.0.c", (2, 1)))
    assert [[factor.place for factor in term.factors] for term in opened.terms] == [
        [NumberPlace("reader.backwards.0.forget", (2, 1)), NumberPlace("reader.backwards.0.c", (3, 1))],
        [NumberPlace("reader.backwards.0.input", (2, 1)), NumberPlace("reader.backwards.0.candidate", (2, 1))],
    ]
    assert opened.equation == "c[2, 1] = f[2, 1] c[2+1, 1] + i[2, 1] g[2, 1]"
    first = traced.open(NumberPlace("reader.backwards.0.c", (5, 1))).terms[0].factors[1]
    assert (first.kind, first.value, first.name) == ("constant", 0, "reader.backwards.0.c before the first step")
    last = traced.open(NumberPlace("pooled", (7,))).terms[0].factors[0]
    assert last.place == NumberPlace("reader.1", (0, 7))


def test_cell_states_are_those_of_torch():
    model, given = build("lstm")
    stages, cell = trace(model, given).stages, model.get_submodule("reader.forwards.0")
    theirs = nn.LSTM(4, 5, batch_first=True).double()
    with torch.no_grad():
        names = {"weight_ih_l0": "input_weight", "weight_hh_l0": "state_weight", "bias_ih_l0": "bias"}
        for name, own in names.items():
            theirs.get_parameter(name).copy_(cell.get_parameter(own))
        theirs.get_parameter("bias_hh_l0").zero_()
        h, (_, c) = theirs(model.get_submodule("embedding")(given[0]))
    torch.testing.assert_close(stages["reader.forwards.0.h"].values, h[0])
    torch.testing.assert_close(stages["reader.forwards.0.c"].values[-1], c[0, 0])


def test_the_bag_votes_by_its_share():
    model, given = build("text classifier")
    assert isinstance(model, RecurrentTextClassifier)
    traced = trace(model, given)
    opened = traced.open(NumberPlace("output", (1,)))
    assert [[factor.name for factor in term.factors] for term in opened.terms] == [
        ["1 − share", "bag"],
        ["share", "network.output"],
    ]
    shares = model.bag.features(given[0])[1][0]
    mine = traced.stages["bag.features"].values
    torch.testing.assert_close(mine[mine > 0].sort().values, shares[shares > 0].sort().values)


def test_a_text_of_unknown_words_leaves_the_bag_its_bias():
    model, _ = build("text classifier")
    assert isinstance(model, RecurrentTextClassifier)
    model.bag.idf.zero_()
    traced = trace(model, torch.ones(1, 3, dtype=torch.int64))
    opened = traced.open(NumberPlace("bag", (0,)))
    assert opened.value == opened.recomputed() == model.bag.bias[0]
    assert traced.open(NumberPlace("bag.features", (0,))).recomputed() == 0
