from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from neuropil.autodiff.layout import GAP, SPACE, Item, Level, arrange, layered, num_crossings, pack, separate, settle

LENGTHS = st.floats(1, 200)


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[tuple[float, float]], int, int, list[tuple[int, int]], float]:
    """Any acyclic graph of items of any size, with ports."""
    sizes = draw(st.lists(st.tuples(LENGTHS, LENGTHS), min_size=1, max_size=12))
    num_inputs, num_outputs = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    last = len(sizes) + num_inputs
    ends = st.tuples(st.integers(0, last - 1), st.integers(num_inputs, last + num_outputs - 1)).filter(
        lambda pair: pair[0] < pair[1]
    )
    edges = draw(st.lists(ends, unique=True, max_size=25)) if last + num_outputs > 1 else []
    return sizes, num_inputs, num_outputs, edges, draw(LENGTHS)


def laid_out(plan: tuple[list[tuple[float, float]], int, int, list[tuple[int, int]], float]) -> Level:
    sizes, num_inputs, num_outputs, edges, least_width = plan
    children = [Item(*size) for size in sizes]
    inputs, outputs = ([Item(2.0, 0.0, bend=True) for _ in range(count)] for count in (num_inputs, num_outputs))
    items = [*inputs, *children, *outputs]
    level = layered(inputs, children, outputs, [(items[i], items[j], i) for i, j in edges], (26.0, 12.0), least_width)
    pack(level)
    settle(level)
    arrange(level)
    return level


@given(plan=plans())
@settings(deadline=None, max_examples=100)
def test_nothing_overlaps_and_everything_is_inside(plan):
    level = laid_out(plan)
    items = [item for row in level.rows for item in row]
    for i, a in enumerate(items):
        assert -1e-6 <= a.left <= a.left + a.width <= level.width + 1e-6
        assert -1e-6 <= a.top <= a.top + a.height <= level.height + 1e-6
        for b in items[:i]:
            apart = a.left + a.width <= b.left + 1e-6 or b.left + b.width <= a.left + 1e-6
            above = a.top + a.height <= b.top + 1e-6 or b.top + b.height <= a.top + 1e-6
            assert apart or above


@given(plan=plans())
@settings(deadline=None, max_examples=100)
def test_every_link_goes_down_by_one_row(plan):
    level = laid_out(plan)
    for number, row in enumerate(level.rows):
        assert all(item.row == number for item in row)
    assert all(link.target.row == link.source.row + 1 for link in level.links)
    for (_, bottom), (top, _) in pairwise(level.bands):
        assert bottom <= top


@given(st.lists(st.tuples(st.floats(-500, 500), LENGTHS, st.floats(0.1, 10)), min_size=1, max_size=12))
@settings(deadline=None)
def test_separation_is_the_isotonic_regression_of_scikit_learn(row: list[tuple[float, float, float]]):
    wishes, widths, weights = (list(column) for column in zip(*row, strict=True))
    offsets = np.cumsum([0.0, *((a + b) / 2 + SPACE for a, b in pairwise(widths))])
    reference = (
        IsotonicRegression().fit_transform(np.arange(len(row)), wishes - offsets, sample_weight=weights) + offsets
    )
    assert separate(wishes, widths, weights) == pytest.approx(reference.tolist(), abs=1e-6)


def test_a_line_that_passes_rows_is_shared_by_all_that_use_it():
    weight, *cells = (Item(50.0, 20.0) for _ in range(5))
    chain = list(pairwise(cells))
    level = layered(
        [], [weight, *cells], [], [(weight, cell, "weight") for cell in cells] + [(a, b, "state") for a, b in chain]
    )
    assert sum(item.bend for row in level.rows for item in row) == len(cells) - 1
    assert num_crossings(level) == 0


def test_crossings_that_can_be_avoided_are_avoided():
    upper, lower = [Item(30.0, 20.0) for _ in range(4)], [Item(30.0, 20.0) for _ in range(4)]
    end = Item(30.0, 20.0)
    edges = [(a, b, 0) for a, b in zip(upper, reversed(lower), strict=True)] + [(b, end, 0) for b in lower]
    level = layered([], [*upper, *lower, end], [], edges)
    assert num_crossings(level) == 0


def test_a_chain_is_straight():
    chain = [Item(width, 20.0) for width in (30.0, 90.0, 50.0, 120.0)]
    level = layered([], chain, [], [(a, b, 0) for a, b in pairwise(chain)])
    pack(level)
    settle(level)
    arrange(level)
    assert {round(item.left + item.width / 2, 3) for item in chain} == {60.0}
    assert chain[1].top - (chain[0].top + chain[0].height) == GAP


def test_boxes_that_could_stand_side_by_side_do():
    start, query, key, turned, end = (
        Item(30.0, 20.0),
        Item(100.0, 300.0),
        Item(100.0, 300.0),
        Item(30.0, 20.0),
        Item(30.0, 20.0),
    )
    edges = [(start, query, 0), (start, key, 0), (key, turned, 0), (query, end, 0), (turned, end, 0)]
    layered([], [start, query, key, turned, end], [], edges)
    assert query.row == key.row
