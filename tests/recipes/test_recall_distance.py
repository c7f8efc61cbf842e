"""What is asked and what guessing is worth, by closed forms; who is asked, at equal parameters; and who fails where."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import said
from neuropil.errors import InputError
from neuropil.inspection.report.page import Table
from neuropil.parts.parameters import count_parameters
from neuropil.randomness import seeded
from neuropil.recipes.recall_distance import (
    ASK,
    COPIED,
    NETWORKS,
    STORE,
    SYMBOLS,
    TASKS,
    VARIANCE_OF_SUM,
    DistanceTask,
    DistanceTrial,
    KnowsNothing,
    MadeSequences,
    RecallDistanceOptions,
    adding,
    build,
    copy,
    delayed_recall,
    measure_at,
    size_for,
    train,
)
from neuropil.tasks.study import Study

distances = st.integers(COPIED, 40)
every_task = pytest.mark.parametrize("task", TASKS, ids=[task.title for task in TASKS])
RECALL, COPY, ADDING = TASKS


# --- what is asked ----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=20)
@given(distance=distances, seed=st.integers(0, 2**16))
def test_delayed_recall_asks_for_the_first_symbol_after_so_many_steps(distance: int, seed: int):
    x, target = delayed_recall(distance, 3, seeded(seed))
    assert torch.equal(x[:, 0, :SYMBOLS].argmax(-1), target[:, 0])
    asked, stored = (x[..., channel].nonzero()[:, 1] for channel in (ASK, STORE))
    assert (asked - stored).tolist() == [distance] * 3
    assert x.shape[1] == distance + 1
    assert (x[:, :-1, :SYMBOLS].sum(-1) == 1).all()  # something stands at every step between
    assert not x[:, -1, :SYMBOLS].any()


@settings(deadline=None, max_examples=20)
@given(distance=distances, seed=st.integers(0, 2**16))
def test_copy_asks_for_each_symbol_so_many_steps_after_it_stood_there(distance: int, seed: int):
    x, target = copy(distance, 3, seeded(seed))
    assert x.shape[1] == distance + COPIED
    for answer in range(COPIED):
        at = x.shape[1] - COPIED + answer - distance  # the step of the answer, so far back
        assert torch.equal(x[:, at, :SYMBOLS].argmax(-1), target[:, answer])
        assert x[:, at, STORE].all()
    assert not x[:, COPIED:, :SYMBOLS].any()
    assert x[..., ASK].nonzero()[:, 1].tolist() == [distance] * 3


@settings(deadline=None, max_examples=20)
@given(distance=distances, seed=st.integers(0, 2**16))
def test_adding_marks_a_number_in_each_half_and_asks_for_their_sum(distance: int, seed: int):
    x, target = adding(distance, 5, seeded(seed))
    numbers, marks = x.unbind(-1)
    assert x.shape == (5, distance, 2)
    assert marks.sum(1).tolist() == [2.0] * 5
    assert marks[:, : distance // 2].sum(1).tolist() == [1.0] * 5
    torch.testing.assert_close((numbers * marks).sum(1), target.flatten())


def test_every_place_of_each_half_is_marked_now_and_then():
    marks = adding(9, 2_000, seeded(0))[0][..., 1].mean(0)
    expected = torch.tensor([1 / 4] * 4 + [1 / 5] * 5)
    assert ((marks - expected).abs() < 5 * (expected * (1 - expected) / 2_000).sqrt()).all()


def test_sequences_are_new_in_every_batch_and_the_same_for_a_seed():
    made = MadeSequences(COPY, 8, 3, 16, (0, "train"))
    first, second, third = ([batch["input"] for batch in made.epoch(number)] for number in (0, 0, 1))
    assert all(map(torch.equal, first, second))
    assert not any(map(torch.equal, first, third))
    assert not torch.equal(first[0], first[1])
    assert torch.equal(next(made.epoch(0, start=2))["input"], first[2])
    other = MadeSequences(COPY, 8, 3, 16, (0, "test"))
    assert not torch.equal(next(other.epoch(0))["input"], first[0])


# --- what guessing is worth -------------------------------------------------------------------------------------------


def test_whoever_says_one_has_the_variance_of_a_sum_of_two_uniform_numbers():
    """∫∫ (u + v − 1)² du dv = 1/6."""
    _, target = adding(50, 200_000, seeded(0))
    squared = (target.flatten() - 1).square()
    spread = math.sqrt(1 / 15 - 1 / 36)  # E[(u + v − 1)⁴] = 1/15
    assert pytest.approx(1 / 6) == VARIANCE_OF_SUM
    assert squared.mean().item() == pytest.approx(1 / 6, abs=5 * spread / math.sqrt(200_000))
    assert target.var().item() == pytest.approx(1 / 6, rel=0.01)  # so that no other constant is better


@every_task
def test_knowing_nothing_scores_as_chance_does_at_any_distance(task: DistanceTask):
    model = KnowsNothing(task.outputs)
    for distance in (8, 100):
        score = task.score(measure_at(model, task, "test", distance, 0)[task.metric])
        assert score == pytest.approx(task.chance, abs=0.21 if task is ADDING else 0.06)


def test_r2_is_one_for_every_answer_right_and_zero_for_the_mean():
    assert [ADDING.score(error) for error in (0.0, 1 / 6, 1 / 3)] == pytest.approx([1.0, 0.0, -1.0])
    assert RECALL.score(0.5) == 0.5


# --- who is asked -----------------------------------------------------------------------------------------------------


@every_task
@pytest.mark.parametrize("parameters", [3_000, 8_000])
def test_networks_have_as_many_parameters_within_a_few_per_cent(task: DistanceTask, parameters: int):
    for make in NETWORKS.values():
        size = size_for(make, task, parameters)
        counts = {near: count_parameters(make(task.inputs, task.outputs, near)) for near in (size - 1, size, size + 1)}
        assert counts[size] == pytest.approx(parameters, rel=0.06)
        assert min(counts, key=lambda near: abs(counts[near] - parameters)) == size


@every_task
@pytest.mark.parametrize("name", NETWORKS)
def test_no_network_sees_what_comes_after(name: str, task: DistanceTask):
    torch.manual_seed(0)
    model, x = NETWORKS[name](task.inputs, task.outputs, 6).eval(), torch.randn(2, 9, task.inputs)
    changed = x.clone()
    changed[:, 5:] = torch.randn(2, 4, task.inputs)
    torch.testing.assert_close(model(x)[:, :5], model(changed)[:, :5])
    assert not torch.allclose(model(x)[:, 5:], model(changed)[:, 5:])


# --- who fails where --------------------------------------------------------------------------------------------------


def test_a_trial_says_how_far_it_came():
    trial = DistanceTrial(3, 100, 0.01, {8: 1.0, 16: 0.9, 32: 0.4})
    assert (trial.solved(0.9), trial.fails_at(0.9)) == (16, 32)
    assert (trial.solved(0.95), trial.fails_at(0.95)) == (8, 16)
    assert DistanceTrial(3, 100, 0.01, {8: math.nan}).fails_at(0.9) == 8
    assert DistanceTrial(3, 100, 0.01, {8: math.nan}).solved(0.9) == 0
    assert DistanceTrial(3, 100, 0.01, {8: 0.95}).fails_at(0.9) is None


SMALL = {"distances": (4, 6), "parameters": 400, "updates": 2, "learning_rates": (1e-4, 1e-2)}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = build(RecallDistanceOptions(**SMALL).override(learning_rates=(1e-2,)), seed=0)
    study.train(tmp_path_factory.mktemp("study"), show_progress=False)
    return study


def test_results_are_a_distance_of_each_network_and_what_guessing_scores(study: Study):
    named = {result.name: dict(result.metrics) for result in study.evaluate()}
    assert len(named) == len(TASKS) * len(NETWORKS) + len(TASKS)
    for task in TASKS:
        assert all(set(named[f"{name}, {task.title}"]) == {"recall_distance"} for name in NETWORKS)
        assert set(named[f"knowing nothing, {task.title}"]) == {task.metric}
    assert named["knowing nothing, adding problem"]["squared_error"] == pytest.approx(1 / 6, abs=0.04)


def test_what_is_not_solved_is_not_tried_further_and_said(tmp_path: Path):
    options = RecallDistanceOptions(**SMALL, threshold=1.0)
    heard: list[str] = []
    trial = train("LSTM", RECALL, options, 0, tmp_path, lambda share, words: heard.append(words))
    assert list(trial.scores) == [4]
    assert [words.split(",")[1] for words in heard] == [" LSTM: distance 4"] * 2  # with each learning rate
    assert trial.learning_rate in SMALL["learning_rates"]


def test_of_the_learning_rates_the_best_on_validation_is_kept(tmp_path: Path):
    options = RecallDistanceOptions(
        distances=(4,), parameters=400, updates=30, learning_rates=(1e-9, 1e-2), threshold=0.5
    )
    assert train("GRU", ADDING, options, 0, tmp_path, lambda *_: None).learning_rate == 1e-2


def test_a_network_that_diverges_fails_and_the_others_go_on(tmp_path: Path):
    options = RecallDistanceOptions(distances=(4, 8), parameters=400, updates=5, learning_rates=(1e30,))
    trial = train("RNN", ADDING, options, 0, tmp_path, lambda *_: None)
    assert trial.fails_at(options.threshold) == 4


@pytest.mark.slow
def test_an_rnn_fails_where_gates_and_attention_do_not(tmp_path: Path):
    options = RecallDistanceOptions(distances=(8, 16, 32, 64), learning_rates=(1e-2,))
    reached = {
        name: train(name, RECALL, options, 0, tmp_path / name, lambda *_: None).solved(options.threshold)
        for name in NETWORKS
    }
    assert reached["RNN"] < 64
    assert min(reached[name] for name in ("LSTM", "GRU", "minGRU", "attention")) == 64


# --- the report -------------------------------------------------------------------------------------------------------


def test_the_table_has_sizes_counts_and_where_each_fails(study: Study):
    summary, *of_tasks = study.findings.sections
    (table,) = [block for block in summary.blocks if isinstance(block, Table)]
    assert [row[0] for row in table.rows] == list(NETWORKS)
    assert table.header[3:] == [f"fails at, {task.title}" for task in TASKS]
    assert {value for row in table.rows for value in row[3:]} <= {"4", "6", "not up to 6"}
    assert [section.title for section in of_tasks] == ["Delayed recall", "Copy", "Adding problem"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--distances", "16", "8"], "--distances must be given from short to long, but got 16 8."),
        (["--distances", "2"], "--distances must be at least 4, but got 2."),
        (["--threshold", "0"], "--threshold must be above 0, but got 0.0."),
    ],
)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    found = said(capsys, "train", "recall_distance", *words, "--out", str(tmp_path / "run"), code=2)
    assert found == f"neuropil: {message}"
    assert not (tmp_path / "run").exists()


def test_no_learning_rate_is_refused():
    with pytest.raises(InputError) as error:
        RecallDistanceOptions(learning_rates=())
    assert str(error.value) == "learning_rates must name at least one, but got none."
