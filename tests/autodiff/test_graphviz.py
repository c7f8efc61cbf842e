from itertools import pairwise

import pytest

from neuropil.autodiff.graphviz import dot_is_installed, place_by_dot
from neuropil.autodiff.layout import SPACE, Item, arrange, layered

pytestmark = pytest.mark.skipif(not dot_is_installed(), reason="graphviz is not installed")


def test_dot_orders_rows_and_keeps_items_apart():
    upper, lower = [Item(30.0 + 20 * i, 20.0) for i in range(4)], [Item(40.0, 30.0) for _ in range(4)]
    end = Item(90.0, 20.0)
    edges = [(a, b, i) for i, (a, b) in enumerate(zip(upper, reversed(lower), strict=True))] + [(upper[0], end, 0)]
    edges += [(b, end, 10 + i) for i, b in enumerate(lower)]
    level = layered([], [*upper, *lower, end], [], edges)
    place_by_dot(level)
    for row in level.rows:
        for a, b in pairwise(row):
            assert b.x - a.x >= (a.width + b.width) / 2 + SPACE - 1
    before = {item: item.x - level.rows[1][0].x for row in level.rows for item in row}
    arrange(level)
    first = level.rows[1][0]
    for item, x in before.items():
        assert item.left + item.width / 2 - (first.left + first.width / 2) == pytest.approx(x, abs=1.5)
