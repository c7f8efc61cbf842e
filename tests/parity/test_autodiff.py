"""Values and gradients of every op, layer and optimiser beside torch's own, in double precision."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes
from torch import Tensor
from torch.nn import functional as F

from neuropil.autodiff import Var, modules, ops
from neuropil.autodiff.engine import Array

SHAPES = array_shapes(min_dims=0, max_dims=4, max_side=4)
BROADCASTING = mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3).map(lambda pair: pair.input_shapes)
SEEDS = st.integers(0, 2**32 - 1)
quick = settings(deadline=None, max_examples=25)


def require_parity(ours: Callable[..., Var], theirs: Callable[..., Tensor], *arrays: Array, seed: int = 0) -> None:
    """Equal values, and equal gradients of every argument under one random seed of backward."""
    variables = [Var(array) for array in arrays]
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    y, expected = ours(*variables), theirs(*tensors)
    assert y.shape == tuple(expected.shape)
    np.testing.assert_allclose(y.val, expected.detach().numpy(), rtol=1e-10, atol=1e-12)
    direction = np.random.default_rng(seed).normal(size=y.shape)
    y.backward(direction)
    expected.backward(torch.tensor(direction))
    for var, tensor in zip(variables, tensors, strict=True):
        assert tensor.grad is not None
        np.testing.assert_allclose(var.grad, tensor.grad.numpy(), rtol=1e-8, atol=1e-10)


def normal(shape: tuple[int, ...], seed: int) -> Array:
    return np.asarray(np.random.default_rng(seed).normal(size=shape))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "power"])
@given(shapes=BROADCASTING, seed=SEEDS)
@quick
def test_arithmetic_broadcasts_as_torch_does(name: str, shapes: tuple[tuple[int, ...], ...], seed: int):
    a, b = (normal(shape, seed + i) for i, shape in enumerate(shapes))
    if name in ("div", "power"):
        a, b = np.abs(a) + 0.1, np.asarray(np.sign(b) * (np.abs(b) + 0.1))
    require_parity(getattr(ops, name), getattr(torch, {"power": "pow"}.get(name, name)), a, b, seed=seed)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -2, 0.5])
def test_powers_with_a_number_equal_torch_at_zero_too(exponent: float):
    x = np.array([0.7, 2.0, 0.0] if exponent in (0, 1, 2, 3) else [0.7, 2.0])
    require_parity(lambda v: v**exponent, lambda t: t**exponent, x)


@given(shapes=mutually_broadcastable_shapes(signature="(m?,n),(n,p?)->(m?,p?)", max_dims=2, max_side=3), seed=SEEDS)
@quick
def test_matmul_equals_torch_for_vectors_matrices_and_batches(shapes: Any, seed: int):
    a, b = (normal(shape, seed + i) for i, shape in enumerate(shapes.input_shapes))
    require_parity(ops.matmul, torch.matmul, a, b, seed=seed)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (ops.neg, torch.neg), (ops.exp, torch.exp), (ops.tanh, torch.tanh),
        (ops.sigmoid, torch.sigmoid), (ops.relu, torch.relu),
        (ops.softplus, lambda x: F.softplus(x, threshold=1e9)), (ops.abs, torch.abs),
        (ops.sin, torch.sin), (ops.cos, torch.cos),
        (lambda x: ops.log(ops.abs(x)), lambda x: x.abs().log()),
    ],
    ids=["neg", "exp", "tanh", "sigmoid", "relu", "softplus", "abs", "sin", "cos", "log"],
)  # fmt: skip
@given(shape=SHAPES, seed=SEEDS)
@quick
def test_functions_of_each_element_equal_torch(
    ours: Callable[..., Var], theirs: Callable[..., Tensor], shape: tuple[int, ...], seed: int
):
    require_parity(ours, theirs, normal(shape, seed), seed=seed)


@given(shapes=mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3), seed=SEEDS)
@quick
def test_where_equals_torch(shapes: Any, seed: int):
    condition, a, b = (normal(shape, seed + i) for i, shape in enumerate(shapes.input_shapes))
    chosen = torch.tensor(condition > 0)
    require_parity(lambda a, b: ops.where(condition > 0, a, b), lambda a, b: torch.where(chosen, a, b), a, b, seed=seed)


@st.composite
def reductions(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    shape = draw(array_shapes(max_dims=4, max_side=4))
    axes = draw(st.sets(st.integers(-len(shape), len(shape) - 1), min_size=1))
    return shape, tuple({axis % len(shape): axis for axis in axes}.values()), draw(st.booleans())


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "logsumexp"])
@given(case=reductions(), seed=SEEDS)
@quick
def test_reductions_equal_torch_over_any_axes(
    name: str, case: tuple[tuple[int, ...], tuple[int, ...], bool], seed: int
):
    shape, axes, keepdims = case
    theirs = getattr(torch, {"max": "amax", "min": "amin"}.get(name, name))
    require_parity(
        lambda x: getattr(ops, name)(x, axes, keepdims),
        lambda t: theirs(t, dim=axes, keepdim=keepdims),
        normal(shape, seed),
        seed=seed,
    )


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin"])
def test_reductions_over_everything_and_ties_equal_torch(name: str):
    x = np.array([[1.0, 3.0, 3.0], [1.0, 1.0, 3.0]])
    require_parity(getattr(ops, name.removeprefix("a")), getattr(torch, name), x)


@given(case=reductions(), seed=SEEDS)
@quick
def test_softmax_and_its_logarithm_equal_torch(case: tuple[tuple[int, ...], tuple[int, ...], bool], seed: int):
    shape, (axis, *_), _ = case
    x = 5 * normal(shape, seed)
    require_parity(lambda v: ops.softmax(v, axis), lambda t: t.softmax(axis), x, seed=seed)
    require_parity(lambda v: ops.log_softmax(v, axis), lambda t: t.log_softmax(axis), x, seed=seed)


@given(batch=array_shapes(min_dims=0, max_dims=2, max_side=4), classes=st.integers(1, 5), seed=SEEDS)
@quick
def test_losses_equal_torch(batch: tuple[int, ...], classes: int, seed: int):
    logits, target = normal((*batch, classes), seed), normal((classes,), seed + 1)
    labels = np.random.default_rng(seed).integers(0, classes, batch)
    flat = torch.tensor(labels.reshape(-1))
    require_parity(
        lambda v: ops.cross_entropy(v, np.asarray(labels)),
        lambda t: F.cross_entropy(t.reshape(-1, classes), flat),
        logits,
    )
    require_parity(ops.squared_error, lambda y, t: (y - t).square().mean(), logits, target)


@given(shape=array_shapes(min_dims=1, max_dims=4, max_side=4), seed=SEEDS, data=st.data())
@quick
def test_moving_elements_equals_torch(shape: tuple[int, ...], seed: int, data: st.DataObject):
    x, y = normal(shape, seed), normal(shape, seed + 1)
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    rows = data.draw(st.lists(st.integers(-shape[0], shape[0] - 1), min_size=1, max_size=6))
    require_parity(lambda v: v.transpose(axes), lambda t: t.permute(axes), x, seed=seed)
    require_parity(lambda v: v.reshape((-1, shape[-1])), lambda t: t.reshape(-1, shape[-1]), x, seed=seed)
    require_parity(lambda v: v[np.array(rows)], lambda t: t[rows], x, seed=seed)
    require_parity(lambda v: v[..., ::2], lambda t: t[..., ::2], x, seed=seed)
    require_parity(
        lambda a, b: ops.concatenate(a, b, a, axis=axis), lambda a, b: torch.cat((a, b, a), axis), x, y, seed=seed
    )
    require_parity(lambda a, b: ops.stack(a, b, axis=axis), lambda a, b: torch.stack((a, b), axis), x, y, seed=seed)


@given(
    batch=st.integers(1, 2), channels=st.tuples(*[st.integers(1, 3)] * 2), size=st.tuples(*[st.integers(1, 3)] * 2),
    extra=st.tuples(*[st.integers(0, 4)] * 2), stride=st.integers(1, 3), padding=st.integers(0, 2), seed=SEEDS,
)  # fmt: skip
@quick
def test_convolution_equals_torch(
    batch: int,
    channels: tuple[int, int],
    size: tuple[int, int],
    extra: tuple[int, int],
    stride: int,
    padding: int,
    seed: int,
):
    x = normal((batch, channels[0], size[0] + extra[0], size[1] + extra[1]), seed)
    kernel = normal((channels[1], channels[0], *size), seed + 1)
    require_parity(
        lambda x, k: ops.conv2d(x, k, stride, padding),
        lambda x, k: F.conv2d(x, k, stride=stride, padding=padding),
        x,
        kernel,
        seed=seed,
    )


@given(size=st.integers(1, 3), extra=st.tuples(st.integers(0, 4), st.integers(0, 4)), seed=SEEDS)
@quick
def test_pooling_equals_torch(size: int, extra: tuple[int, int], seed: int):
    x = normal((2, 3, size + extra[0], size + extra[1]), seed)
    require_parity(lambda v: ops.max_pool(v, size), lambda t: F.max_pool2d(t, size), x, seed=seed)
    require_parity(lambda v: ops.mean_pool(v, size), lambda t: F.avg_pool2d(t, size), x, seed=seed)


def as_tensor(var: Var) -> Tensor:
    return torch.tensor(var.val, requires_grad=True)


def test_layers_equal_torch_with_the_same_weights():
    rng = np.random.default_rng(0)
    linear, conv = modules.LinearLayer(4, 3, rng), modules.Conv(2, 3, 3, rng, stride=2, padding=1)
    weight, bias, kernel = as_tensor(linear.weight), as_tensor(linear.bias), as_tensor(conv.kernel)
    require_parity(linear, lambda x: F.linear(x, weight.T, bias), normal((5, 4), 1))
    require_parity(conv, lambda x: F.conv2d(x, kernel, stride=2, padding=1), normal((2, 2, 5, 5), 1))

    cell = modules.RNNCell(4, 3, rng)
    reference = torch.nn.RNNCell(4, 3, dtype=torch.float64)
    reference.load_state_dict({
        "weight_ih": as_tensor(cell.input_weight).T, "weight_hh": as_tensor(cell.state_weight).T,
        "bias_ih": as_tensor(cell.bias), "bias_hh": torch.zeros(3),
    })  # fmt: skip
    require_parity(cell, reference, normal((5, 4), 1), normal((5, 3), 2))

    head = modules.AttentionHead(4, 3, rng)

    def attention(x: Tensor) -> Tensor:
        query, key, value = (
            x @ as_tensor(part.weight) + as_tensor(part.bias) for part in (head.query, head.key, head.value)
        )
        return F.scaled_dot_product_attention(query, key, value)

    require_parity(head, attention, normal((2, 5, 4), 1))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda parameters: modules.SGD(parameters, rate=0.1), lambda tensors: torch.optim.SGD(tensors, lr=0.1)),
        (
            lambda parameters: modules.SGD(parameters, 0.1, momentum=0.9),
            lambda tensors: torch.optim.SGD(tensors, lr=0.1, momentum=0.9),
        ),
        (lambda parameters: modules.Adam(parameters, rate=0.05), lambda tensors: torch.optim.Adam(tensors, lr=0.05)),
    ],
    ids=["sgd", "momentum", "adam"],
)
def test_optimisers_take_the_steps_of_torch(ours: Callable[..., Any], theirs: Callable[..., Any]):
    var = Var(normal((3, 2), 0))
    tensor = as_tensor(var)
    x, target = normal((5, 3), 1), normal((5, 2), 2)
    optimiser, reference = ours({"weight": var}), theirs([tensor])
    for _ in range(20):
        loss = ops.squared_error(ops.tanh(x @ var), target)
        loss.zero_grad()
        loss.backward()
        optimiser.step()
        reference.zero_grad()
        F.mse_loss((torch.tensor(x) @ tensor).tanh(), torch.tensor(target)).backward()
        reference.step()
    np.testing.assert_allclose(var.val, tensor.detach().numpy(), rtol=1e-10)
