from collections.abc import Callable
from typing import Any

from lab.small_runs import SMALL
from neuropil.lab.pictures import held_out
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run


def test_the_answer_follows_epsilon(lab: Any, page: Any, trained_run: Callable[..., Run]):
    run = trained_run("mlp", **SMALL["mlp"])
    page.goto(lab.link("/view/adversarial", run="mlp"))
    page.get_by_text("The smallest ε").wait_for()
    least = float(page.locator("p b [data-value]").get_attribute("data-value"))
    picture = held_out(run).examples.inputs[:1]
    assert abs(least - float(run.attack(picture, method="minimal").distance[0])) < 1e-5
    page.get_by_label("ε", exact=True).fill("0.4")
    expected = ask(find_view("adversarial"), "attack", run, {"eps": 0.4})
    assert expected["answers"][0] != expected["answers"][1]
    page.locator(f".bad[data-answer='{expected['answers'][1]}']").wait_for()
    shown = page.locator(".bars").nth(1).locator("[data-value]").evaluate_all("all => all.map(e => +e.dataset.value)")
    assert shown == expected["after"]
