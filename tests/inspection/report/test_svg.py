import re

import pytest
from matplotlib.figure import Figure

from neuropil.inspection.report.svg import figure_svg, with_own_ids


def titled(title: str) -> Figure:
    figure = Figure(figsize=(3, 2), layout="constrained")
    axes = figure.subplots()
    axes.plot([1, 2], [3, 4], "o")
    axes.set_title(title)
    return figure


@pytest.mark.parametrize("title", ["accuracy", "دقت", "الدقة", "正確さ", "दर"])
def test_letters_of_any_script_stay_text_for_the_browser_to_draw(title: str):
    assert f">{title}</text>" in figure_svg(titled(title))


def test_letters_that_mean_something_in_markup_are_escaped():
    assert ">a &lt; b &amp; c</text>" in figure_svg(titled("a < b & c"))


def test_a_drawing_brings_no_fonts_styles_or_foreign_names():
    svg = figure_svg(titled("x"))
    assert svg.startswith("<svg ")
    assert not re.search("font-family|<style|<metadata|xmlns|http", svg)


def test_a_drawing_has_no_paper_of_its_own():
    assert "#ffffff" not in figure_svg(titled("x"))


def test_the_same_figure_gives_the_same_drawing():
    assert figure_svg(titled("x")) == figure_svg(titled("x"))


def test_own_ids_change_every_id_together_with_its_references_and_no_text():
    svg = '<svg><path id="a"/><use xlink:href="#a"/><g clip-path="url(#b)"/><clipPath id="b"/>id="c"</svg>'
    own = '<svg><path id="p-a"/><use xlink:href="#p-a"/><g clip-path="url(#p-b)"/><clipPath id="p-b"/>id="c"</svg>'
    assert with_own_ids(svg, "p-") == own
