from collections.abc import Callable
from typing import Any

from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run


def test_a_prompt_is_continued_by_hand_and_by_the_seed(lab: Any, page: Any, text_run: Callable[[str], Run]):
    run = text_run("gpt2")
    page.goto(lab.link("/view/generation", run="texts_gpt2"))
    page.get_by_label("prompt").fill("14 is ")
    page.locator(".candidates [role=listitem]").first.wait_for()
    expected = ask(find_view("generation"), "read", run, {"text": "14 is "})["candidates"]
    page.wait_for_function(
        "([token, share]) => Math.abs(document.querySelector(`[data-token='${token}']`)?.dataset.value - share) < 1e-6",
        arg=[expected[0][0], expected[0][2]],
    )
    page.locator(".candidates button").nth(1).click()
    page.locator(".coloured .new").wait_for()
    page.get_by_role("button", name="Step", exact=True).click()
    page.locator(".coloured .new").nth(1).wait_for()
    written = [expected[1][0]]
    token = ask(find_view("generation"), "step", run, {"text": "14 is ", "written": written})["token"]
    assert f'"written":[{written[0]},{token}]' in page.evaluate("decodeURIComponent(location.href)")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => document.querySelectorAll('.coloured .new').length === 1")
