"""The expression graph as a structure: its Vars and Ops, the boxes that its groups make of them, and what runs between.

A drawing of thousands of nodes is of no use to anyone, so the graph is a tree of boxes, each with few children. Groups
are boxes; where a box would still hold too many children, stretches of them are folded into further boxes.
"""

import itertools
import math
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, Union

from neuropil.autodiff.engine import BackwardStep, Op, OpGroup, Var, topological_order
from neuropil.errors import InputError, nearest
from neuropil.files import write_text

VISIBLE = 60  # more nodes than this are not legible in one picture
CHILDREN = 40  # a box with more is folded
FOLDED = 12  # children of a box that folding makes
SHARED = 8  # leaves used by several stretches of a folded box that stay outside of them

Child: TypeAlias = Union[Var, "Box"]
Collapse: TypeAlias = str | int | Set[str]


@dataclass(eq=False)
class Box:
    """A group with what is in it. A Var stands for itself and the op that made it."""

    name: str
    parent: "Box | None" = None
    folded: bool = False
    """Made by folding, not by a group."""
    children: list[Child] = field(default_factory=list)
    """In an order in which each comes after those it uses."""
    edges: dict[tuple[Union[Child, "Port"], Union[Child, "Port"], Var], None] = field(default_factory=dict)
    """(from, to, the Var that runs there), between children and ports; a dict, because it keeps their order."""

    def boxes(self) -> "Iterator[Box]":
        """All boxes inside, at any depth."""
        for child in self.children:
            if isinstance(child, Box):
                yield child
                yield from child.boxes()

    def vars(self) -> Iterator[Var]:
        """All Vars inside, at any depth."""
        for child in self.children:
            yield from child.vars() if isinstance(child, Box) else (child,)

    @property
    def path(self) -> str:
        above = self.parent.path if self.parent else ""
        return f"{above}.{self.name}" if above else self.name

    @property
    def depth(self) -> int:
        return self.parent.depth + 1 if self.parent else 0


@dataclass(frozen=True)
class Port:
    """Where a Var from outside comes into a box, or one from inside leaves it."""

    var: Var
    side: Literal["in", "out"]


class Graph:
    """What `root` was made from. In a notebook it shows itself."""

    def __init__(self, root: Var):
        self.root = root
        self.vars = topological_order(root)
        self.ops: list[Op] = [var.creator for var in self.vars if var.creator]
        self.uses: dict[Var, list[Var]] = {var: [] for var in self.vars}
        """For each Var, those that were made from it."""
        for var in self.vars:
            for arg in var.creator.args if var.creator else ():
                self.uses[arg].append(var)
        self.box = _tree(self.vars, self.uses)
        _connect(self.box, self.vars)

    def __len__(self) -> int:
        """The number of nodes: Vars and Ops."""
        return len(self.vars) + len(self.ops)

    def draw(
        self,
        path: str | Path | None = None,
        *,
        collapse: Collapse = "auto",
        step: BackwardStep | None = None,
        layout: str = "auto",
        interactive: bool = True,
    ) -> str:
        """The graph as SVG text, also written to `path`. Boxes open and close by a click on their names.

        `collapse` says which boxes start closed: those deeper than a number, those with one of a set of names, or, with
        "auto", as many as it takes to keep the picture legible. A `step` of `backward(steps=True)` shows that moment.
        The `layout` is by graphviz ("dot"), by our own layers ("layered"), or "auto": by dot where it is installed. A
        drawing that is not `interactive` holds only what is seen at first, which makes it small.
        """
        from neuropil.autodiff.drawing import GraphDrawing  # which imports this module

        svg = GraphDrawing(self, self.opened(collapse), step, layout, interactive).svg()
        if path is not None:
            write_text(Path(path), svg)
        return svg

    def _repr_svg_(self) -> str:
        return self.draw()

    def opened(self, collapse: Collapse = "auto") -> set[Box]:
        """The boxes whose inside is seen."""
        boxes = list(self.box.boxes())
        if not (isinstance(collapse, int | Set) or collapse == "auto"):
            raise InputError("collapse is 'auto', a depth or a set of names", got=f"{collapse!r}")
        if isinstance(collapse, Set):
            known = {name for box in boxes for name in (box.name, box.path)}
            for name in collapse - known:
                rule = "collapse takes the names of groups in this graph"
                raise InputError(rule, got=f"{name!r}", fix=nearest(name, sorted(known)))
            return {box for box in boxes if not {box.name, box.path} & collapse}
        if isinstance(collapse, int):
            return {box for box in boxes if box.depth <= collapse}
        if len(self) <= VISIBLE:
            return set(boxes)
        opened: set[Box] = set()
        for depth in range(1, 1 + max((box.depth for box in boxes), default=0)):
            level = [box for box in boxes if box.depth == depth and not box.folded]
            more = opened | {box for box in level if depth == 1 or box.parent in opened}
            if self.num_visible(more) >= VISIBLE:
                break
            opened = more
        return opened

    def num_visible(self, opened: Set[Box]) -> int:
        """Nodes in a drawing with these boxes open: Vars, Ops, and closed boxes."""

        def count(child: Child) -> int:
            if isinstance(child, Var):
                return 1 if child.creator is None else 2
            return sum(map(count, child.children)) if child in opened or child is self.box else 1

        return count(self.box)


def graph(root: Var) -> Graph:
    """The expression graph that ends in `root`, to look at and to draw."""
    return Graph(root)


def _tree(order: list[Var], uses: dict[Var, list[Var]]) -> Box:
    """Put each Var into the box of its op's group; a leaf goes into the innermost box that holds all of its uses."""
    top = Box("")
    boxes: dict[OpGroup | None, Box] = {None: top}

    def box_of(group: OpGroup | None) -> Box:
        if group not in boxes:
            boxes[group] = Box(group.name, box_of(group.parent)) if group else top
        return boxes[group]

    home = {var: box_of(var.creator.group) for var in order if var.creator}
    first: dict[Child, float] = {}  # when something was first made in a child
    for var, box in home.items():
        first |= {child: var.birth for child in (*_chain(box)[1:], var) if child not in first}
    for leaf in (var for var in order if not var.creator):
        box = _common([home[user] for user in uses[leaf]]) if uses[leaf] else top
        depth = len(_chain(box))
        first[leaf] = min((first[[*_chain(home[user]), user][depth]] for user in uses[leaf]), default=0.0) - 0.5
        home[leaf] = box
    for child in sorted(first, key=lambda child: first[child]):
        (home[child] if isinstance(child, Var) else child.parent or top).children.append(child)
    for box in boxes.values():
        _fold(box, uses, order[-1])
    return top


def _chain(box: Box) -> list[Box]:
    """From the outermost box to this one."""
    chain = [box]
    while chain[0].parent:
        chain.insert(0, chain[0].parent)
    return chain


def _common(boxes: list[Box]) -> Box:
    """The innermost box that holds all of these."""
    common = [level[0] for level in zip(*map(_chain, boxes), strict=False) if len(set(level)) == 1]
    return common[-1]


def _fold(box: Box, uses: dict[Var, list[Var]], root: Var) -> None:
    """Where a box has too many children, put stretches of them into boxes of their own.

    A stretch of a topological order can stand as one node: nothing leaves it and comes back.
    """
    if len(box.children) <= CHILDREN:
        return
    leaves = [child for child in box.children if isinstance(child, Var) and not child.creator]
    of_root = {leaf for leaf in leaves if uses[leaf] == [root]}
    end = [child for child in box.children if child is root or child in of_root]
    shared = [leaf for leaf in sorted(leaves, key=lambda leaf: -len(uses[leaf]))[:SHARED] if len(uses[leaf]) > FOLDED]
    rest = [child for child in box.children if child not in {*shared, *end}]
    size = FOLDED
    while len(rest) > size * FOLDED:
        size *= FOLDED
    size = math.ceil(len(rest) / math.ceil(len(rest) / size))
    folds = [Box(_fold_name(part), box, True, part) for part in (rest[i : i + size] for i in range(0, len(rest), size))]
    for fold in folds:
        for child in fold.children:
            if isinstance(child, Box):
                child.parent = fold
        _fold(fold, uses, root)
    box.children = [*shared, *folds, *end]


def _fold_name(children: list[Child]) -> str:
    """`24 × cell`, or the first and the last: groups if there are any, else ops."""
    boxes = [child.name for child in children if isinstance(child, Box)]
    names = boxes or [child.creator.name for child in children if isinstance(child, Var) and child.creator]
    if not names:
        return f"{len(children)} leaves"
    return f"{names[0]} … {names[-1]}" if len(set(names)) > 1 else f"{len(names)} × {names[0]}"


def _connect(top: Box, order: list[Var]) -> None:
    """Lead each argument to what is made from it, out through the ports of its boxes and in through the other's."""
    home = {child: box for box in (top, *top.boxes()) for child in box.children}
    for user in order:
        for var in user.creator.args if user.creator else ():
            source, target = [*_chain(home[var]), var], [*_chain(home[user]), user]
            meeting = sum(a is b for a, b in zip(source, target, strict=False))
            for box, inside in itertools.pairwise(source[meeting:]):
                box.edges[inside, Port(var, "out"), var] = None
            for box, inside in itertools.pairwise(target[meeting:]):
                box.edges[Port(var, "in"), inside, var] = None
            source[meeting - 1].edges[source[meeting], target[meeting], var] = None
