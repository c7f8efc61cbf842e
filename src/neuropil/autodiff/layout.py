"""A layered layout: rows from top to bottom, every link from one row to the next, nothing on top of anything.

The steps are those of Sugiyama, Tagawa and Toda (1981): rows by the longest path to the end, a bend in each row that a
link only passes, an order in each row with few crossings (barycentres), then coordinates near the neighbours. Links of
one origin share their bends, so that a weight used at every step of time is one line with branches.
"""

import itertools
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

GAP = 34.0  # between rows, where links cross from side to side
SPACE = 18.0  # between neighbours in a row
TALL = 160.0  # higher than this is an open box
ORDER_SWEEPS, PLACE_SWEEPS = 6, 200  # at most
SLACK = 2.0  # distances below this are all the same
LINE_PULL, BRANCH_PULL, LEAF_PULL = 16.0, 0.5, 0.2  # passing lines are straight; leaves stand aside of the flow (1)


@dataclass(eq=False)
class Item:
    """Something that takes room in a row. `x` is its middle, as neighbours wish it; `left` and `top` are final."""

    width: float
    height: float
    bend: bool = False
    """A bend is a link passing through: as high as its row."""
    entries: Mapping[Hashable, float] = field(default_factory=dict)
    """Where a link comes in, right of the middle, by what runs in it."""
    exits: Mapping[Hashable, float] = field(default_factory=dict)
    row: int = 0
    x: float = 0.0
    left: float = 0.0
    top: float = 0.0


Edge: TypeAlias = tuple[Item, Item, Hashable]
"""From an item to any below it, and what runs there."""


@dataclass(frozen=True, eq=False)
class Link:
    """From an item to one in the next row; `key` says what runs in it."""

    source: Item
    target: Item
    key: Hashable

    @property
    def start(self) -> float:
        return self.source.exits.get(self.key, 0.0)

    @property
    def end(self) -> float:
        return self.target.entries.get(self.key, 0.0)


@dataclass
class Level:
    """One box from inside: a first row of what comes in, the children, a last row of what goes out."""

    rows: list[list[Item]]
    links: list[Link]
    margins: tuple[float, float]
    """The least heights of the first and the last row."""
    least_width: float
    width: float = 0.0
    height: float = 0.0
    bands: list[tuple[float, float]] = field(default_factory=list)
    """Top and bottom of each row."""

    def __post_init__(self) -> None:
        self.above: dict[Item, list[Link]] = defaultdict(list)
        self.below: dict[Item, list[Link]] = defaultdict(list)
        for link in self.links:
            self.above[link.target].append(link)
            self.below[link.source].append(link)

    def pull(self, link: Link) -> float:
        """How strongly a link draws its ends above each other."""
        if link.source.bend or link.target.bend:
            return LINE_PULL if link.source.bend and link.target.bend else BRANCH_PULL
        return 1.0 if self.above[link.source] else LEAF_PULL


Items: TypeAlias = Sequence[Item]


def layered(
    inputs: Items,
    children: Items,
    outputs: Items,
    edges: Sequence[Edge],
    margins: tuple[float, float] = (0.0, 0.0),
    least_width: float = 0.0,
) -> Level:
    """Rows, bends and their order. `children` come after those that they use."""
    _assign_rows(inputs, children, outputs, edges)
    _align_tall(children, edges)
    rows: list[list[Item]] = [[] for _ in range(2 + max(item.row for item in children))]
    for item in (*inputs, *children, *outputs):
        rows[item.row].append(item)
    links = _bend(rows, edges)
    level = Level(rows, links, margins, least_width)
    _order(level)
    return level


def _assign_rows(inputs: Items, children: Items, outputs: Items, edges: Sequence[Edge]) -> None:
    """Each item stands as low as it can: just above the first that uses it."""
    targets: dict[Item, list[Item]] = defaultdict(list)
    for source, target, _ in edges:
        targets[source].append(target)
    to_end = dict.fromkeys(outputs, 0)
    for item in reversed(children):
        to_end[item] = 1 + max((to_end.get(target, 0) for target in targets[item]), default=0)
    last = 1 + max(to_end.values())
    for item in inputs:
        item.row = 0
    for item in (*children, *outputs):
        item.row = last - to_end[item]


def _align_tall(children: Sequence[Item], edges: Sequence[Edge]) -> None:
    """Boxes that are open stand side by side, where they can, rather than below each other."""
    sources: dict[Item, list[Item]] = defaultdict(list)
    for source, target, _ in edges:
        sources[target].append(source)
    tall = sorted((item for item in children if item.height > TALL), key=lambda item: item.row)
    for item in tall:
        first = 1 + max((source.row for source in sources[item]), default=0)
        item.row = min((other.row for other in tall if first <= other.row), default=item.row)


def _bend(rows: list[list[Item]], edges: Sequence[Edge]) -> list[Link]:
    """Cut links that pass rows into links from row to row."""
    links: list[Link] = []
    carriers: dict[tuple[Item, Hashable, int], Item] = {}
    for source, target, key in edges:
        carrier = source
        for row in range(source.row + 1, target.row):
            if (source, key, row) not in carriers:
                bend = carriers[source, key, row] = Item(2.0, 0.0, bend=True, row=row)
                rows[row].append(bend)
                links.append(Link(carrier, bend, key))
            carrier = carriers[source, key, row]
        links.append(Link(carrier, target, key))
    return links


def _order(level: Level) -> None:
    """Sort rows by the barycentre of their neighbours, down and up again; keep the order with the fewest crossings."""
    for upper, lower in reversed(list(itertools.pairwise(level.rows))):  # to begin with, in the order of the arguments
        seen = dict.fromkeys(link.source for item in lower for link in level.above[item])
        upper[:] = [*seen, *(item for item in upper if item not in seen)]
    best, fewest = [list(row) for row in level.rows], num_crossings(level)
    for sweep in range(ORDER_SWEEPS):
        if fewest == 0:
            break
        down = sweep % 2 == 0
        for row in level.rows if down else reversed(level.rows):
            position = {item: i for other in level.rows for i, item in enumerate(other)}
            wish = {}
            for i, item in enumerate(row):
                above, below = level.above[item], level.below[item]
                near = [link.source for link in above] if down else [link.target for link in below]
                wish[item] = sum(position[other] for other in near) / len(near) if near else float(i)
            row.sort(key=lambda item, wish=wish: wish[item])
        crossings = num_crossings(level)
        if crossings < fewest:
            best, fewest = [list(row) for row in level.rows], crossings
    level.rows[:] = best


def num_crossings(level: Level) -> int:
    """Two links cross when their ends are in opposite orders."""
    position = {item: i for row in level.rows for i, item in enumerate(row)}
    total = 0
    for row in level.rows:
        ends: list[int] = []
        for item in row:
            new = sorted(position[link.target] for link in level.below[item])
            total += sum(end > target for target in new for end in ends)
            ends += new
    return total


def pack(level: Level) -> None:
    """To begin with, every row side by side around x = 0."""
    for row in level.rows:
        for item, x in zip(row, separate([0.0] * len(row), [item.width for item in row]), strict=True):
            item.x = x


def settle(level: Level) -> None:
    """Move each item near those it is linked with: row by row, down and up, towards the least sum of pull · distance.

    Squared distances would spread a bend over a whole line. So each square is divided by the distance as it is now
    (least squares, reweighted), which leaves straight lines with few bends.
    """
    neighbours = {item: _neighbours(item, level) for row in level.rows for item in row}
    for sweep in range(PLACE_SWEEPS):
        moved = 0.0
        for row in level.rows if sweep % 2 == 0 else reversed(level.rows):
            wishes, weights = [], []
            for item in row:
                pulls = [(pull, other.x + offset) for pull, other, offset in neighbours[item]]
                pulls = [(pull / (SLACK + abs(x - item.x)), x) for pull, x in pulls]
                weights.append(sum(pull for pull, _ in pulls))
                wishes.append(sum(pull * x for pull, x in pulls) / weights[-1])
            for item, x in zip(row, separate(wishes, [item.width for item in row], weights), strict=True):
                moved = max(moved, abs(item.x - x))
                item.x = x
        if moved < 0.5:
            break


def _neighbours(item: Item, level: Level) -> list[tuple[float, Item, float]]:
    """Who pulls, how strongly, and how far from the other's middle; each item also holds on to its place a little."""
    above = [(level.pull(link), link.source, link.start - link.end) for link in level.above[item]]
    below = [(level.pull(link), link.target, link.end - link.start) for link in level.below[item]]
    return [(1e-3, item, 0.0), *above, *below]


def separate(wishes: Sequence[float], widths: Sequence[float], weights: Sequence[float] | None = None) -> list[float]:
    """The middles nearest to the wishes (least squares) with which neighbours keep their order and `SPACE` apart.

    Without their widths, that is isotonic regression: neighbours that want to pass each other share their mean.
    """
    offsets, room = [], 0.0
    for width in widths:
        offsets.append(room + width / 2)
        room += width + SPACE
    blocks: list[tuple[float, float, int]] = []  # sum of wishes, of weights, how many
    for wish, offset, weight in zip(wishes, offsets, weights or [1.0] * len(wishes), strict=True):
        block = ((wish - offset) * weight, weight, 1)
        while blocks and blocks[-1][0] / blocks[-1][1] > block[0] / block[1]:
            previous = blocks.pop()
            block = (block[0] + previous[0], block[1] + previous[1], block[2] + previous[2])
        blocks.append(block)
    means = [total / weight for total, weight, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def arrange(level: Level) -> None:
    """`left` and `top` of every item from the level's corner, given x and the sizes; as `collapse.js` does it."""
    level.bands = []
    top = 0.0
    for number, row in enumerate(level.rows):
        margin = level.margins[0] if number == 0 else level.margins[1] if number == len(level.rows) - 1 else 0.0
        gap = GAP / 2 if number == 1 or number == len(level.rows) - 1 else GAP
        top += gap if any(level.above[item] for item in row) else 0.0
        height = max([margin, *(item.height for item in row if not item.bend)])
        for item, x in zip(row, separate([item.x for item in row], [item.width for item in row]), strict=True):
            item.height = height if item.bend else item.height
            item.left, item.top = x - item.width / 2, top + height - item.height
        level.bands.append((top, top + height))
        top += height
    items = [item for row in level.rows for item in row]
    corner = min((item.left for item in items), default=0.0)
    content = max((item.left + item.width for item in items), default=0.0) - corner
    level.width, level.height = max(content, level.least_width), top
    for item in items:
        item.left += (level.width - content) / 2 - corner
