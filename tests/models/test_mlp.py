import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.models.mlp import MLP, MLPConfig, always_on, gradients_by_hand, with_bias_unit
from neuropil.parts.activations import ACTIVATIONS, ActivationName
from real_data import diabetes


def pictures(count: int) -> torch.Tensor:
    return torch.randint(0, 256, (count, 1, 8, 8), dtype=torch.uint8)


def test_a_bias_is_the_weight_of_a_unit_that_is_always_on():
    layer, x = torch.nn.Linear(5, 3), torch.randn(7, 5)
    without = with_bias_unit(layer)
    assert without.bias is None
    torch.testing.assert_close(without(always_on(x)), layer(x))


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("residual", [False, True])
def test_layers_without_activation_collapse_to_one(batch_norm: bool, residual: bool):
    model = MLP(
        MLPConfig(
            hidden_sizes=(30, 30, 20), activation="identity", dropout=0.5, batch_norm=batch_norm, residual=residual
        )
    )
    model.standardize.fit(pictures(50))
    with torch.no_grad():
        for _ in range(3):
            model(pictures(50))  # running statistics that are not 0 and 1
    x = pictures(6)
    collapsed = model.collapse()
    assert (collapsed.in_features, collapsed.out_features) == (64, 10)
    torch.testing.assert_close(collapsed(x.flatten(1).float()), model.eval()(x), atol=1e-4, rtol=1e-4)


def test_the_collapsed_weight_is_the_product_of_the_weights():
    model = MLP(MLPConfig(hidden_sizes=(7, 5), activation="identity", shape=(4,), outputs=3))
    first, second = (model.get_submodule(f"hidden.{i}").get_parameter("weight") for i in range(2))
    torch.testing.assert_close(model.collapse().weight, model.output.weight @ second @ first)


def test_layers_with_an_activation_do_not_collapse():
    with pytest.raises(InputError) as error:
        MLP(MLPConfig(activation="tanh")).collapse()
    assert str(error.value) == "only layers without an activation collapse to one, but got activation='tanh'."


def test_collapse_leaves_the_model_as_it_was():
    model = MLP(MLPConfig(hidden_sizes=(8,), activation="identity", batch_norm=True))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.collapse()
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_learns_to_tell_apart_what_no_line_can(activation: ActivationName):
    torch.manual_seed(0)
    x = torch.rand(256, 2) * 2 - 1
    target = (x[:, 0] * x[:, 1] > 0).long()  # exclusive or
    model = MLP(MLPConfig(hidden_sizes=(32, 32), activation=activation, dropout=0.0, shape=(2,), outputs=2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(model(x), target).backward()
        optimizer.step()
    accuracy = (model.eval()(x).argmax(-1) == target).float().mean().item()
    assert accuracy < 0.75 if activation == "identity" else accuracy > 0.9


@pytest.mark.parametrize(
    ("shape", "examples", "sizes"),
    [((10,), 1_999, (64,)), ((10,), 2_000, (256, 256)), ((1, 8, 8), 100, (256, 256))],
)
def test_small_tables_have_a_small_network(shape: tuple[int, ...], examples: int, sizes: tuple[int, ...]):
    assert MLPConfig(shape=shape).sized(examples).hidden_sizes == sizes
    given = MLPConfig(shape=shape, hidden_sizes=())
    assert given.sized(examples) == given


def test_without_examples_the_sizes_are_the_usual_ones():
    config = MLP(MLPConfig(shape=(4,))).config
    assert config.hidden_sizes == (256, 256)
    assert MLPConfig.from_dict(config.to_dict()) == config


def test_no_hidden_layer_is_a_linear_model():
    model, x = MLP(MLPConfig(hidden_sizes=(), shape=(4,), outputs=2)), torch.randn(5, 4)
    torch.testing.assert_close(model(x), F.linear(x, model.output.weight, model.output.bias))
    torch.testing.assert_close(model.collapse().weight, model.output.weight)


def test_depth_leaves_the_size_of_the_signal_alone():
    for activation in ("relu", "identity"):
        torch.manual_seed(0)
        model = MLP(MLPConfig(hidden_sizes=(256,) * 30, activation=activation, dropout=0.0, shape=(256,), outputs=256))
        ratio = model(torch.randn(64, 256)).square().mean() / 1.0
        assert 0.1 < ratio < 10


def test_gradients_of_a_sigmoid_net_shrink_by_four_in_each_layer_and_residual_layers_keep_them():
    def shrinkage(batch_norm: bool = False, residual: bool = False) -> float:
        """Mean factor between the gradient norms of neighbouring layers, seen from the output."""
        torch.manual_seed(0)
        config = MLPConfig(
            hidden_sizes=(128,) * 12,
            activation="logistic",
            dropout=0.0,
            batch_norm=batch_norm,
            residual=residual,
            shape=(128,),
        )
        model = MLP(config)
        F.cross_entropy(model(torch.randn(64, 128)), torch.randint(0, 10, (64,))).backward()
        norms = [model.get_submodule(f"hidden.{i}").get_parameter("bias").grad for i in range(12)]
        first, last = (gradient.norm().item() for gradient in (norms[0], norms[-1]) if gradient is not None)
        return (last / first) ** (1 / 11)

    assert 3.5 < shrinkage() < 4.7
    assert shrinkage(batch_norm=True) < 1.5
    assert shrinkage(residual=True) < 1.5


def test_targets_far_from_zero_are_learned_in_their_own_units():
    torch.manual_seed(0)
    _, table, target = diabetes()
    x, t = torch.from_numpy(table).float(), torch.from_numpy(target).float()[:, None]  # from 25 to 346
    model = MLP(MLPConfig(hidden_sizes=(32,), dropout=0.0, shape=(10,), outputs=1))
    model.standardize.fit(x)
    model.target_scale.fit(t)
    assert abs(model(x).mean() - t.mean()) < t.std()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        F.mse_loss(model(x), t).backward()
        optimizer.step()
    explained = 1 - (model(x) - t).square().mean() / t.var()
    assert explained > 0.5  # a linear fit explains 0.52


def autograd_of(model: MLP, x: Tensor, dy: Tensor) -> list[Tensor]:
    """∂W and ∂b of each layer."""
    layers = [*model.hidden, model.output]
    sources = [layer.get_parameter(name) for layer in layers for name in ("weight", "bias")]
    return list(torch.autograd.grad(model(x), sources, dy))


@settings(deadline=None, max_examples=60)
@given(
    batch=st.integers(1, 5),
    sizes=st.lists(st.integers(1, 4), max_size=4).map(tuple),
    outputs=st.integers(1, 3),
    activation=st.sampled_from(list(ACTIVATIONS)),
    residual=...,
)
def test_gradients_by_hand_are_those_of_autograd(
    batch: int, sizes: tuple[int, ...], outputs: int, activation: ActivationName, residual: bool
):
    torch.manual_seed(batch + 10 * len(sizes))
    config = MLPConfig(
        hidden_sizes=sizes, activation=activation, residual=residual, dropout=0.0, shape=(3, 2, 1), outputs=outputs
    )
    model = MLP(config).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    model.standardize.fit(3 + torch.randn(9, 3, 2, 1))
    model.target_scale.fit(100 * torch.randn(9, outputs))
    x, dy = torch.randn(batch, 3, 2, 1).double(), torch.randn(batch, outputs).double()
    found = gradients_by_hand(model, x, dy)
    ours = [each for layer in found for each in (layer.W, layer.b)]
    torch.testing.assert_close(ours, autograd_of(model, x, dy), rtol=1e-6, atol=1e-9)
    assert [layer.delta.shape for layer in found] == [(batch, size) for size in (*sizes, outputs)]


def test_the_first_link_of_each_loss_by_hand():
    """∂E/∂y as the docstring says it, for the losses as torch has them."""
    torch.manual_seed(0)
    model = MLP(MLPConfig(hidden_sizes=(7, 5), activation="tanh", dropout=0.0, shape=(4,), outputs=3)).double()
    x, kind, on = torch.randn(6, 4).double(), torch.randint(0, 3, (6,)), torch.randint(0, 2, (6, 3)).double()
    y, number = model(x), torch.randn(6, 3).double()
    losses = {
        "categorical": (F.cross_entropy(y, kind), (y.softmax(-1) - F.one_hot(kind, 3)) / 6),
        "Bernoulli": (F.binary_cross_entropy_with_logits(y, on, reduction="sum") / 6, (y.sigmoid() - on) / 6),
        "squared": (F.mse_loss(y, number, reduction="sum") / 2 / 6, (y - number) / 6),
    }
    parameters = list(model.parameters())
    for loss, dy in losses.values():
        expected = torch.autograd.grad(loss, parameters, retain_graph=True)
        found = [each for layer in gradients_by_hand(model, x, dy.detach()) for each in (layer.W, layer.b)]
        torch.testing.assert_close(found, list(expected))


def test_gradients_by_hand_refuse_what_they_are_not_written_for():
    x, dy = torch.zeros(2, 4), torch.zeros(2, 3)
    rule = "back-propagation by hand is written for layers without dropout and batch normalisation, but got "
    with pytest.raises(InputError) as error:
        gradients_by_hand(MLP(MLPConfig(hidden_sizes=(4,), batch_norm=True, shape=(4,), outputs=3)), x, dy)
    assert str(error.value) == f"{rule}batch_norm=True."
    model = MLP(MLPConfig(hidden_sizes=(4,), dropout=0.2, shape=(4,), outputs=3))
    with pytest.raises(InputError) as error:
        gradients_by_hand(model, x, dy)
    assert str(error.value) == f"{rule}dropout=0.2 in training: call model.eval() first."
    assert len(gradients_by_hand(model.eval(), x, dy)) == 2
