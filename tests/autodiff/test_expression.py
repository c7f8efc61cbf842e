from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.autodiff import Var, graph, group, ops
from neuropil.autodiff.expression import CHILDREN, VISIBLE, Box, Port
from neuropil.autodiff.modules import RNNCell
from neuropil.errors import InputError


def unrolled_network(steps: int) -> Var:
    """Twelve nodes a step, three weights in all."""
    rng = np.random.default_rng(0)
    cell, state = RNNCell(3, 4, rng), Var(np.zeros((2, 4)), name="start", constant=True)
    for x in Var(rng.normal(size=(steps, 2, 3)), name="inputs", constant=True):
        state = cell(x, state)
    return ops.squared_error(state, 1.0)


SUMS = st.tuples(st.integers(0, 99), st.integers(0, 99))
PROGRAMS = st.recursive(
    st.lists(SUMS, min_size=1, max_size=4),
    lambda inner: st.lists(SUMS | st.tuples(st.sampled_from("abc"), inner), max_size=4),
)
"""What to add to what, in groups nested in any way."""


def run(program: list[Any]) -> Var:
    made = [Var(float(i), name=f"leaf {i}") for i in range(3)]

    def grow(lines: list[Any]) -> None:
        for first, second in lines:
            if isinstance(first, str):
                with group(first):
                    grow(second)
            else:
                made.append(made[first % len(made)] + made[second % len(made)])

    grow(program)
    return made[-1]


def order_of_a_box(box: Box) -> dict[object, int]:
    return {child: i for i, child in enumerate(box.children)}


def test_a_graph_holds_each_var_and_op_once():
    x, w = Var(2.0), Var(3.0)
    y = x * w
    doubled = y * x
    z = y + doubled
    found = graph(z)
    assert found.vars == [x, w, y, doubled, z]
    assert found.ops == [y.creator, doubled.creator, z.creator]
    assert len(found) == 8
    assert found.uses == {x: [y, doubled], w: [y], y: [doubled, z], doubled: [z], z: []}


@given(program=PROGRAMS)
@settings(deadline=None, max_examples=60)
def test_boxes_hold_each_var_once_and_children_come_after_those_that_they_use(program: list[Any]):
    found = graph(run(program))
    assert sorted(found.box.vars(), key=lambda var: var.birth) == found.vars
    for box in (found.box, *found.box.boxes()):
        order = order_of_a_box(box)
        for source, target, _ in box.edges:
            if not isinstance(source, Port) and not isinstance(target, Port):
                assert order[source] < order[target]


@given(program=PROGRAMS)
@settings(deadline=None, max_examples=60)
def test_every_use_can_be_followed_from_port_to_port(program: list[Any]):
    found = graph(run(program))
    home = {child: box for box in (found.box, *found.box.boxes()) for child in box.children}

    def reached(var: Var) -> set[Var]:
        """Where the lines of `var` end."""
        ends, seen = set(), set()
        stack: list[tuple[Box, Any]] = [(home[var], var)]
        while stack:
            box, node = stack.pop()
            if (box, node) in seen:
                continue
            seen.add((box, node))
            for source, target, carried in box.edges:
                if carried is not var or source != node:
                    continue
                if isinstance(target, Box):
                    stack.append((target, Port(var, "in")))
                elif isinstance(target, Port):
                    assert box.parent
                    stack.append((box.parent, box))
                else:
                    ends.add(target)
        return ends

    for var in found.vars:
        assert reached(var) == set(found.uses[var])


def test_a_leaf_lives_in_the_innermost_box_that_holds_all_of_its_uses():
    own, shared, outside = Var(1.0), Var(2.0), Var(3.0)
    with group("outer"):
        with group("first"):
            a = outside * own * shared
        with group("second"):
            b = a * shared
    c = b + outside
    top = graph(c).box
    outer = next(child for child in top.children if isinstance(child, Box))
    first = next(child for child in outer.children if isinstance(child, Box))
    assert outside in top.children
    assert shared in outer.children
    assert own in first.children
    assert (outer.path, first.path, first.depth) == ("outer", "outer.first", 2)


def test_collapse_takes_a_depth_or_names():
    with group("a"):
        x = Var(1.0) + 1
        with group("b"):
            y = x + 1
    with group("b"):
        z = y + 1
    found = graph(z)

    def opened(collapse) -> list[str]:
        return sorted(box.path for box in found.opened(collapse))

    assert opened("auto") == opened(2) == opened(set()) == ["a", "a.b", "b"]
    assert opened(0) == []
    assert opened(1) == ["a", "b"]
    assert opened({"b"}) == ["a"]
    assert opened({"a.b"}) == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"collapse": {"hiden"}},
            "collapse takes the names of groups in this graph, but got 'hiden': did you mean 'hidden'?",
        ),
        ({"collapse": "hidden"}, "collapse is 'auto', a depth or a set of names, but got 'hidden'."),
        ({"layout": "dots"}, "a layout must be one of ours, but got 'dots': did you mean 'dot'?"),
    ],
)
def test_a_wrong_option_of_a_drawing_gets_one_sentence(options: dict[str, Any], message: str):
    with group("hidden"):
        y = Var(1.0) + 1
    with pytest.raises(InputError) as raised:
        graph(y).draw(**options)
    assert str(raised.value) == message


def test_a_step_of_another_expression_is_refused():
    x = Var(1.0)
    (step,) = (x * x).backward(steps=True)
    with pytest.raises(InputError) as raised:
        graph(x + x).draw(step=step)
    assert (
        str(raised.value) == "a step is drawn in the graph that it was taken in, but got a step of another expression."
    )


def test_a_small_graph_is_open_and_a_large_one_closed_until_it_is_legible():
    small, large = graph(unrolled_network(3)), graph(unrolled_network(20))
    assert len(small) <= VISIBLE < len(large)
    assert {box.name for box in small.opened()} == {"RNNCell"}
    assert large.num_visible(large.opened()) < VISIBLE
    assert small.num_visible(small.opened()) == len(small)


def plain_chain(steps: int) -> Var:
    y = Var(0.5)
    for _ in range(steps):
        y = ops.tanh(y)
    return y


@pytest.mark.parametrize(
    ("make", "steps"), [(plain_chain, 1600), (unrolled_network, 270)], ids=["without groups", "one group a step"]
)
def test_three_thousand_nodes_are_folded_until_no_box_is_crowded(make: Callable[[int], Var], steps: int):
    found = graph(make(steps))
    assert len(found) > 3000
    assert found.num_visible(found.opened()) < VISIBLE
    assert all(len(box.children) <= CHILDREN for box in (found.box, *found.box.boxes()))
    assert found.root in found.box.children
    for box in (found.box, *found.box.boxes()):
        order = order_of_a_box(box)
        assert all(
            order[source] < order[target] for source, target, _ in box.edges if source in order and target in order
        )


def test_folds_are_named_after_what_is_in_them_and_shared_leaves_stay_outside():
    top = graph(unrolled_network(270)).box
    assert {child.name.split("× ")[1] for child in top.children if isinstance(child, Box)} == {"RNNCell"}
    assert {child.name for child in top.children if isinstance(child, Var)} >= {
        "inputs",
        "input_weight",
        "state_weight",
        "bias",
    }
