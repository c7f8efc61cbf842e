from collections.abc import Callable
from typing import Any

from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run


def test_classes_follow_what_is_typed(lab: Any, page: Any, text_run: Callable[[str], Run]):
    run, text = text_run("text_classifier"), "so 7 is odd now"
    page.goto(lab.link("/view/text_classification", run="texts_text_classifier"))
    page.get_by_label("text", exact=True).fill(text)
    page.get_by_role("button", name="Weigh the words for odd").click()
    expected = ask(find_view("text_classification"), "classify", run, {"text": text, "label": "odd"})
    page.wait_for_function(
        "share => Math.abs(document.querySelector(\"[data-name='odd']\").dataset.value - share) < 1e-6",
        arg=expected["probabilities"][run.predictor.classes.index("odd")],
    )
    page.get_by_role("heading", name="What each word adds to odd").wait_for()
    page.wait_for_function(
        """value => [...document.querySelectorAll(".coloured .tk")].some(
             (each) => each.textContent === "odd" && Math.abs(each.dataset.value - value) < 1e-6)""",
        arg=expected["contributions"][expected["pieces"].index("odd")],
    )
    page.get_by_role("button", name="Change words until the class changes").click()
    after = page.locator("[data-after]").get_attribute("data-after")
    assert after == ask(find_view("text_classification"), "attack", run, {"text": text})["after"]
