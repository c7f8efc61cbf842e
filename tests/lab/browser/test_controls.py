from typing import Any

CHANGED_BY_AN_ANSWER = """async ([kind, options, typed, answered]) => {
    const made = (await import("/page/controls.js"))[kind];
    const told = new Promise((resolve) => {
        const control = made({ label: "v", ...options, onchange: resolve });
        const input = control.querySelector("input");
        input.value = typed;
        input.dispatchEvent(new Event("input"));
        control.set(answered);
    });
    return await told;
}"""


def test_an_answer_to_an_older_question_does_not_undo_what_is_being_typed(lab: Any, page: Any):
    page.goto(lab.link("/"))
    slider = {"min": -4, "max": 4, "step": 0.1, "value": 0}
    assert page.evaluate(CHANGED_BY_AN_ANSWER, ["slider", slider, 0.5, -0.8]) == 0.5
    assert page.evaluate(CHANGED_BY_AN_ANSWER, ["textBox", {}, "new", "old"]) == "new"
