from collections.abc import Callable
from typing import Any

from neuropil.runs.run import Run


def test_a_place_is_filled_and_a_word_hidden(lab: Any, page: Any, text_run: Callable[[str], Run]):
    run, text = text_run("bert"), "14 is [MASK] (see 15)"
    page.goto(lab.link("/view/fill", run="texts_bert"))
    page.get_by_label("text, with [MASK]").fill(text)
    best = run.fill(text, 1)[0]
    page.wait_for_function(
        """([word, share]) => {
          const shown = document.querySelector(".blanks [data-value]");
          return shown?.dataset.word === word && Math.abs(shown.dataset.value - share) < 1e-6;
        }""",
        arg=[best.word, best.share],
    )
    rows = "all => all.map(one => one.getBoundingClientRect()).map(({left, bottom}) => [left, bottom])"
    left, bottoms = zip(*page.locator(".blanks button").evaluate_all(rows), strict=True)
    assert len(set(left)) == 1, "the words of a place stand below one another"
    assert len(set(bottoms)) == len(bottoms)
    page.locator(".blanks button").first.click()
    page.get_by_text("Write [MASK] where a word is missing").wait_for()
    assert page.get_by_label("text, with [MASK]").input_value() == f"14 is {best.word} (see 15)"
    page.locator(".coloured .tk").nth(1).click()
    page.get_by_role("button", name="Hide the chosen word").click()
    page.locator(".blanks .blank").wait_for()
    assert page.get_by_label("text, with [MASK]").input_value().count("[MASK]") == 1
