"""word2vec from a text to a run folder."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import neuropil
from neuropil.data.words.dataset import VOCABULARY_FILE
from neuropil.errors import InputError, RunError
from neuropil.runs.run import Run
from neuropil.runs.start import resume
from neuropil.training import chunk_loop
from neuropil.training.interruption import Interrupted

TOPICS = (("cat", "dog", "horse", "cow"), ("red", "green", "blue", "yellow"))
OPTIONS: dict[str, Any] = {"width": 8, "epochs": 6, "threads": 1, "subsample": 0.0, "report": False}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences about animals and about colours."""
    generator, path = np.random.default_rng(0), tmp_path_factory.mktemp("texts") / "corpus.txt"
    lines = [" ".join(["the", *generator.choice(TOPICS[number % 2], 6)]) for number in range(3_000)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "run"
    return neuropil.train("word2vec", data=corpus, out=folder, show_progress=False, **OPTIONS)


def test_neighbours_are_words_of_the_same_topic(run: Run):
    for topic in TOPICS:
        for word in topic:
            assert {found.word for found in run.neighbours(word, count=3)} == set(topic) - {word}


def test_a_run_beats_its_baselines_on_held_out_pairs_or_comes_near_the_better_one(run: Run):
    own, better, worse = run.results
    assert {better.name, worse.name} == {"PPMI + SVD, 8 dimensions", "word frequencies"}
    assert own.metrics["loss"] < worse.metrics["loss"] - 0.2
    assert own.metrics["loss"] < better.metrics["loss"] + 0.05


def test_the_folder_has_the_vocabulary_in_the_order_of_the_rows(run: Run):
    lines = (run.folder / VOCABULARY_FILE).read_text(encoding="utf-8").splitlines()
    assert lines[0].split("\t")[0] == "the"
    assert len(lines) == len(run.model.get_parameter("input_vectors")) == 9
    counts = [int(line.split("\t")[1]) for line in lines]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == pytest.approx(7 * 3_000 * 0.96, rel=0.02)


def test_metrics_have_a_row_for_each_epoch_as_those_of_other_systems(run: Run):
    rows = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows if row["kind"] == "train"] == [1, 2, 3, 4, 5, 6]
    losses = [row["loss"] for row in rows if row["kind"] == "validation"]
    assert losses[-1] < losses[0]
    assert run.rows[0].keys() == {"kind", "step", "epoch", "seconds", "loss", "learning_rate"}


def test_an_interrupted_run_is_resumed_to_the_same_bits(
    corpus: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    end_epoch = chunk_loop._ChunkLoop._end_epoch

    def stop(self: Any) -> None:
        end_epoch(self)
        if self.state.step == 2 * len(self.learner):
            self._save_checkpoint()
            raise Interrupted(self.folder, self.state.step)

    monkeypatch.setattr(chunk_loop._ChunkLoop, "_end_epoch", stop)
    with pytest.raises(Interrupted):
        neuropil.train("word2vec", data=corpus, out=tmp_path / "run", show_progress=False, **OPTIONS)
    monkeypatch.undo()
    resumed = resume(tmp_path / "run", show_progress=False)
    assert resumed.results == run.results
    for name in ("input_vectors", "output_vectors"):
        assert torch.equal(resumed.model.get_parameter(name), run.model.get_parameter(name))


def test_other_text_than_the_runs_own_is_refused(run: Run, corpus: Path):
    text = corpus.read_text(encoding="utf-8")
    try:
        corpus.write_text(text.replace("cow", "hen"), encoding="utf-8")
        with pytest.raises(RunError, match="needs the data that it was started with"):
            run.experiment()
    finally:
        corpus.write_text(text, encoding="utf-8")


def test_cbow_finds_the_topics_too(corpus: Path, tmp_path: Path):
    options = OPTIONS | {"architecture": "cbow", "learning_rate": 0.2}
    run = neuropil.train("word2vec", data=corpus, out=tmp_path / "run", show_progress=False, **options)
    assert {found.word for found in run.neighbours("cat", count=3)} == {"dog", "horse", "cow"}


def test_a_text_that_is_too_short_to_hold_out_any_of_it_is_refused_and_leaves_nothing(tmp_path: Path):
    with pytest.raises(InputError) as error:
        neuropil.train("word2vec", data=["a b c d e f"] * 30, out=tmp_path / "run", show_progress=False)
    assert str(error.value) == (
        "there must be sentences for the training part and others for the test part, but got none for the test part: "
        "give more text."
    )
    assert not (tmp_path / "run").exists()


def test_held_out_sentences_are_not_in_the_training_part(run: Run):
    experiment: Any = run.experiment()
    parts = experiment.corpus.parts
    assert sum(map(len, parts.values())) == 7 * 3_000
    assert all(len(part) for part in parts.values())
    assert len(np.load(run.folder / "training_examples.npy")) > 100


def test_a_text_of_single_words_is_refused_before_it_is_trained_on(tmp_path: Path):
    with pytest.raises(InputError) as error:
        neuropil.train("word2vec", data=[["one"], ["two"]] * 20_000, out=tmp_path / "run", show_progress=False)
    assert str(error.value) == (
        "there must be pairs of words for the test part, but got none: give longer sentences, or --subsample 0."
    )
    assert not (tmp_path / "run").exists()
