"""The expression graph as one self-contained SVG: its cards, its links, and a script that opens and closes boxes."""

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import Any

from neuropil.autodiff.cards import NAME_CHARACTER, Card, CardRow, box_card, gradient_row, shortened, step_row, var_card
from neuropil.autodiff.engine import BackwardStep, Var
from neuropil.autodiff.expression import Box, Child, Graph, Port
from neuropil.autodiff.graphviz import dot_is_installed, place_by_dot
from neuropil.autodiff.layout import GAP, SPACE, Item, Level, Link, arrange, layered, pack, settle
from neuropil.errors import InputError, nearest

MARGIN = 20.0  # around the picture
SIDE = 14.0  # between the frame of an open box and what is in it
HEAD, FOOT = 26.0, 12.0  # above and below it
BUTTON = ' tabindex="0" role="button"'


@dataclass
class View:
    """A box from inside, laid out."""

    box: Box
    open: bool
    level: Level
    items: dict[Child | Port, Item]
    cards: dict[Child, Card]
    views: "dict[Box, View]" = field(default_factory=dict)


class GraphDrawing:
    """One drawing of a graph: which boxes are open, which step of `backward`, which layout, with script or without."""

    def __init__(self, graph: Graph, opened: Set[Box], step: BackwardStep | None, layout: str, interactive: bool):
        if layout not in (known := ("auto", "layered", "dot")):
            raise InputError("a layout must be one of ours", got=f"{layout!r}", fix=nearest(layout, known))
        if step is not None and step.op not in graph.ops:
            raise InputError("a step is drawn in the graph that it was taken in", got="a step of another expression")
        self.by_dot = layout != "layered" and dot_is_installed()
        if layout == "dot" and not self.by_dot:
            fix = "install it, or use layout='layered'"
            raise InputError("layout='dot' needs graphviz", got="no program named dot", fix=fix)
        self.graph, self.opened, self.step, self.interactive = graph, opened, step, interactive
        self.differentiated = step is not None or any(var.grad.any() for var in graph.vars)

    def svg(self) -> str:
        view = self.view(self.graph.box, seen=True)
        width, height = view.level.width + 2 * MARGIN, view.level.height + 2 * MARGIN
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="autodiff" width="{width:.1f}" height="{height:.1f}" '
            f'viewBox="0 0 {width:.1f} {height:.1f}" aria-label="expression graph of {len(self.graph)} nodes">'
            f'<style>{_resource("drawing.css")}</style><rect class="paper" width="100%" height="100%"/>'
            f'<g transform="translate({MARGIN:g} {MARGIN:g})">{self.level_svg(view)}</g>'
            f"{self.script(view) if view.views else ''}</svg>\n"
        )

    def script(self, view: View) -> str:
        number = {var: i for i, var in enumerate(self.graph.vars)}
        sizes = {"gap": GAP, "space": SPACE, "side": SIDE, "margin": MARGIN}
        data = json.dumps(model(view, number), separators=(",", ":"))
        script = f"<script><![CDATA[({_resource('collapse.js').strip()})({data},{json.dumps(sizes)})]]></script>"
        return script if self.interactive else ""

    def view(self, box: Box, seen: bool) -> View:
        """Lay out a box and all boxes in it, the inner ones first: an open box is as large as what is in it."""
        cards = {child: self.card(child) for child in box.children}
        boxes = [child for child in box.children if isinstance(child, Box)]
        inner = [child for child in boxes if self.interactive or child in self.opened]
        views = {child: self.view(child, seen and child in self.opened) for child in inner}
        items: dict[Child | Port, Item] = {child: self.item(child, cards[child], views) for child in box.children}
        for source, target, _ in box.edges:
            for end in (source, target):
                if isinstance(end, Port):
                    items.setdefault(end, Item(2.0, 0.0, bend=True))
        ports = {"in": [], "out": []}
        for port, item in items.items():
            if isinstance(port, Port):
                ports[port.side].append(item)
        edges = [(items[source], items[target], var) for source, target, var in box.edges]
        title = NAME_CHARACTER * (len(shortened(box.name)) + 4) if box.parent else 0.0
        margins = (HEAD, FOOT) if box.parent else (0.0, 0.0)
        level = layered(ports["in"], [items[child] for child in box.children], ports["out"], edges, margins, title)
        (place_by_dot if self.by_dot and seen else pack)(level)
        settle(level)
        arrange(level)
        return View(box, box in self.opened, level, items, cards, views)

    def item(self, child: Child, card: Card, views: dict[Box, View]) -> Item:
        if isinstance(child, Var) or child not in self.opened:
            return Item(card.width, card.height)
        level = views[child].level
        ends = {"in": {}, "out": {}}
        for key, item in views[child].items.items():
            if isinstance(key, Port):
                ends[key.side][key.var] = item.left + item.width / 2 - level.width / 2
        return Item(level.width + 2 * SIDE, level.height, entries=ends["in"], exits=ends["out"])

    def card(self, child: Child) -> Card:
        if isinstance(child, Box):
            return box_card(child, self.box_state(child))
        return var_card(child, self.gradient(child), self.var_state(child))

    def gradient(self, var: Var) -> CardRow | None:
        if var.constant or not self.differentiated:
            return None
        return step_row(self.step.grads.get(var), var.shape) if self.step else gradient_row(var.grad)

    def var_state(self, var: Var) -> str:
        root = "root " if var is self.graph.root else ""
        if self.step is None or var.constant:
            return root
        now = "now " if var.creator is self.step.op else ""
        if var in self.step.changed:
            return f"{root}{now}changed"
        known = var in self.step.grads and all(user.creator in self.step.done for user in self.graph.uses[var])
        return f"{root}{now}{'known' if known else 'waiting'}"

    def box_state(self, box: Box) -> str:
        if self.step is None:
            return ""
        ops = {var.creator for var in box.vars() if var.creator and not var.constant}
        return "changed" if self.step.op in ops else "known" if ops <= self.step.done else "waiting"

    def level_svg(self, view: View) -> str:
        place = _places(view.level)
        links, nodes = "", ""
        for link in view.level.links:
            links += f'<path class="link{self.link_state(link, view)}" d="{link_path(link, view)}"/>'
        for child, item in view.items.items():
            if not isinstance(child, Port):
                moved = f"translate({item.left:.1f} {item.top:.1f})"
                nodes += f'<g data-i="{place[item]}" transform="{moved}">{self.child_svg(child, view)}</g>'
        return f"<g><g>{links}</g><g>{nodes}</g></g>"

    def child_svg(self, child: Child, view: View) -> str:
        card = view.cards[child].svg
        if isinstance(child, Var):
            return card
        if child not in view.views:
            return f'<g class="group closed"><g class="card">{card}</g></g>'
        inner = view.views[child]
        width, height = inner.level.width + 2 * SIDE, inner.level.height
        frame = f'<rect width="{width:.1f}" height="{height:.1f}" rx="9"/>'
        title = f'<text class="name" x="9" y="17">▾ {escape(shortened(child.name))}</text>'
        kind = f'class="group {"open" if inner.open else "closed"}"{BUTTON if self.interactive else ""}'
        return (
            f'<g {kind}><g class="card">{card}</g>'
            f'<g class="frame">{frame}<g transform="translate({SIDE:g} 0)">{self.level_svg(inner)}</g>{title}</g></g>'
        )

    def link_state(self, link: Link, view: View) -> str:
        """Whether the gradient of the step has just come through here."""
        if self.step is None or link.key not in self.step.changed:
            return ""
        made = (child for child in view.box.children if isinstance(child, Var) and child.creator is self.step.op)
        now = next((view.items[child] for child in made), None)
        return " now" if now and (link.target is now or (link.target.bend and link.target.row < now.row)) else ""


def _resource(name: str) -> str:
    return files("neuropil.autodiff").joinpath(name).read_text("utf-8")


def link_path(link: Link, view: View) -> str:
    """Straight inside a row, curved between rows, with a head where it ends at a card."""
    source, target, bands = link.source, link.target, view.level.bands
    x0, x1 = source.left + source.width / 2 + link.start, target.left + target.width / 2 + link.end
    y0, y1 = bands[source.row][1], bands[target.row][0]
    start = source.top if source.bend else source.top + source.height
    end = target.top + target.height if target.bend else target.top
    middle = (y0 + y1) / 2
    head = "" if target.bend or target.entries else "m-3.5 -6l3.5 6l3.5 -6"
    curve = f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    return f"M{x0:.1f} {start:.1f}V{y0:.1f}{curve}V{end:.1f}{head}"


def model(view: View, number: Mapping[Any, int]) -> dict[str, Any]:
    """What the script needs to lay the view out again. Links name items by place, and what runs in them by number."""
    place = _places(view.level)
    entries: dict[Item, dict[str, Any]] = {}
    for item in place:
        size = {"bend": 1, "w": item.width} if item.bend else {"w": round(item.width, 1), "h": round(item.height, 1)}
        entries[item] = {"x": round(item.x, 1), **size}
    for box, inner in view.views.items():
        card, inside = view.cards[box], _places(inner.level)
        ports: dict[str, dict[int, int]] = {"in": {}, "out": {}}
        for key, item in inner.items.items():
            if isinstance(key, Port):
                ports[key.side][number[key.var]] = inside[item]
        entries[view.items[box]] |= {"w": round(card.width, 1), "h": card.height, "open": inner.open}
        entries[view.items[box]] |= {"view": model(inner, number), **ports}
    return {
        "rows": [[entries[item] for item in row] for row in view.level.rows],
        "links": [[place[link.source], place[link.target], number[link.key]] for link in view.level.links],
        "margins": view.level.margins,
        "least": view.level.least_width,
    }


def _places(level: Level) -> dict[Item, int]:
    return {item: i for i, item in enumerate(item for row in level.rows for item in row)}
