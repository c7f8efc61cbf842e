"""The frame of the page: the first visit, searching, light and dark, a phone, keys and a screen reader."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from neuropil.recipes import SYSTEMS


def test_the_first_page_has_every_system_from_the_neuron_to_the_transformer(lab: Any, page: Any):
    page.goto(lab.address)
    page.locator(".card").first.wait_for()
    assert sorted(page.locator(".card").evaluate_all("all => all.map(one => one.dataset.system)")) == sorted(
        system.name for system in SYSTEMS
    )
    families = page.locator(".family").evaluate_all("all => all.map(one => one.ariaLabel)")
    assert (families[0], families[-1]) == ("biological neurons", "attention and transformers")


def test_every_system_has_a_picture(lab: Any, page: Any):
    page.goto(lab.address)
    page.locator(".card").first.wait_for()
    page.evaluate("document.querySelectorAll('img[loading]').forEach(image => { image.loading = 'eager'; })")
    page.wait_for_function("() => [...document.querySelectorAll('.card img')].every(image => image.complete)")
    without = "all => all.filter(image => !image.naturalWidth).map(image => image.src)"
    assert page.locator(".card img").evaluate_all(without) == []


def test_search_finds_by_name_family_and_idea(lab: Any, page: Any):
    page.goto(lab.address)
    page.locator(".card").first.wait_for()
    page.get_by_label("Search the systems").fill("masked language")
    found = page.locator(".card").evaluate_all("all => all.map(one => one.dataset.system)")
    assert found == ["bert"]


def test_search_finds_other_forms_of_a_word_and_says_when_there_is_none(lab: Any, page: Any):
    page.goto(lab.address)
    page.locator(".card").first.wait_for()
    names = "all => all.map(one => one.dataset.system)"
    page.get_by_label("Search the systems").fill("spikes")
    assert {"lif", "spiking_network", "spiking_classifier"} <= set(page.locator(".card").evaluate_all(names))
    page.get_by_label("Search the systems").fill("translate")
    assert {"seq2seq", "transformer"} <= set(page.locator(".card").evaluate_all(names))
    page.get_by_label("Search the systems").fill("xyzzy")
    page.get_by_text("No system has these words.").wait_for()


def test_keys_reach_a_system_and_its_view(lab: Any, page: Any):
    page.goto(lab.link("/system/lif"))
    page.locator("h1").wait_for()
    page.get_by_role("link", name="Spiking neurons").focus()
    page.keyboard.press("Enter")
    page.locator(".view[data-ready]").wait_for()
    slider = page.get_by_label("current", exact=True)
    slider.focus()
    before = float(slider.input_value())
    page.keyboard.press("ArrowRight")
    assert float(slider.input_value()) > before


def test_light_and_dark_are_kept(lab: Any, page: Any):
    page.goto(lab.address)
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(paper)
    page.get_by_label("Light or dark").click()
    dark = page.evaluate(paper)
    page.reload()
    assert (page.evaluate(paper), light) == (dark, "rgb(255, 255, 255)")
    assert dark != light


@pytest.mark.parametrize("width", [390, 1200])
def test_letters_of_a_chart_keep_their_size_where_it_is_narrow(lab: Any, page: Any, width: int):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(lab.link("/view/lif"))
    page.locator(".view[data-ready]").wait_for()
    smallest = "Math.min(...all.map(text => text.getBoundingClientRect().height)) >= 11"
    page.wait_for_function(f"() => {{ const all = [...document.querySelectorAll('.chart text')]; return {smallest}; }}")


def test_code_is_shown_and_leads_to_its_file(lab: Any, page: Any):
    page.goto(lab.link("/view/lif"))
    page.locator(".source summary", has_text="models.lif.rate").click()
    page.locator(".source[open] a").click()
    page.locator(".marked").wait_for()
    assert "def rate(" in page.locator(".marked").inner_text()


def test_an_unknown_page_says_so(lab: Any, page: Any):
    page.goto(lab.link("/nowhere"))
    assert page.get_by_role("alert").inner_text() == "There is no page /nowhere."


PATHS = ("/", "/runs", "/system/lstm", "/view/lif", "/source/models/lif.py")


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_accessible_in_light_and_dark(lab: Any, page: Any, path: str):
    page.goto(lab.link(path))
    page.locator("h1").wait_for()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], scheme


@pytest.mark.parametrize("path", PATHS)
def test_a_page_fits_a_phone(lab: Any, page: Any, path: str):
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(lab.link(path))
    page.locator("h1").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
