import torch

from inspection.products.traceable import build
from neuropil.inspection.activation_maps import activation_maps
from neuropil.inspection.products import trace
from neuropil.inspection.products.opened import NumberPlace


def test_maps_are_the_activation_maps_of_the_layers():
    model, given = build("cnn")
    stages, maps = trace(model, given).stages, activation_maps(model, given[0])
    for name in ("stem", "blocks.0.convolution1", "blocks.1.convolution2", "blocks.1.shortcut"):
        assert torch.equal(stages[name].values, maps[name][0])
    assert torch.equal(stages["blocks.0.relu2"].values, maps["blocks.0"][0])


def test_a_corner_has_fewer_products_than_the_middle():
    traced = trace(*build("cnn"))
    assert len(traced.open(NumberPlace("stem", (0, 0, 0))).terms) == 4
    middle = traced.open(NumberPlace("stem", (0, 5, 6)))
    assert len(middle.terms) == 9
    assert middle.terms[0].factors[0].index == (0, 0, 0, 0)
    assert middle.terms[0].factors[1].place == NumberPlace("standardize", (0, 4, 5))
    assert middle.equation == "a[0, 5, 6] = Σ_c Σ_a Σ_b w[0, c, a, b] x[c, 5 + a − 1, 6 + b − 1]"


def test_a_stride_steps_over_places():
    middle = trace(*build("cnn")).open(NumberPlace("blocks.1.convolution1", (3, 2, 1)))
    assert middle.terms[0].factors[1].place == NumberPlace("blocks.0.relu2", (0, 3, 1))
    assert middle.equation == "a[3, 2, 1] = Σ_c Σ_a Σ_b w[3, c, a, b] x[c, 2·2 + a − 1, 2·1 + b − 1]"
