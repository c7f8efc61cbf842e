import copy
import itertools
import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.inspection.gradients import (
    GradientProfile,
    LayerGradient,
    TimeProfile,
    diagnose,
    profile_gradients,
    profile_time,
)


class Deep(nn.Module):
    """Many equal layers: φ(W x), φ(BN(W x)) or x + φ(W x), where φ is logistic or ReLU."""

    def __init__(self, depth: int, width: int, *, norm: bool = False, residual: bool = False, relu: bool = False):
        super().__init__()
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) if norm else nn.Identity() for _ in range(depth))
        self.output = nn.Linear(width, 3)
        self.residual, self.activation = residual, torch.relu if relu else torch.sigmoid
        for layer in [*self.hidden, self.output]:
            nn.init.xavier_normal_(layer.weight)

    def forward(self, x: Tensor) -> Tensor:
        for layer, norm in zip(self.hidden, self.norms, strict=True):
            y = self.activation(norm(layer(x)))
            x = x + y if self.residual else y
        return self.output(x)


def profile_of(model: nn.Module, width: int, examples: int = 64) -> GradientProfile:
    x = torch.randn(examples, width, generator=torch.Generator().manual_seed(1), dtype=next(model.parameters()).dtype)
    targets = torch.arange(examples) % 3
    return profile_gradients(model, lambda: F.cross_entropy(model(x), targets))


@settings(deadline=None, max_examples=20)
@given(depth=st.integers(2, 12), width=st.integers(2, 20), seed=st.integers(0, 100))
def test_each_sigmoid_layer_passes_on_at_most_a_quarter_of_its_weights_norm(depth: int, width: int, seed: int):
    torch.manual_seed(seed)
    model = Deep(depth, width).double()
    norms = [norm for _, norm in profile_of(model, width).flow()]
    for layer, (below, above) in zip([*model.hidden, model.output][1:], itertools.pairwise(norms), strict=True):
        spectral = torch.linalg.matrix_norm(layer.weight.detach(), 2).item()
        assert below <= 0.25 * spectral * above * (1 + 1e-9)


def test_a_deep_sigmoid_network_shrinks_gradients_fourfold_per_layer_and_its_remedies_do_not():
    torch.manual_seed(0)
    (vanishing,) = diagnose(profile_of(Deep(12, 64), 64))
    shrinkage = re.match(r"Gradients shrink (.*)× per layer from output to hidden.0 \(vanishing\): ", vanishing)
    assert shrinkage
    assert 3.8 < float(shrinkage[1]) < 4.6
    for remedy in (Deep(12, 64, norm=True), Deep(12, 64, residual=True), Deep(12, 64, relu=True)):
        assert diagnose(profile_of(remedy, 64))[-1].endswith(
            "from output to hidden.0: they neither vanish nor explode."
        )


def test_norms_are_those_of_plain_back_propagation():
    torch.manual_seed(0)
    model = Deep(3, 8, norm=True).double()
    twin = copy.deepcopy(model)
    x, targets = torch.randn(16, 8, dtype=torch.double), torch.arange(16) % 3
    F.cross_entropy(twin(x), targets).backward()
    profile = profile_gradients(model, lambda: F.cross_entropy(model(x), targets))
    assert [layer.name for layer in profile.layers] == [
        "hidden.0",
        "norms.0",
        "hidden.1",
        "norms.1",
        "hidden.2",
        "norms.2",
        "output",
    ]
    for layer in profile.layers:
        parameters = list(twin.get_submodule(layer.name).parameters())
        assert layer.gradient_norm == pytest.approx(
            math.hypot(*[p.grad.norm().item() for p in parameters if p.grad is not None]), rel=1e-12
        )
        assert layer.parameter_norm == pytest.approx(math.hypot(*[p.norm().item() for p in parameters]), rel=1e-12)


def test_the_gradient_at_an_output_is_the_analytic_one():
    """Softmax cross-entropy: ∂loss/∂logits = (softmax(z) - y) / batch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    x, targets = torch.randn(7, 5, dtype=torch.double), torch.arange(7) % 3
    profile = profile_gradients(model, lambda: F.cross_entropy(model(x), targets))
    expected = (model(x).softmax(1) - F.one_hot(targets, 3)).norm().item() / 7
    assert profile.layers[-1].activation_gradient_norm == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("training", [True, False])
def test_looking_changes_nothing(training: bool):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(6, 3)
    ).train(training)
    model[0].weight.grad = torch.randn(6, 6)
    model[1].eval()
    model[0].bias.requires_grad_(False)
    x, targets = torch.randn(16, 6), torch.arange(16) % 3
    before = copy.deepcopy(model)
    gradient, state, modes = (
        model[0].weight.grad,
        torch.get_rng_state(),
        [module.training for module in model.modules()],
    )
    values = gradient.clone()

    def loss() -> Tensor:
        model.train()
        return F.cross_entropy(model(x), targets) + 0 * torch.rand(())

    profile_gradients(model, loss)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in model.modules()] == modes
    assert model[0].weight.grad is gradient
    assert torch.equal(gradient, values)
    assert all(parameter.grad is None for name, parameter in model.named_parameters() if name != "0.weight")
    for name, value in model.state_dict().items():
        assert torch.equal(value, before.state_dict()[name]), name
    assert not any(module._forward_hooks for module in model.modules())


def test_looking_changes_nothing_even_when_the_loss_fails():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
    state = {name: value.clone() for name, value in model.state_dict().items()}

    def loss() -> Tensor:
        model(torch.randn(4, 2))
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        profile_gradients(model, loss)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


def test_layers_are_in_the_order_in_which_they_are_used():
    class Backwards(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.middle, self.first = nn.Linear(4, 1), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.middle(self.first(x)))

    model = Backwards()
    profile = profile_gradients(model, lambda: model(torch.ones(2, 4)).sum())
    assert [layer.name for layer in profile.layers] == ["first", "middle", "last"]


def test_parameters_that_a_model_holds_itself_stand_alone():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))
            self.V, self.W = nn.Parameter(torch.randn(4, 1)), nn.Parameter(torch.randn(4, 4))
            self.inner = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return (self.inner(x @ self.W) * self.scale) @ self.V

    model = Plain()
    profile = profile_gradients(model, lambda: model(torch.ones(2, 4)).sum())
    assert [layer.name for layer in profile.layers] == ["W", "inner", "scale", "V"]
    assert [name for name, _ in profile.flow()] == ["W", "inner", "V"]
    assert [norm for _, norm in profile.flow()] == [
        layer.gradient_norm for layer in profile.layers if layer.has_weights
    ]


def test_a_module_that_is_used_twice_is_one_layer_with_the_gradients_of_both_uses():
    model = nn.ModuleDict({"shared": nn.Linear(1, 1, bias=False)}).double()
    nn.init.constant_(model["shared"].weight, 3.0)  # type: ignore[arg-type]
    x = torch.full((1, 1), 2.0, dtype=torch.double)
    (layer,) = profile_gradients(model, lambda: model["shared"](model["shared"](x)).sum()).layers
    # y = w² x: dy/dw = 2 w x = 12; at the two outputs dy/d(w x) = w = 3 and dy/dy = 1
    assert layer.gradient_norm == 12
    assert layer.activation_gradient_norm == pytest.approx(math.sqrt(10), rel=1e-15)


@pytest.mark.parametrize("inplace", [False, True])
def test_units_that_no_example_switches_on_are_dead(inplace: bool):
    torch.manual_seed(0)
    first = nn.Linear(6, 10)
    with torch.no_grad():
        first.bias[:3], first.bias[3:] = -100, 100
    model = nn.Sequential(first, nn.ReLU(inplace), nn.Linear(10, 2))
    profile = profile_gradients(model, lambda: model(torch.randn(32, 6)).square().sum())
    assert [layer.dead_share for layer in profile.layers] == [pytest.approx(0.3), 0]
    assert diagnose(profile)[0] == (
        "30 % of the units of 0 receive no gradient from any example of this batch (dead): "
        "try a lower learning rate, a leaky ReLU or GELU, or batch normalisation before the activation."
    )


def test_channels_that_no_pixel_switches_on_are_dead():
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(4)
    with torch.no_grad():
        norm.bias[0] = -100
    model = nn.Sequential(nn.Conv2d(1, 4, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
    profile = profile_gradients(model, lambda: model(torch.randn(5, 1, 8, 8)).square().sum())
    assert [layer.dead_share for layer in profile.layers] == [0.25, 0.25, 0]


def test_a_layer_that_the_loss_does_not_use_stands_last_and_is_named():
    model = nn.ModuleDict({"idle": nn.Linear(2, 2), "used": nn.Linear(2, 2)})
    profile = profile_gradients(model, lambda: model["used"](torch.ones(1, 2)).sum())
    assert [(layer.name, layer.gradient_norm > 0) for layer in profile.layers] == [("used", True), ("idle", False)]
    assert diagnose(profile) == [
        "No gradient reaches idle: the loss does not use it, or every unit on the way there is saturated or dead.",
    ]


def test_frozen_parameters_are_left_out():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    assert [layer.name for layer in profile_gradients(model, lambda: model(torch.ones(1, 2)).sum()).layers] == ["1"]


def test_a_loss_that_differentiates_inside_itself_is_seen_once():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    x = torch.randn(4, 3, dtype=torch.double)

    def attacked() -> Tensor:
        start = x.clone().requires_grad_()
        (direction,) = torch.autograd.grad(model(start).sum(), start)
        return model(x + direction.sign()).sum()

    start = x.clone().requires_grad_()
    (direction,) = torch.autograd.grad(model(start).sum(), start)
    plain = profile_gradients(model, lambda: model(x + direction.sign()).sum())
    assert profile_gradients(model, attacked) == plain


@pytest.mark.parametrize(
    ("model", "layers"),
    [
        (nn.LSTM(4, 4, num_layers=2, batch_first=True), ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]),
        (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), ["self_attn.in_proj_weight", "self_attn.in_proj_bias"]),
        (nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4)), ["0", "1"]),
    ],
    ids=["LSTM", "transformer", "embedding"],
)
def test_any_module_has_a_profile(model: nn.Module, layers: list[str]):
    torch.manual_seed(0)
    x = torch.arange(6).view(2, 3) if isinstance(model, nn.Sequential) else torch.randn(2, 3, 4)

    def loss() -> Tensor:
        output = model(x)
        return (output if isinstance(output, Tensor) else output[0]).square().sum()

    profile = profile_gradients(model, loss)
    assert [layer.name for layer in profile.layers][: len(layers)] == layers
    assert all(layer.gradient_norm > 0 for layer in profile.layers)


def test_gradients_that_grow_are_called_exploding():
    model = nn.Sequential(*[nn.Linear(8, 8, bias=False) for _ in range(6)])
    for layer in model:
        nn.init.orthogonal_(layer.weight, gain=3)  # type: ignore[arg-type]
    assert diagnose(profile_gradients(model, lambda: model(torch.randn(4, 8)).sum())) == [
        "Gradients grow 3.0× per layer from 5 to 0 (exploding): 0 receives 200 times what 5 does; "
        "clip gradients, start from smaller weights or normalise layers."
    ]


def test_gradients_that_shrink_are_called_vanishing():
    layers = [LayerGradient(name, 1.0, 1.0, 4.0**index) for index, name in enumerate("abcde")]
    assert diagnose(GradientProfile(1.0, layers)) == [
        "Gradients shrink 4.0× per layer from e to a (vanishing): a receives 1/300 of what e does; "
        "try ReLU, residual connections or batch normalisation."
    ]


def test_one_weak_layer_is_named():
    layers = [
        LayerGradient(name, 1.0, 1.0, norm) for name, norm in zip("abcde", (1.0, 1.0, 1e-3, 1.0, 1.0), strict=True)
    ]
    assert diagnose(GradientProfile(1.0, layers)) == [
        "Gradients differ 1000× between layers without a trend from the output to the input: "
        "look at a, where they are largest, and c, where they are smallest."
    ]


def test_numbers_that_overflow_are_found():
    layer = nn.Linear(1, 1, bias=False)
    nn.init.ones_(layer.weight)
    model = nn.Sequential(layer)
    (sentence,) = diagnose(profile_gradients(model, lambda: model(torch.ones(1, 1)).exp().mul(1e38).pow(2).sum()))
    assert sentence == (
        "Numbers overflowed: gradients at 0 are not finite (the loss is inf); "
        "lower the learning rate, clip gradients, and look for log(0) or a division by zero."
    )


def test_a_loss_of_several_numbers_is_refused():
    model = nn.Linear(2, 2)
    with pytest.raises(InputError) as error:
        profile_gradients(model, lambda: model(torch.ones(1, 2)))
    assert (
        str(error.value) == "gradients need a loss that is one differentiable number, but got a tensor of shape (1, 2)."
    )


def test_a_loss_without_gradient_is_refused():
    with pytest.raises(InputError) as error:
        profile_gradients(nn.Linear(2, 2), lambda: torch.zeros(()))
    assert str(error.value) == (
        "gradients need a loss that is one differentiable number, but got a number that depends on no trainable "
        "parameter or watched input."
    )


def test_a_model_without_parameters_is_refused():
    with pytest.raises(InputError) as error:
        profile_gradients(nn.ReLU(), lambda: torch.zeros(()))
    assert str(error.value) == "a gradient profile needs trainable parameters, but got ReLU with none."


class Scalar(nn.Module):
    """h_t = w h_{t-1} + x_t"""

    def __init__(self, w: float):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(w, dtype=torch.double))

    def forward(self, x: Tensor) -> Tensor:
        states, state = [], torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            state = self.w * state + x[:, t]
            states.append(state)
        return torch.stack(states, 1)


@pytest.mark.parametrize("w", [0.5, 1.0, 2.0, -0.75])
def test_the_scalar_recurrence_keeps_w_to_the_power_n(w: float):
    norms = profile_time(Scalar(w), torch.randn(1, 30, 1, dtype=torch.double)).norms
    assert norms == [abs(w) ** n for n in range(30)]


def test_time_is_diagnosed_in_words():
    x = torch.randn(1, 31, 1, dtype=torch.double)
    assert [diagnose(profile_time(Scalar(w), x))[0] for w in (0.5, 1.0, 2.0)] == [
        "The gradient shrinks 2.00× per step back in time (vanishing): 30 steps back 1/1,000,000,000 of it is left; "
        "try open gates (LSTM or GRU with a forget bias of 1 or more) or attention.",
        "The gradient stays within a factor of 1.0 over 30 steps: it neither vanishes nor explodes.",
        "The gradient grows 2.00× per step back in time (exploding): 30 steps back it is 1,000,000,000 times as large; "
        "clip gradients or start from smaller recurrent weights.",
    ]
    assert diagnose(TimeProfile([1.0, 0.001, 1.0, 0.9, 0.8, 1.0])) == [
        "The gradient differs 1,000× over 5 steps without a steady trend: it is largest 0 and smallest 1 steps back in "
        "time."
    ]
    assert diagnose(TimeProfile([1.0, 0.5, 0.0])) == [
        "No gradient reaches the input 2 steps before the last: the model cannot learn from further back."
    ]


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_modules_of_torch_have_the_profile_of_their_jacobians(kind: str):
    torch.manual_seed(0)
    model = getattr(nn, kind)(3, 5, batch_first=True).double()
    x = torch.randn(2, 7, 3, dtype=torch.double)
    jacobian = torch.autograd.functional.jacobian(lambda x: model(x)[0][:, -1].sum(), x)
    assert profile_time(model, x).norms == pytest.approx(
        jacobian.square().sum((0, 2)).sqrt().flip(0).tolist(), rel=1e-12
    )
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_loss_of_ones_own_may_look_at_any_step():
    norms = profile_time(Scalar(0.5), torch.ones(1, 4, 1, dtype=torch.double), lambda states: states[:, 1].sum()).norms
    assert norms == [0, 0, 1, 0.5]


def test_a_loss_that_ignores_the_inputs_is_refused():
    w = torch.ones((), requires_grad=True)
    with pytest.raises(InputError) as error:
        profile_time(lambda x: x, torch.ones(1, 4, 1), lambda _: w * 1)
    assert str(error.value) == "a profile in time needs a loss that depends on the inputs, but got one that does not."
