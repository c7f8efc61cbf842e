from collections.abc import Callable
from typing import Any

from neuropil.runs.run import Run


def test_a_word_is_searched_and_an_analogy_solved(lab: Any, page: Any, text_run: Callable[[str], Run]):
    run = text_run("word2vec")
    page.goto(lab.link("/view/embeddings", run="texts_word2vec"))
    page.locator(".view[data-ready]").wait_for()
    page.get_by_label("word", exact=True).fill("even")
    page.get_by_role("heading", name="Nearest to even").wait_for()
    best = run.neighbours("even", count=1)[0]
    shown = page.locator(f".near [data-name='{best.word}']").first
    assert abs(float(shown.get_attribute("data-value")) - best.cosine) < 1e-6
    for name, word in zip("abc", ("even", "2", "3"), strict=True):
        page.get_by_label(name, exact=True).fill(word)
    answer = run.analogy("even", "2", "3", count=1)[0]
    page.wait_for_function(
        """([word, cosine]) => {
          const shown = document.querySelector("[aria-label='Answers of the analogy'] [data-value]");
          return shown.dataset.name === word && Math.abs(shown.dataset.value - cosine) < 1e-6;
        }""",
        arg=[answer.word, answer.cosine],
    )
