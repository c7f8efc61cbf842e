from collections.abc import Callable
from typing import Any

from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run


def test_a_unit_is_followed_over_what_is_typed(lab: Any, page: Any, text_run: Callable[[str], Run]):
    run, text = text_run("lstm"), '14 is "even".'
    page.goto(lab.link("/view/gates", run="texts_lstm"))
    page.get_by_label("text", exact=True).fill(text)
    page.get_by_label("gate or state").select_option(label="forget")
    page.get_by_label("units sorted by").select_option(label="tie to: inside quotes")
    expected = ask(find_view("gates"), "read", run, {"text": text, "gate": "forget", "sort": "inside quotes"})
    page.get_by_role("heading", name=f"Unit {expected['unit']}: forget").wait_for()
    shown = page.locator(".coloured .tk").evaluate_all("all => all.map(each => Number(each.dataset.value))")
    assert shown == expected["traces"]["forget"]


def test_a_classifier_shows_its_class_after_the_text(lab: Any, page: Any, text_run: Callable[[str], Run]):
    run = text_run("text_classifier")
    page.goto(lab.link("/view/gates", run="texts_text_classifier", state='{"text":"it is odd now"}'))
    page.locator(".view[data-ready]").wait_for()
    shown = float(page.locator("p [data-value]").first.get_attribute("data-value"))
    assert abs(shown - float(run.predict("it is odd now").scores.max())) < 1e-6
