from collections.abc import Callable

import pytest

from neuropil.errors import InputError
from neuropil.inspection.gates import correlation
from neuropil.inspection.report.gates import watch
from neuropil.inspection.text_properties import properties_of
from neuropil.lab.view import ask, find_view
from neuropil.runs.pages.gates import held_out_text
from neuropil.runs.run import Run

VIEW = find_view("gates")
TEXT = '14 is "even" (see 15).'


def test_rows_are_the_gates_of_the_units_that_move_most(text_run: Callable[[str], Run]):
    run = text_run("lstm")
    answer = ask(VIEW, "read", run, {"text": TEXT, "gate": "forget"})
    forget = watch(run.predictor, TEXT)[0].gates["forget"]
    variances = forget.var(0, correction=0)
    assert answer["units"][0] == int(variances.argmax())
    assert answer["ranks"] == pytest.approx(sorted(variances.tolist(), reverse=True))
    assert answer["rows"][3] == pytest.approx(forget[:, answer["units"][3]].tolist(), abs=1e-4)
    assert answer["traces"]["forget"] == pytest.approx(forget[:, answer["unit"]].tolist(), abs=1e-5)
    assert answer["answers"]["nats"][1:] == pytest.approx(run.predictor.surprise(TEXT).nats.tolist(), abs=1e-5)


def test_units_are_sorted_by_their_tie_to_a_property(text_run: Callable[[str], Run]):
    run = text_run("lstm")
    answer = ask(VIEW, "read", run, {"text": TEXT, "sort": "inside quotes"})
    state = watch(run.predictor, TEXT)[0].gates["h"]
    r = correlation(state, properties_of(list(TEXT))["inside quotes"])
    assert answer["ranks"] == pytest.approx(r[answer["units"]].tolist())
    assert abs(answer["ranks"][0]) == pytest.approx(float(r.abs().max()))


def test_ties_are_found_in_held_out_text(text_run: Callable[[str], Run]):
    run = text_run("lstm")
    found = ask(VIEW, "ties", run, {})["ties"]
    state = watch(run.predictor, held_out_text(run))[0]
    half = len(state.tokens) // 2
    assert {"digit", "inside quotes"} <= {tie["property"] for tie in found}
    for tie in found:
        property, units = properties_of(state.tokens)[tie["property"]], state.gates[tie["gate"]]
        assert tie["held_out"] == pytest.approx(float(correlation(units[half:], property[half:])[tie["unit"]]))


def test_classes_move_with_each_token(text_run: Callable[[str], Run]):
    run = text_run("text_classifier")
    answers = ask(VIEW, "read", run, {"text": "it is odd now"})["answers"]
    _, shares = run.predictor.probabilities_by_token("it is odd now")
    for number, name in enumerate(run.predictor.classes):
        assert answers["lines"][name] == pytest.approx(shares[:, number].tolist(), abs=1e-5)


def test_tags_are_those_of_the_tagger(text_run: Callable[[str], Run]):
    run = text_run("tagger")
    answers = ask(VIEW, "read", run, {"text": "The dog sat"})["answers"]
    assert [tag for tag, _ in answers["best"]] == run.predict("The dog sat").tags[0]


def test_a_gate_that_the_cell_lacks_is_refused(text_run: Callable[[str], Run]):
    with pytest.raises(InputError) as refused:
        ask(VIEW, "read", text_run("lstm"), {"text": TEXT, "gate": "reset"})
    assert str(refused.value) == "gate must be one of input, forget, candidate, output, h, c, but got 'reset'."
