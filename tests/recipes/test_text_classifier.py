"""Text classification as a user meets it: texts and labels in, classes out, and a folder that keeps both."""

import gzip
import re
from pathlib import Path
from typing import cast

import pytest
import torch

import neuropil
from data.written_files import refusal, write_text
from neuropil.cli import main
from neuropil.data.formats.memory import in_memory
from neuropil.data.labelled_texts.dataset import LabelledTexts
from neuropil.data.labelled_texts.embedded import read_docstrings
from neuropil.data.labelled_texts.files import LabelledTextConfig, prepare_labelled_texts
from neuropil.data.splits import Splits
from neuropil.errors import InputError
from neuropil.models.text_classifier import RecurrentTextClassifier
from neuropil.recipes import recipe
from neuropil.runs.run import Run
from neuropil.tasks.text_classification.experiment import TextClassificationExperiment
from neuropil.tasks.text_classification.predictor import LearnedEncoder, TextClassifier, TokensConfig
from neuropil.tasks.text_classification.scores import classifiers, count_words
from neuropil.training.evaluation import evaluate
from neuropil.training.weights import load_model

SMALL = {"hidden_size": 8, "embedding_size": 8, "epochs": 3, "learning_rate": 0.02, "batch_size": 16}


def write_sentences(path: Path, count: int = 120) -> Path:
    """Of two libraries, labelled with their names."""
    found = read_docstrings()
    rows = [f"{name}\t{text}" for name in ("networkx", "torch") for text in found[name][:count]]
    return write_text(path, "library\tdocumentation", *rows)


def train_small(folder: Path, **options: object) -> Run:
    data = write_sentences(folder / "sentences.tsv")
    return neuropil.train("text_classifier", data=data, out=folder / "run", show_progress=False, **{**SMALL, **options})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train_small(tmp_path_factory.mktemp("classifier"))


TEXTS = [
    "Returns the shortest path between two nodes of the graph.",
    "Applies dropout to a tensor.",
    "",
    "Wörter, die niemand kennt",
]


def test_the_folder_classifies_in_another_process_as_the_run_itself(run: Run):
    first, again = run.predict(TEXTS), neuropil.load(run.folder).predict(TEXTS)
    torch.testing.assert_close(first.scores, again.scores)
    assert first.classes == ("networkx", "torch")
    torch.testing.assert_close(first.scores.sum(-1), torch.ones(4))
    assert run.predict(TEXTS[0]).labels == first.labels[:1]


@pytest.mark.parametrize("pooling", ["last", "mean", "max"])
def test_an_answer_does_not_depend_on_the_other_texts(tmp_path: Path, pooling: str):
    run = train_small(tmp_path, pooling=pooling, epochs=1, report=False)
    together = run.predict(TEXTS).scores
    torch.testing.assert_close(together, torch.cat([run.predict(text).scores for text in TEXTS]), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "cell", [pytest.param("rnn", marks=pytest.mark.slow), "lstm", pytest.param("gru", marks=pytest.mark.slow), "mingru"]
)
def test_every_cell_learns(tmp_path: Path, cell: str):
    run = train_small(tmp_path, cell=cell, epochs=8, word_dropout=0.0, dropout=0.2, report=False)
    assert run.metrics["accuracy"] > 0.75


def test_the_vocabulary_is_that_of_the_training_part_alone():
    splits = prepare_labelled_texts(LabelledTextConfig(), 0)
    tokenizer = LearnedEncoder.learn(splits.train.texts, TokensConfig(vocabulary_size=10**6)).tokenizer
    seen = set(re.findall(r"\w+|[^\w\s]+", " ".join(splits.train.texts).lower()))
    held_out = set(re.findall(r"\w+|[^\w\s]+", " ".join([*splits.validation.texts, *splits.test.texts]).lower()))
    assert len(held_out - seen) > 500
    tokens = tokenizer.tokens(range(4, len(tokenizer)))
    assert set(tokens) == seen


def test_results_stand_beside_counted_words(run: Run):
    own, *others = run.results
    assert own.name == "text_classifier"
    accuracy = {result.name: result.metrics["accuracy"] for result in others}
    assert set(accuracy) == {
        "its network alone",
        "its bag of n-grams alone",
        "TF-IDF and logistic regression",
        "always the most frequent class",
    }
    assert accuracy["always the most frequent class"] == 0.5
    assert run.evaluate() == pytest.approx(run.metrics)


def test_the_folder_holds_the_vote_and_each_voter(run: Run):
    again, alone = neuropil.load(run.folder), {result.name: result.metrics for result in run.results}
    assert again.evaluate() == pytest.approx(run.metrics)
    model = cast(RecurrentTextClassifier, again.model)
    for name, share in (("its network alone", 1.0), ("its bag of n-grams alone", 0.0)):
        model.share.fill_(share)
        assert again.evaluate() == pytest.approx(alone[name])


def test_the_share_of_the_network_is_fitted_to_the_validation_part(run: Run):
    experiment = cast(TextClassificationExperiment, run.experiment())
    model = cast(RecurrentTextClassifier, experiment.model)
    load_model(run.folder / "model.safetensors", model)
    fitted, losses = float(model.share), {}
    for share in torch.linspace(0, 1, 21):
        model.share.fill_(share)
        losses[float(share)] = evaluate(experiment.learner, experiment.batches("validation"))["loss"]
    assert losses[fitted] == min(losses.values())


def test_a_file_of_the_users_is_scored(run: Run, tmp_path: Path):
    found = read_docstrings()
    rows = [f"{text}\t{name}" for name in ("networkx", "torch") for text in found[name][200:230]]
    path = tmp_path / "more.tsv.gz"
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    said = run.predict([row.split("\t")[0] for row in rows]).labels
    assert run.evaluate(path)["accuracy"] == pytest.approx(
        sum(a == row.split("\t")[1] for a, row in zip(said, rows, strict=True)) / 60
    )
    assert refusal(run.evaluate, [path, path]) == "labelled texts are one file or folder, but got 2."
    write_text(tmp_path / "odd.tsv", "a text\ttorch", "a text\tjax")
    assert refusal(run.evaluate, tmp_path / "odd.tsv") == (
        "each label must be a class of the training data, but got 'jax' (odd.tsv row 2): the classes are networkx, "
        "torch."
    )


def test_predict_takes_files_and_texts(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    path = write_text(tmp_path / "texts.txt", *TEXTS[:2])
    main(["predict", str(run.folder), str(path), TEXTS[1]])
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [name for name, *_ in lines] == ["texts.txt line 1", "texts.txt line 2", TEXTS[1]]
    assert lines[1][1:] == lines[2][1:] == run.predict(TEXTS[1]).lines()[0]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["predict", str(run.folder), "text.txt"])
    assert (
        capsys.readouterr().err
        == "neuropil: texts are read from files that exist, but got 'text.txt': did you mean 'texts.txt'?\n"
    )


def test_an_answer_develops_word_by_word(run: Run):
    tokens, probabilities = cast(TextClassifier, run.predictor).probabilities_by_token(TEXTS[0])
    assert tokens == ["returns", "the", "shortest", "path", "between", "two", "nodes", "of", "the", "graph", "."]
    for count in range(1, len(tokens) + 1):
        torch.testing.assert_close(
            probabilities[count - 1], run.predict(" ".join(tokens[:count])).scores[0], atol=1e-5, rtol=1e-4
        )


def test_long_texts_are_cut_where_the_user_says_and_counted(tmp_path: Path):
    run = train_small(tmp_path, max_tokens=5, read_from="beginning", epochs=1)
    note = run.settings["facts"]["notes"][-1]
    assert re.fullmatch(
        r"\d+ of 173 training texts have more than 5 tokens, of which only the first 5 are read\.", note
    )
    assert note in run.report.read_text()
    long = "one two three four five six seven"
    torch.testing.assert_close(run.predict(long).scores, run.predict("one two three four five").scores)


@pytest.mark.parametrize("tokens", ["bpe", "characters"])
def test_texts_may_be_cut_into_other_tokens(tmp_path: Path, tokens: str):
    run = train_small(tmp_path, tokens=tokens, vocabulary_size=300, epochs=1, lowercase=False, report=False)
    assert (run.folder / "tokenizer.json").exists()
    assert len(neuropil.load(run.folder).predict(TEXTS)) == 4


def test_the_report_shows_mistakes_and_how_an_answer_comes(run: Run):
    page = run.report.read_text()
    for words in (
        "Errors",
        "Token by token",
        "Most informative words",
        "accuracy against the length of a text",
    ):
        assert words in page


def test_gates_can_be_watched_while_it_reads(run: Run, capsys: pytest.CaptureFixture[str]):
    main(["inspect", str(run.folder), "--gates", TEXTS[0]])
    assert (run.folder / "gates.html").exists()
    assert "reader" in capsys.readouterr().out


# --- what it is compared with -----------------------------------------------------------------------------------------


def splits_of(tmp_path: Path) -> Splits[LabelledTexts]:
    return prepare_labelled_texts(LabelledTextConfig(data=write_sentences(tmp_path / "a.tsv")), 0)


def test_counted_words_tell_libraries_apart(tmp_path: Path):
    best, frequent = classifiers(splits_of(tmp_path), "words")
    assert best.metrics["accuracy"] > 0.85
    assert frequent.metrics["accuracy"] == 0.5


def test_where_letters_are_read_letters_are_counted(tmp_path: Path):
    splits = splits_of(tmp_path)
    predict = count_words(splits.train, splits.validation, "characters")
    assert (predict(splits.test.texts) == splits.test.targets).double().mean() > 0.85
    halves = count_words(splits.train, splits.validation.take(torch.arange(0)), "words")
    assert (halves(splits.test.texts) == splits.test.targets).double().mean() > 0.8


@pytest.mark.slow
def test_it_learns_which_library_a_sentence_is_from(tmp_path: Path):
    run = neuropil.train("text_classifier", out=tmp_path / "run", show_progress=False)
    accuracy = {result.name: result.metrics["accuracy"] for result in run.results}
    assert accuracy["text_classifier"] > accuracy["TF-IDF and logistic regression"] > 0.75


def test_own_data_has_its_own_defaults():
    options = recipe("text_classifier")
    assert options.defaults(own_data=True) == options.own_data
    assert {option.name: option.default for option in options.defaults(own_data=True).options()}["tokens"] == "words"


def test_texts_count_by_their_weights_times_those_of_their_classes():
    found = read_docstrings()
    texts = [*found["networkx"][:60], *found["torch"][:20]]
    labels, weights = ["networkx"] * 60 + ["torch"] * 20, [1.0, 3.0] * 40
    options = recipe("text_classifier").defaults(own_data=True)
    options = options.override(data=in_memory((texts, labels, weights)), class_weights="balanced", hidden_size=8)
    experiment = recipe("text_classifier").build(options, 0)
    assert isinstance(experiment, TextClassificationExperiment)
    train = experiment.splits.train
    assert train.weights is not None
    sums = torch.bincount(train.targets, weights=train.weights)
    of_class = sums.sum() / (2 * sums)
    own = experiment.encoded["train"].weights
    torch.testing.assert_close(own, train.weights * of_class[train.targets])
    batch = next(experiment.batches("train").epoch(0))
    assert batch["weight"].shape == batch["target"].shape
    assert experiment.encoded["test"].weights is None
    with pytest.raises(InputError) as error:
        experiment.classifier.read_labelled(in_memory((texts, labels, weights)))
    assert str(error.value) == (
        "scores count each example once, but got weights in the lists in memory: give a pair (X, y)."
    )
