"""Learning rules side by side: the same start, the same data, and what is declared of each beside what is measured."""

from pathlib import Path

import pytest
import torch

import neuropil
from neuropil.errors import InputError
from neuropil.inspection.report.page import Table
from neuropil.models.learning_rules.locality import LOCALITY
from neuropil.recipes.learning_rules import (
    PROBED,
    RATES,
    SUBJECTS,
    LearningRulesOptions,
    RuleTask,
    _examples_apart,
    _later_weights,
    build,
)
from neuropil.tasks import study
from neuropil.tasks.study import Study

RULES = pytest.mark.parametrize("rule", list(RATES))
SMALL = LearningRulesOptions(hidden_sizes=(20, 12), epochs=1, tuning_epochs=1, batch_size=400, pairs=8, time_steps=5)


@pytest.fixture(scope="module")
def task() -> RuleTask:
    return RuleTask(SMALL.override(hidden_sizes=(64, 64)), study.prepare_classes(SMALL.data, 0).train, seed=0)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Study:
    made = build(SMALL, seed=0)
    made.train(tmp_path_factory.mktemp("rules"), show_progress=False)
    return made


def test_every_rule_is_described():
    assert set(RATES) == set(SUBJECTS) == set(LOCALITY)
    page = (Path(__file__).parents[2] / "docs" / "systems" / "learning-rules.md").read_text(encoding="utf-8")
    for rule, known in LOCALITY.items():
        assert f"| {rule} | {' | '.join(known[:4])} |" in page


@RULES
def test_what_is_declared_of_a_rule_is_measured(task: RuleTask, rule: str):
    subject, known = SUBJECTS[rule](task, RATES[rule][0]), LOCALITY[rule]
    batch = next(study.shuffled(task.train, PROBED, 0).epoch(0))
    later, apart = _later_weights(subject, batch), _examples_apart(rule, subject, batch)
    assert (later is None) == (known.reads_later_weights is None)
    assert (apart is None) == (known.examples_add_up is None)
    if later is not None:
        assert (later > 0.05) if known.reads_later_weights else (later < 1e-3)
    if apart is not None:
        assert (apart < 0.01) if known.examples_add_up else (apart > 0.05)


@pytest.mark.parametrize("rule", ["feedback alignment", "direct feedback alignment", "evolution strategies"])
def test_layered_rules_begin_with_the_same_weights(task: RuleTask, rule: str):
    first = SUBJECTS["back-propagation"](task, 0.1).learner.model.state_dict()
    own = SUBJECTS[rule](task, 0.1).learner.model.state_dict()
    assert all(torch.equal(own[name], value) for name, value in first.items())


def test_predictive_coding_begins_with_the_same_function(task: RuleTask):
    inputs = task.train.inputs[:20]
    own, first = (SUBJECTS[rule](task, 0.1).answer(inputs) for rule in ("predictive coding", "back-propagation"))
    torch.testing.assert_close(own, first)


@RULES
def test_sizes_are_alike_where_they_are_free(task: RuleTask, rule: str):
    weights = sum(each.numel() for each in SUBJECTS[rule](task, RATES[rule][0]).learner.model.parameters())
    if rule not in ("Hebb", "STDP"):
        assert weights == pytest.approx(task.num_weights(), rel=0.02)


def test_results_are_those_of_all_rules_and_of_the_baselines(finished: Study):
    names = [result.name for result in finished.evaluate()]
    first, *others = RATES
    assert names == [first, "logistic regression", *others, "always the most frequent class"]
    found = {result.name: result.metrics for result in finished.evaluate()}
    assert found["back-propagation"]["alignment"] == pytest.approx(1, abs=1e-5)
    assert found["feedback alignment"]["alignment"] < 0.9
    assert "alignment" not in found["surrogate gradients"], "its hidden layers have no gradient"


def tables(study: Study) -> dict[str, Table]:
    return {
        section.title: block
        for section in study.findings.sections
        for block in section.blocks
        if isinstance(block, Table)
    }


def test_the_tables_tell_of_every_rule(finished: Study):
    found = tables(finished)
    for title in ("Accuracy over examples and over time", "What a weight needs to know"):
        assert [row[0] for row in found[title].rows][: len(RATES)] == list(RATES)
    measured = {str(row[0]): row[5] for row in found["What a weight needs to know"].rows}
    assert measured["feedback alignment"] == measured["direct feedback alignment"] == "no change"
    assert measured["back-propagation"] != "no change"
    assert measured["PES"] == "–"


def test_the_chosen_rate_is_the_most_accurate_of_its_grid(finished: Study):
    rows = tables(finished)["Learning rates"].rows
    for rule in RATES:
        own = {float(row[1]): float(str(row[2]).rstrip(" %")) for row in rows if row[0] == rule and "%" in str(row[2])}
        chosen = [float(row[1]) for row in rows if row[0] == rule and row[3] == "chosen"]
        if len(RATES[rule]) > 1:
            assert own[chosen[0]] == max(own.values())


def test_some_of_the_rules_can_be_compared_alone(tmp_path: Path):
    made = build(SMALL.override(rules=("PES", "Hebb")), seed=0)
    made.train(tmp_path, show_progress=False)
    assert [result.name for result in made.evaluate()] == [
        "PES",
        "logistic regression",
        "Hebb",
        "always the most frequent class",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"rules": ("backpropagation",)},
            "a learning rule must be one of those, but got 'backpropagation': did you mean 'back-propagation'?",
        ),
        ({"rules": ()}, "a comparison needs at least one learning rule, but got none."),
        (
            {"hidden_sizes": ()},
            "learning rules are compared in a network with a hidden layer, but got none: give --hidden-sizes 64 64.",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(options: dict, message: str):
    with pytest.raises(InputError) as error:
        build(SMALL.override(**options), seed=0)
    assert str(error.value) == message


@pytest.mark.slow
def test_with_its_defaults_every_rule_learns_and_alignment_rises(tmp_path: Path):
    run = neuropil.train("learning_rules", out=tmp_path / "run", show_progress=False)
    accuracy = {result.name: result.metrics["accuracy"] for result in run.results}
    assert all(accuracy[rule] > 0.6 for rule in RATES)
    layered = ("back-propagation", "feedback alignment", "direct feedback alignment", "predictive coding")
    assert all(accuracy[rule] > 0.93 for rule in layered)
