import subprocess
import sys

import numpy as np
import pytest

from neuropil.autodiff import Var, graph, group, op, ops
from neuropil.errors import InputError


def test_calling_an_op_makes_its_output_and_remembers_its_arguments():
    x, y = Var(2.0), Var(5.0)
    f = x * y
    assert f.val == 10
    assert f.creator is not None
    assert f.creator.name == "mul"
    assert f.creator.args == (x, y)
    assert x.creator is None


def test_a_known_expression_has_the_derivatives_of_calculus():
    x, y = Var(3.0), Var(0.5)
    (x**2 * y + ops.exp(y) / x).backward()
    assert x.grad == pytest.approx(2 * 3 * 0.5 - np.exp(0.5) / 9)
    assert y.grad == pytest.approx(9 + np.exp(0.5) / 3)


def test_gradients_add_where_branches_meet():
    x = Var(3.0)
    a, b = x * 2, x * 5
    (a * b).backward()  # 10 x²
    assert x.grad == 60
    assert a.grad == b.val
    assert b.grad == a.val


def test_a_var_used_twice_by_one_op_gets_both_gradients():
    x = Var(3.0)
    (x * x).backward()
    assert x.grad == 6


def test_val_grad_and_seed_keep_one_shape_through_broadcasting():
    row, column, number = Var(np.ones(4)), Var(np.ones((3, 1))), Var(2.0)
    y = row * column + number
    y.backward(np.full((3, 4), 0.5))
    for var in (row, column, number, y):
        assert var.grad.shape == var.val.shape
    assert row.grad.tolist() == [1.5] * 4
    assert column.grad.tolist() == [[2.0]] * 3
    assert number.grad == 6


def test_a_second_pass_adds_and_zero_grad_starts_anew():
    x = Var([1.0, 2.0])
    middle = x * x
    y = (middle * middle).sum()  # x⁴
    y.backward()
    assert x.grad.tolist() == [4, 32]
    y.backward()  # what the first pass left in `middle` must not flow on again
    assert x.grad.tolist() == [8, 64]
    y.zero_grad()
    assert [var.grad.any() for var in (x, middle, y)] == [False] * 3
    y.backward()
    assert x.grad.tolist() == [4, 32]


def test_a_gradient_that_someone_holds_does_not_change_behind_their_back():
    x = Var([1.0, 2.0])
    y = (x * 3).sum()
    y.backward()
    held = x.grad
    y.backward()
    y.zero_grad()
    assert held.tolist() == [3, 3]


def test_a_chain_of_ten_thousand_ops_is_no_problem():
    x = y = Var(0.0)
    for _ in range(10_000):
        y = y + 1
    y.backward()
    assert y.val == 10_000
    assert x.grad == 1


def test_a_graph_with_2_to_the_30_paths_is_no_problem():
    x = y = Var(1.0)
    for _ in range(30):
        y = y + y
    y.backward()
    assert x.grad == 2**30


def test_constants_get_no_gradient_and_what_depends_on_them_alone_is_constant():
    data, x = Var([1.0, 2.0], constant=True), Var(3.0)
    made = data * 2
    (made * x).sum().backward()
    assert made.constant
    assert not data.grad.any()
    assert not made.grad.any()
    assert x.grad == 6


def test_numbers_and_arrays_meet_vars_on_either_side():
    x = Var([4.0, 5.0])
    array = np.array([2.0, 1.0])
    for y, value in (
        (array + x, [6, 6]), (array - x, [-2, -4]), (array * x, [8, 5]), (array / x, [0.5, 0.2]), (array**x, [16, 1]),
        (array @ x, 13), (1 - x, [-3, -4]), (2**x, [16, 32]), (-x, [-4, -5]), (abs(-x), [4, 5]), (x / 2, [2, 2.5]),
    ):  # fmt: skip
        assert isinstance(y, Var)
        assert y.val.tolist() == value


def test_a_var_is_read_like_an_array():
    x = Var([[1, 2, 3], [4, 5, 6]], name="x")
    assert (x.shape, x.ndim, x.dtype, len(x)) == ((2, 3), 2, np.float64, 2)
    assert x.T.shape == (3, 2)
    assert [row.val.tolist() for row in x] == [[1, 2, 3], [4, 5, 6]]
    assert float(x.sum()) == 21
    assert repr(Var(2.5, name="w")) == "Var(2.5, name='w')"


def test_single_precision_stays_single():
    x = Var(np.ones((2, 3), np.float32))
    y = (ops.softmax(x * 2 + 1) ** 2 / 3 - x.max(1, keepdims=True)).mean()
    y.backward()
    assert y.dtype == x.grad.dtype == np.float32


def test_an_op_of_ones_own_is_one_function():
    @op
    def cube(x, /):
        return x**3, lambda s: s * 3 * x**2

    x = Var([1.0, 2.0])
    cube(x).sum().backward()
    assert x.grad.tolist() == [3, 12]


def test_an_op_of_ones_own_does_not_take_over_an_operator():
    @op
    def add(a, b, /):
        return a * b, lambda s: s * b, lambda s: s * a

    assert (Var(2.0) + 5).val == 7
    assert add(Var(2.0), 5.0).val == 10


def test_settings_of_an_op_may_be_named_or_not_but_not_too_many():
    x = Var(np.ones((2, 3)))
    assert ops.sum(x, 1).shape == ops.sum(x, axis=1).shape == x.sum(1).shape == (2,)
    with pytest.raises(TypeError, match="positional arguments"):
        x.reshape(3, 2, 1)


def test_steps_differentiate_one_op_at_a_time():
    x = Var(3.0, name="x")
    y = x * 2
    z = y * x
    steps = z.backward(steps=True)
    assert z.grad == 0  # nothing has happened yet
    first = next(steps)
    assert first.op is z.creator
    assert first.changed == (y, x)
    assert (y.grad, x.grad) == (3, 6)
    second = next(steps)
    assert second.op is y.creator
    assert second.changed == (x,)
    assert x.grad == 12
    assert second.done == {y.creator, z.creator}
    with pytest.raises(StopIteration):
        next(steps)


def test_a_step_stays_as_it_was():
    x = Var(3.0)
    y = x * 2
    z = y * x
    first, last = z.backward(steps=True)
    assert {var: float(grad) for var, grad in first.grads.items()} == {z: 1, y: 3, x: 6}
    assert {var: float(grad) for var, grad in last.grads.items()} == {z: 1, y: 3, x: 12}


def test_steps_end_with_the_gradients_of_a_pass_in_one_go():
    def loss():
        w = Var(np.arange(6.0).reshape(2, 3) / 6)
        return w, ops.cross_entropy(ops.tanh(w @ w.T) @ w, np.array([0, 2]))

    (w, at_once), (v, in_steps) = loss(), loss()
    at_once.backward()
    assert len(list(in_steps.backward(steps=True))) == len(graph(in_steps).ops)
    assert np.array_equal(w.grad, v.grad)


def test_groups_nest_and_each_entry_is_another():
    with group("outer"):
        a = Var(1.0) + 1
        with group("inner"):
            b = a + 1
    with group("outer"):
        c = b + 1
    d = c + 1
    groups = [var.creator.group for var in (a, b, c) if var.creator]
    assert [entered.name for entered in groups if entered] == ["outer", "inner", "outer"]
    assert groups[1] is not None
    assert groups[1].parent is groups[0]
    assert groups[2] is not groups[0]
    assert d.creator is not None
    assert d.creator.group is None


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            lambda: Var([1.0, 2.0]).backward(),
            "backward without a seed starts from a scalar, but got a Var of shape (2,): "
            "take its sum or mean first, or give a seed of that shape.",
        ),
        (
            lambda: Var([1.0, 2.0]).backward([1.0]),
            "the seed of backward has the shape of its Var, (2,), but got shape (1,).",
        ),
        (
            lambda: ops.sum(np.ones(3)).backward(),
            "backward starts from a Var that depends on a variable, but got a constant: make one with Var(...).",
        ),
        (
            lambda: Var(np.ones(3)) + Var(np.ones(4)),
            "add needs shapes that fit, but got (3,) and (4,): operands could not be broadcast together with shapes "
            "(3,) (4,).",
        ),
        (
            lambda: Var(np.ones((2, 3))).reshape((4, 2)),
            "reshape needs shapes that fit, but got (2, 3): cannot reshape array of size 6 into shape (4,2).",
        ),
        (
            lambda: Var(np.ones(3)).sum(axis=2),
            "sum needs shapes that fit, but got (3,): axis 2 is out of bounds for array of dimension 1.",
        ),
        (
            lambda: Var(np.ones(3))[5],
            "index needs shapes that fit, but got (3,): index 5 is out of bounds for axis 0 with size 3.",
        ),
        (lambda: Var("three"), "a Var holds real numbers, but got an array of <U5."),
        (lambda: Var(1j), "a Var holds real numbers, but got an array of complex128."),
    ],
)
def test_a_mistake_gets_one_sentence(mistake, message: str):
    with pytest.raises(InputError) as raised:
        mistake()
    assert str(raised.value) == message


def test_the_room_works_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None; import neuropil.autodiff as ad; x = ad.Var(2.0); (x * "
        "x).backward(); print(x.grad)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "4.0\n"
