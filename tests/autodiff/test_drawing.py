import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import numpy as np
import pytest

from neuropil.autodiff import Graph, Var, graph, group, ops
from neuropil.autodiff.expression import VISIBLE
from neuropil.autodiff.graphviz import dot_is_installed
from neuropil.autodiff.modules import LinearLayer, Module, RNNCell
from neuropil.autodiff.networks import ImageCNN, ImageMLP, RowAttention, RowRNN
from neuropil.errors import InputError

SVG = "{http://www.w3.org/2000/svg}"
Rectangle = tuple[float, float, float, float]


def small_expression() -> Var:
    """About twenty nodes, with a Var that is used far from where it stands."""
    x, w, b = Var(2.0, name="x"), Var(-3.0, name="w"), Var(6.88, name="b")
    loss = (ops.tanh(x * w + b) - 1) ** 2 + 0.1 * w**2
    loss.name = "loss"
    return loss


def loss_of(network: Callable[..., Module]) -> Var:
    images = np.random.default_rng(0).random((6, 8, 8))
    return ops.cross_entropy(network(8, 8, 10, np.random.default_rng(0))(images), np.arange(6))


class Deep(Module):
    def __init__(self, num_layers: int):
        rng = np.random.default_rng(0)
        self.layers = [LinearLayer(4, 4, rng) for _ in range(num_layers)]

    def forward(self, x: Var) -> Var:
        for layer in self.layers:
            x = x + ops.tanh(layer(x))
        return x


def deep_loss(num_layers: int) -> Var:
    return Deep(num_layers)(Var(np.ones((2, 4)), name="x")).sum()


def unrolled_loss(num_steps: int) -> Var:
    cell, state = RNNCell(2, 3, np.random.default_rng(0)), Var(np.zeros((1, 3)), constant=True)
    for x in Var(np.ones((num_steps, 1, 2)), name="inputs", constant=True):
        state = cell(x, state)
    return state.sum()


def visible_nodes(svg: str) -> Iterator[tuple[ET.Element, Rectangle]]:
    """The cards that a reader without script sees, and the room that each takes on the page."""

    def walk(element: ET.Element, x: float, y: float) -> Iterator[tuple[ET.Element, Rectangle]]:
        shift = re.fullmatch(r"translate\((\S+) (\S+)\)", element.get("transform", ""))
        x, y = (x + float(shift[1]), y + float(shift[2])) if shift else (x, y)
        classes = element.get("class", "").split()
        if element.get("data-i") and "open" not in element[0].get("class", ""):
            yield element, bounds(element, x - (float(shift[1]) if shift else 0), y - (float(shift[2]) if shift else 0))
            return
        for child in element:
            if not ("open" in classes and child.get("class") == "card"):
                yield from walk(child, x, y)

    yield from walk(ET.fromstring(svg), 0, 0)  # noqa: S314 (our own text)


def bounds(element: ET.Element, x: float, y: float) -> Rectangle:
    corners: list[Rectangle] = []

    def walk(part: ET.Element, x: float, y: float) -> None:
        shift = re.fullmatch(r"translate\((\S+) (\S+)\)", part.get("transform", ""))
        x, y = (x + float(shift[1]), y + float(shift[2])) if shift else (x, y)
        if part.tag == f"{SVG}rect":
            left, top = x + float(part.get("x", 0)), y + float(part.get("y", 0))
            corners.append((left, top, left + float(part.get("width", 0)), top + float(part.get("height", 0))))
        for child in part:
            if part.get("class") != "frame" and child.get("class") != "frame":
                walk(child, x, y)

    walk(element, x, y)
    lefts, tops, rights, bottoms = zip(*corners, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def require_apart(svg: str) -> None:
    nodes = [rectangle for _, rectangle in visible_nodes(svg)]
    assert nodes
    for a, b in itertools.combinations(nodes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    width, height = (float(ET.fromstring(svg).get(side, 0)) for side in ("width", "height"))  # noqa: S314 (our own text)
    assert all(0 <= a[0] <= a[2] <= width and 0 <= a[1] <= a[3] <= height for a in nodes)


def text_of(svg: str) -> str:
    return " ".join(ET.fromstring(svg).itertext())  # noqa: S314 (our own text)


def test_a_small_expression_shows_names_values_gradients_and_ops():
    loss = small_expression()
    loss.backward()
    found = graph(loss)
    svg = found.draw(layout="layered")
    text = text_of(svg)
    for shown in ("x", "w", "b", "loss", "0.986", "-1.19", "tanh", "×", "xᵖ", "tanh: ∂tanh x/∂x = 1 - tanh² x."):
        assert shown in text
    assert len(list(visible_nodes(svg))) == len(found.vars)
    require_apart(svg)


def test_gradients_are_shown_once_there_are_any():
    loss = small_expression()
    assert "∂ " not in graph(loss).draw()
    assert 'class="gradient"' not in graph(loss).draw()
    loss.backward()
    assert 'class="gradient"' in graph(loss).draw()


@pytest.mark.parametrize("network", [ImageMLP, ImageCNN, RowRNN, RowAttention])
@pytest.mark.parametrize("collapse", ["auto", 0, 1, 2, set()], ids=["auto", "0", "1", "2", "all open"])
def test_no_two_nodes_of_a_network_overlap(network: Callable[..., Module], collapse):
    found = graph(loss_of(network))
    svg = found.draw(collapse=collapse, layout="layered")
    require_apart(svg)
    drawn = sum(
        1 + (node.find(f".//{SVG}g[@class='op']") is not None and node[0].get("class") != "group closed")
        for node, _ in visible_nodes(svg)
    )
    assert drawn == found.num_visible(found.opened(collapse))


@pytest.mark.parametrize(("make", "size"), [(deep_loss, 320), (unrolled_loss, 260)], ids=["deep", "unrolled"])
def test_three_thousand_nodes_are_few_boxes(make: Callable[[int], Var], size: int):
    found = graph(make(size))
    assert len(found) > 3000
    svg = found.draw(layout="layered", interactive=False)
    require_apart(svg)
    assert len(list(visible_nodes(svg))) < VISIBLE
    assert "<script" not in svg
    assert len(svg) < 50_000


@pytest.mark.slow
def test_behind_the_boxes_of_three_thousand_nodes_is_everything():
    found = graph(unrolled_loss(260))
    svg, still = found.draw(layout="layered"), found.draw(layout="layered", interactive=False)
    root = ET.fromstring(svg)  # noqa: S314 (our own text)
    assert sum(1 for _ in root.iterfind(f".//{SVG}g[@class='op']")) == len(found.ops)
    assert [rectangle for _, rectangle in visible_nodes(still)] == [rectangle for _, rectangle in visible_nodes(svg)]


def test_names_with_signs_of_xml_are_written_safely():
    with group("<b>&"):
        y = Var(1.0, name='a < "b" & c') * 2
    assert 'a < "b" & c' in text_of(graph(y).draw())
    assert "▾ <b>&" in text_of(graph(y).draw())


def test_a_single_var_can_be_drawn():
    svg = graph(Var([1.0, 2.0], name="alone")).draw()
    assert "alone" in text_of(svg)
    assert len(list(visible_nodes(svg))) == 1


def test_the_file_is_what_is_returned(tmp_path: Path):
    found = graph(small_expression())
    assert (tmp_path / "graph.svg").write_text(found.draw(tmp_path / "graph.svg")) > 0
    assert (
        found.draw(tmp_path / "deep" / "graph.svg")
        == (tmp_path / "deep" / "graph.svg").read_text()
        == found._repr_svg_()
    )


def classes(svg: str, name: str) -> set[str]:
    """The CSS classes of the card of a named Var."""
    for node, _ in visible_nodes(svg):
        if any(text.get("class") == "name" and text.text == name for text in node.iter(f"{SVG}text")):
            return set(node[0].get("class", "").split())
    raise AssertionError(name)


def test_a_step_shows_the_op_of_the_moment_and_which_gradients_are_known():
    x, y = Var(3.0, name="x"), Var(2.0, name="y")
    a = x * y
    a.name = "a"
    b = a + x
    b.name = "b"
    found = graph(b)
    first, second = (found.draw(step=step) for step in list(b.backward(steps=True)))
    assert classes(first, "b") == {"made", "root", "now", "known"}
    assert classes(first, "a") == {"made", "changed"}
    assert classes(first, "x") == {"leaf", "changed"}
    assert classes(first, "y") == {"leaf", "waiting"}
    assert classes(second, "b") == {"made", "root", "known"}
    assert classes(second, "a") == {"made", "now", "known"}
    assert classes(second, "x") == classes(second, "y") == {"leaf", "changed"}
    assert first.count('class="link now"') == 3  # from a, and from x past the row of a
    assert first.count('class="unknown"') == 2  # the sign and the dot of y


def test_pictures_of_all_steps_fit_on_each_other():
    loss = small_expression()
    found = graph(loss)
    pictures = [found.draw(step=step) for step in loss.backward(steps=True)]
    assert len(pictures) == len(found.ops)
    assert len({tuple(rectangle for _, rectangle in visible_nodes(picture)) for picture in pictures}) == 1


def test_a_closed_box_shows_how_far_backward_has_come():
    x = Var(2.0, name="x")
    with group("first"):
        a = x * x
    with group("second"):
        b = a * a
    found = graph(b)
    states = [
        re.findall(r'class="card"><g class="(\w+)"', found.draw(collapse=0, step=step))
        for step in b.backward(steps=True)
    ]
    assert states == [["waiting", "changed"], ["changed", "known"]]


def test_a_group_that_a_generator_left_open_can_still_be_drawn():
    def stage(x: Var) -> Generator[Var, None, None]:
        with group("stage"):
            x = x + 1
            yield x
            yield x * 2

    generator = stage(Var(1.0))
    between = next(generator) * 3
    outside = between + next(generator)
    generator.close()
    require_apart(graph(outside).draw(collapse=0, layout="layered"))


def test_a_layout_that_needs_graphviz_says_so():
    found: Graph = graph(small_expression())
    if dot_is_installed():
        require_apart(found.draw(layout="dot"))
        return
    with pytest.raises(InputError) as raised:
        found.draw(layout="dot")
    assert (
        str(raised.value)
        == "layout='dot' needs graphviz, but got no program named dot: install it, or use layout='layered'."
    )
