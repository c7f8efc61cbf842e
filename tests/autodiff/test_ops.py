"""Every op against central differences, in double precision; tests/parity compares them with torch."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from neuropil.autodiff import Var, ops
from neuropil.autodiff.engine import OPS, Array
from neuropil.errors import InputError

RNG = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape)


def positive(*shape: int) -> Array:
    return RNG.uniform(0.3, 2.0, shape)


CASES: dict[str, list[tuple[Callable[..., Var], list[Array]]]] = {
    "add": [(ops.add, [normal(2, 3), normal(3)]), (ops.add, [normal(), normal(2, 1)])],
    "sub": [(ops.sub, [normal(2, 1), normal(3)])],
    "neg": [(ops.neg, [normal(2, 3)])],
    "mul": [(ops.mul, [normal(4, 1, 2), normal(3, 1)])],
    "div": [(ops.div, [normal(2, 3), positive(3)])],
    "power": [
        (ops.power, [positive(2, 3), normal(3)]),
        (lambda x: x**3, [normal(4)]),
        (lambda x: x**-1, [normal(4)]),
        (lambda x: x**0, [np.array([-1.0, 0.5])]),
    ],
    "matmul": [
        (ops.matmul, [normal(2, 3), normal(3, 4)]),
        (ops.matmul, [normal(3), normal(3)]),
        (ops.matmul, [normal(3), normal(3, 4)]),
        (ops.matmul, [normal(2, 3), normal(3)]),
        (ops.matmul, [normal(5, 2, 3), normal(3)]),
        (ops.matmul, [normal(3), normal(5, 3, 2)]),
        (ops.matmul, [normal(5, 1, 2, 3), normal(4, 3, 2)]),
    ],
    "exp": [(ops.exp, [normal(2, 3)])],
    "log": [(ops.log, [positive(2, 3)])],
    "sin": [(ops.sin, [normal(2, 3)])],
    "cos": [(ops.cos, [normal(2, 3)])],
    "tanh": [(ops.tanh, [normal(2, 3)])],
    "sigmoid": [(ops.sigmoid, [normal(2, 3)])],
    "relu": [(ops.relu, [normal(4, 5)])],
    "softplus": [(ops.softplus, [normal(2, 3)])],
    "abs": [(ops.abs, [normal(2, 3)])],
    "where": [(lambda a, b: ops.where(np.array([True, False, True]), a, b), [normal(2, 3), normal(3)])],
    "sum": [
        (lambda x: x.sum(), [normal(2, 3)]),
        (lambda x: x.sum((0, 2)), [normal(2, 3, 4)]),
        (lambda x: x.sum(-1, True), [normal(2, 3)]),
    ],
    "mean": [
        (lambda x: x.mean(), [normal(2, 3)]),
        (lambda x: x.mean(1), [normal(2, 3, 4)]),
        (lambda x: x.mean(0, True), [normal(2, 3)]),
    ],
    "max": [
        (lambda x: x.max(), [normal(2, 3)]),
        (lambda x: x.max(1), [normal(2, 3, 4)]),
        (lambda x: x.max((0, 1), True), [normal(2, 3)]),
    ],
    "min": [(lambda x: x.min(), [normal(2, 3)]), (lambda x: x.min(1), [normal(2, 3, 4)])],
    "logsumexp": [(ops.logsumexp, [normal(2, 3)]), (lambda x: ops.logsumexp(x, (0, 1)), [normal(2, 3)])],
    "reshape": [(lambda x: x.reshape((3, -1)), [normal(2, 6)]), (lambda x: x.reshape(-1), [normal(2, 3)])],
    "transpose": [(lambda x: x.T, [normal(2, 3, 4)]), (lambda x: x.transpose((1, -1, 0)), [normal(2, 3, 4)])],
    "index": [
        (lambda x: x[1], [normal(2, 3)]),
        (lambda x: x[:, ::2], [normal(2, 5)]),
        (lambda x: x[..., None, 1], [normal(2, 3)]),
        (lambda x: x[np.array([0, 2, 0, 0])], [normal(3, 2)]),
        (lambda x: x[np.array([0, 0]), np.array([1, 1])], [normal(3, 2)]),
        (lambda x: x[np.array([True, False, True])], [normal(3, 2)]),
    ],
    "concatenate": [
        (lambda a, b: ops.concatenate(a, b, a, axis=1), [normal(2, 3), normal(2, 1)]),
        (ops.concatenate, [normal(2)]),
    ],
    "stack": [(lambda a, b: ops.stack(a, b, axis=-1), [normal(2, 3), normal(2, 3)])],
    "softmax": [(ops.softmax, [normal(2, 3)]), (lambda x: ops.softmax(x, axis=0), [normal(2, 3)])],
    "log_softmax": [(ops.log_softmax, [normal(2, 3)]), (lambda x: ops.log_softmax(x, axis=0), [normal(2, 3)])],
    "cross_entropy": [
        (lambda x: ops.cross_entropy(x, np.array([2, 0])), [normal(2, 3)]),
        (lambda x: ops.cross_entropy(x, np.array([[1, 1], [0, 2]])), [normal(2, 2, 3)]),
    ],
    "squared_error": [
        (ops.squared_error, [normal(2, 3), normal(2, 3)]),
        (ops.squared_error, [normal(2, 3), normal(3)]),
    ],
    "conv2d": [
        (ops.conv2d, [normal(2, 3, 5, 4), normal(2, 3, 3, 2)]),
        (lambda x, k: ops.conv2d(x, k, stride=2, padding=1), [normal(2, 1, 5, 6), normal(2, 1, 3, 3)]),
        (lambda x, k: ops.conv2d(x, k, stride=3), [normal(1, 2, 7, 8), normal(1, 2, 2, 2)]),
    ],
    "max_pool": [(ops.max_pool, [normal(2, 2, 4, 6)]), (lambda x: ops.max_pool(x, 3), [normal(1, 2, 7, 6)])],
    "mean_pool": [(ops.mean_pool, [normal(2, 2, 4, 6)]), (lambda x: ops.mean_pool(x, 3), [normal(1, 2, 7, 6)])],
}


def test_every_op_is_checked():
    defined_here = {name for name, function in OPS.items() if function.__module__ == ops.__name__}
    assert defined_here == set(CASES)


@pytest.mark.parametrize(("function", "arrays"), [case for cases in CASES.values() for case in cases])
def test_gradients_equal_central_differences(function: Callable[..., Var], arrays: list[Array]):
    variables = [Var(array.copy()) for array in arrays]
    y = function(*variables)
    seed = np.random.default_rng(1).normal(size=y.shape)
    y.backward(seed)

    def value(changed: list[Array]) -> float:
        return float((function(*map(Var, changed)).val * seed).sum())

    for i, var in enumerate(variables):
        for place in np.ndindex(var.shape):
            step = np.zeros(var.shape)
            step[place] = 1e-6
            up, down = (
                [array + sign * step if j == i else array for j, array in enumerate(arrays)] for sign in (1, -1)
            )
            assert var.grad[place] == pytest.approx((value(up) - value(down)) / 2e-6, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(("function", "arrays"), [case for cases in CASES.values() for case in cases])
def test_ops_keep_single_precision(function: Callable[..., Var], arrays: list[Array]):
    variables = [Var(array.astype(np.float32)) for array in arrays]
    y = function(*variables)
    y.backward(np.ones_like(y.val))
    assert {y.dtype, *(var.grad.dtype for var in variables)} == {np.dtype(np.float32)}


def test_an_element_taken_twice_gets_both_gradients():
    x = Var([1.0, 2.0, 3.0])
    x[np.array([2, 0, 2, 2])].backward(np.array([1.0, 10.0, 100.0, 1000.0]))
    assert x.grad.tolist() == [10, 0, 1101]


def test_equal_extremes_share_the_gradient():
    x = Var([3.0, 1.0, 3.0])
    x.max().backward()
    assert x.grad.tolist() == [0.5, 0, 0.5]
    tiles = Var(np.zeros((1, 1, 2, 2)))
    ops.max_pool(tiles).sum().backward()
    assert tiles.grad.tolist() == [[[[0.25, 0.25], [0.25, 0.25]]]]


def test_large_logits_neither_overflow_nor_vanish():
    x = Var([1000.0, 1001.0])
    assert ops.logsumexp(x).val == pytest.approx(1001 + np.log1p(np.exp(-1)))
    assert ops.softmax(x).val.sum() == pytest.approx(1)
    assert ops.log_softmax(Var([0.0, -1000.0])).val[1] == -1000
    loss = ops.cross_entropy(Var([[0.0, 1000.0]]), np.array([0]))
    assert loss.val == 1000


def test_the_logistic_function_is_right_far_from_the_origin():
    x = Var([-700.0, -40.0, 0.0, 40.0, 700.0])
    y = ops.sigmoid(x)
    assert y.val == pytest.approx([np.exp(-700), np.exp(-40), 0.5, 1, 1], rel=1e-12)
    assert ops.softplus(x).val == pytest.approx([np.exp(-700), np.exp(-40), np.log(2), 40, 700], rel=1e-12)


def test_a_masked_position_gets_no_weight_and_no_gradient():
    score = Var([0.3, -np.inf, 1.2])
    weights = ops.softmax(score)
    (weights * np.array([1.0, 2.0, 3.0])).sum().backward()
    assert weights.val[1] == score.grad[1] == 0


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            lambda: ops.cross_entropy(Var(np.ones((2, 3))), np.array([0, 1, 2])),
            "cross_entropy needs one label for each row of logits, shape (2,), but got labels of shape (3,).",
        ),
        (
            lambda: ops.cross_entropy(Var(np.ones((2, 3))), np.array([1, 3])),
            "labels must lie in 0 … 2, but got labels from 1 to 3.",
        ),
        (
            lambda: ops.conv2d(Var(np.ones((2, 3, 5, 5))), Var(np.ones((4, 1, 3, 3)))),
            "conv2d needs x of (batch, channel, height, width) and a kernel of (out, channel, height, width), "
            "but got (2, 3, 5, 5) and (4, 1, 3, 3).",
        ),
        (
            lambda: ops.conv2d(Var(np.ones((2, 3, 2, 5))), Var(np.ones((4, 3, 3, 3)))),
            "conv2d needs images as large as its kernel, but got (2, 5) and (3, 3).",
        ),
    ],
)
def test_a_mistake_gets_one_sentence(mistake: Callable[[], Var], message: str):
    with pytest.raises(InputError) as raised:
        mistake()
    assert str(raised.value) == message


def test_the_page_lists_every_op():
    page = (Path(__file__).parents[2] / "docs" / "systems" / "autodiff.md").read_text(encoding="utf-8")
    assert [name for name in CASES if f"`{name}`" not in page] == []
