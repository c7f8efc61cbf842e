"""BERT as a user meets it: it finds hidden words, has a vector for a text, and goes on learning as a classifier."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import neuropil
from command_line import said
from neuropil.cli import main
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.errors import DataWarning, InputError
from neuropil.models.bert import BERT, MaskedBERT, mean_of
from neuropil.recipes import recipe
from neuropil.recipes.bert_classifier import BERTClassifierOptions, build, fitting_tokens
from neuropil.runs import open as opening
from neuropil.runs.run import Run
from neuropil.tasks.masked_language_modelling.experiment import MaskedLanguageModellingExperiment
from neuropil.tasks.masked_language_modelling.predictor import TextFiller, alike, written
from neuropil.tasks.text_classification.predictor import MaskedTextClassifier, WordPieceConfig

TEXT = "\n".join(
    f"the {word} {word} {word} and {word} {word} are {word} {word} " * 8 for word in ("cat", "dog", "fish", "bird") * 30
)
"""Paragraphs on one thing each, so that a hidden word can be told from those around it."""
SMALL: dict[str, Any] = {"width": 32, "heads": 2, "layers": 2, "feed_forward": 64, "context": 32}
ANIMALS = ["the cat sleeps", "a dog barks at night", "two cats and a dog", "the dog eats", "a cat drinks milk"]
METALS = ["iron is heavy", "gold and iron", "the iron melts", "copper is a metal like gold", "gold shines"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("bert")
    (folder / "animals.txt").write_text(TEXT)
    options = SMALL | {"vocabulary_size": 100, "updates": 150, "learning_rate": 5e-3, "layers": 1}
    return neuropil.train(
        "bert", data=folder / "animals.txt", out=folder / "run", report=False, show_progress=False, **options
    )


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labelled") / "texts.tsv"
    rows = [
        f"{text} {number}\t{label}"
        for number in range(12)
        for label, texts in (("animal", ANIMALS), ("metal", METALS))
        for text in texts
    ]
    path.write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def classifier(run: Run, labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("classifier") / "run"
    options: dict[str, Any] = {"max_tokens": 20, "epochs": 12, "learning_rate": 3e-3, "batch_size": 8}
    return neuropil.train(
        "bert_classifier", data=labelled, start=run.folder, out=out, report=False, show_progress=False, **options
    )


def filler_of(run: Run) -> TextFiller:
    assert isinstance(run.predictor, TextFiller)
    return run.predictor


def test_it_finds_more_than_the_most_frequent_token(run: Run):
    own, unigram = run.results
    assert unigram.name == "unigram"
    assert own.metrics["accuracy"] > unigram.metrics["accuracy"] + 0.2
    assert own.metrics["loss"] < unigram.metrics["loss"]
    with pytest.warns(UserWarning, match="^120 of 120 passages were in the training part of this run.$"):
        assert run.evaluate(run.folder.parent / "animals.txt")["accuracy"] > 0.4


def test_all_of_the_chosen_tokens_are_masked_in_every_part_where_that_is_asked_for(run: Run):
    bert = recipe("bert")
    options = bert.options.override(data=run.folder.parent / "animals.txt", masking="all", vocabulary_size=100, **SMALL)
    experiment = cast(MaskedLanguageModellingExperiment, bert.build(options, 0))
    for part in ("train", "validation", "test"):
        for batch in experiment.batches(part).epoch(0):
            assert torch.equal(batch["input"] == experiment.filler.tokenizer.mask, batch["scored"])


def test_likeliest_words_are_those_of_the_model(run: Run):
    filler = filler_of(run)
    text = "cat [MASK] cat and cat cat are cat cat the cat"
    found = filler.fill(text, 3)
    tokens = torch.tensor(filler.tokenizer.encode([text], special=True))
    with torch.no_grad():
        shares = filler.model(tokens)[0, 2].softmax(-1)
    assert tokens[0, 2] == filler.tokenizer.mask
    assert [each.share for each in found] == pytest.approx(shares.topk(3).values.tolist(), abs=1e-6)
    assert found[1].text == text.replace("[MASK]", found[1].word)


def test_several_places_are_filled_each_by_itself(run: Run, capsys: pytest.CaptureFixture[str]):
    lines = said(capsys, "fill", str(run.folder), "the [MASK] and [MASK] cat", "--top", "2").splitlines()
    assert lines[0] == "place\tword\tprobability\ttext"
    rows = [line.split("\t") for line in lines[1:]]
    assert [row[0] for row in rows] == ["1", "1", "2", "2"]
    first, second = rows[0][1], rows[2][1]
    assert rows[0][3] == rows[2][3] == f"the {first} and {second} cat"
    assert rows[1][3] == f"the {rows[1][1]} and {second} cat"
    assert rows[3][3] == f"the {first} and {rows[3][1]} cat"


def test_a_piece_of_a_word_follows_without_a_space():
    assert written("play [MASK] the [MASK]!", "[MASK]", ["##ing", "game"]) == "playing the game!"


def test_a_text_without_a_hidden_word_is_refused(run: Run, capsys: pytest.CaptureFixture[str]):
    assert said(capsys, "fill", str(run.folder), "nothing", code=2) == (
        "neuropil: a text to fill must say [MASK], but got 'nothing': write [MASK] where a word is missing."
    )
    with pytest.raises(InputError) as error:
        filler_of(run).fill("[MASK] " * 40)
    assert str(error.value) == "a text to fill has at most 32 tokens, but got 42: shorten it."


def test_the_folder_holds_what_models_of_ours_are_loaded_from(run: Run):
    tokens = torch.tensor(filler_of(run).tokenizer.encode(["the cat are"], special=True))
    with torch.no_grad():
        torch.testing.assert_close(MaskedBERT.from_pretrained(run.folder)(tokens), filler_of(run).model(tokens))


def test_vectors_come_in_the_order_of_the_texts_whatever_their_lengths(run: Run):
    texts = ["the cat " * count + "and fish" for count in (5, 1, 3, 0, 5, 2, 9, 1)]
    embedder = opening.open(run.folder)
    together = embedder.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        tokens = torch.tensor(embedder.tokenizer.encode([text], special=True, longest=32))
        with torch.no_grad():
            alone = mean_of(BERT.from_pretrained(run.folder)(tokens), torch.ones_like(tokens, dtype=torch.bool))[0]
        torch.testing.assert_close(vector, alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(together.norm(dim=1), torch.ones(len(texts)))
    torch.testing.assert_close(filler_of(run).embed(texts), together)


def test_it_is_said_that_a_text_was_cut(run: Run, classifier: Run, capsys: pytest.CaptureFixture[str]):
    texts = ["cat " * 30, "cat " * 31, "cat " * 300]
    note = "2 of 3 texts have more than 32 tokens: the rest is not read."
    for each in (run, classifier):
        with pytest.warns(DataWarning) as caught:
            vectors = each.embed(texts)
        assert [str(warning.message) for warning in caught] == [note]
        torch.testing.assert_close(vectors[1], vectors[2])
    main(["embed", str(run.folder), *texts])
    assert capsys.readouterr().err == f"neuropil: {note}\n"


@pytest.mark.parametrize("lengths", [[], [5], [1, 100, 2, 50, 3, 3, 3], [512] * 9, list(range(1, 80))])
def test_texts_that_are_read_together_are_alike(lengths: list[int]):
    batches = list(alike(lengths))
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    for batch in batches:
        each = [lengths[number] for number in batch]
        assert len(batch) * max(each) <= 2_048
        assert max(each) <= 1.15 * min(each) + 1


def test_embed_prints_how_alike_texts_are_or_writes_vectors(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    lines = said(capsys, "embed", str(run.folder), "the cat", "bird", "the cat").splitlines()
    assert lines[0] == "\t1\t2\t3\ttext"
    assert lines[1].split("\t")[1::2] == ["1.000", "1.000"]
    (tmp_path / "texts.txt").write_text("cat\nbird\n" * 20)
    assert said(
        capsys, "embed", str(run.folder), str(tmp_path / "texts.txt"), "--out", str(tmp_path / "vectors.npy")
    ) == (f"{tmp_path / 'vectors.npy'}\n")
    vectors = np.load(tmp_path / "vectors.npy", allow_pickle=False)
    assert vectors.shape == (40, 32)
    np.testing.assert_allclose(vectors[0], vectors[38], atol=1e-6)
    assert said(capsys, "embed", str(run.folder), str(tmp_path / "texts.txt"), code=2) == (
        "neuropil: how alike texts are is shown for up to 12, but got 40: write the vectors with --out vectors.npy."
    )
    assert said(capsys, "embed", str(run.folder), "a", "--out", "vectors.txt", code=2) == (
        "neuropil: vectors are written to a .npy file, but got 'vectors.txt'."
    )


def test_it_goes_on_learning_as_a_classifier(classifier: Run, labelled: Path, capsys: pytest.CaptureFixture[str]):
    named = {result.name: result.metrics["accuracy"] for result in classifier.results}
    assert named["bert_classifier"] > 0.9
    assert "TF-IDF and logistic regression" in named
    line = said(capsys, "classify", str(classifier.folder), "the cat and the dog", "gold and iron").splitlines()
    assert line[0].startswith("the cat and the dog\tanimal ")
    assert line[1].startswith("gold and iron\tmetal ")
    with pytest.warns(UserWarning, match="^86 of 120 texts were in the training part of this run.$"):
        assert classifier.evaluate(labelled)["accuracy"] > 0.9
    assert classifier.predict("iron and gold").labels == ["metal"]


def test_a_classifier_reads_a_text_alone_as_among_longer_ones(classifier: Run):
    texts = ["gold", "a dog barks at night and another dog barks too"]
    together = classifier.predict(texts).scores
    alone = torch.cat([classifier.predict(text).scores for text in texts])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)


def test_the_body_of_a_classifier_has_vectors_too(classifier: Run):
    assert opening.open(classifier.folder).embed(["a cat"]).shape == (1, 32)


def test_texts_of_other_classifiers_are_classified(labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    neuropil.train(
        "text_classifier",
        data=labelled,
        hidden_size=8,
        embedding_size=8,
        epochs=2,
        out=tmp_path / "run",
        report=False,
        show_progress=False,
    )
    assert said(capsys, "classify", str(tmp_path / "run"), "gold").startswith("gold\t")


def test_a_model_to_start_from_keeps_its_sizes(run: Run, labelled: Path, tmp_path: Path):
    cases: list[tuple[dict[str, Any], str]] = [
        ({"width": 64}, "a model to start from has sizes of its own, but got --width too: leave it out."),
        ({"max_tokens": 33}, "--max-tokens must fit into the model's context of 32 tokens, but got 33."),
    ]
    for options, sentence in cases:
        with pytest.raises(InputError) as error:
            neuropil.train("bert_classifier", data=labelled, start=run.folder, out=tmp_path / "new", **options)
        assert str(error.value) == sentence
    assert not (tmp_path / "new").exists()


def test_the_default_number_of_tokens_gives_way_to_a_shorter_context():
    assert fitting_tokens(WordPieceConfig(), 128).max_tokens == 128
    assert fitting_tokens(WordPieceConfig(), 512).max_tokens == 256
    with pytest.raises(InputError) as caught:
        fitting_tokens(WordPieceConfig(max_tokens=200), 128)
    assert str(caught.value) == "--max-tokens must fit into the model's context of 128 tokens, but got 200."


def test_a_model_with_a_short_context_is_started_from_without_further_options(run: Run, labelled: Path):
    options = BERTClassifierOptions().override(data=labelled, start=run.folder)
    assert build(options, seed=0).facts()["tokens"]["max_tokens"] == SMALL["context"]


def test_a_model_to_start_from_has_defaults_of_its_own(classifier: Run):
    options = recipe("bert_classifier")
    assert options.defaults(own_data=True, start=True) == options.fine_tuning
    assert options.defaults(own_data=True) == options.defaults(own_data=False) == options.options
    assert options.fine_tuning is not None
    chosen, usual = classifier.settings["options"], options.fine_tuning.to_dict()
    assert chosen["model"] == usual["model"] != options.options.to_dict()["model"]
    assert chosen["training"] == usual["training"] | {"epochs": 12, "learning_rate": 3e-3, "batch_size": 8}


def test_word_dropout_masks_words_and_leaves_the_ends_of_a_text(classifier: Run):
    encoder = cast(MaskedTextClassifier, classifier.predictor).encoder
    tokenizer = cast(PublishedTokenizer, encoder.tokenizer)
    tokens = encoder.encode(["gold", "the cat sat here"], torch.arange(2)).inputs.padded(torch.arange(2))
    hidden = encoder.hide(0.9999)({"input": tokens}, torch.Generator().manual_seed(0))["input"]
    around = torch.isin(tokens, torch.tensor([tokenizer.padding, tokenizer.start, tokenizer.end]))
    assert around.any(dim=1).all()
    assert not around.all()
    assert torch.equal(hidden[around], tokens[around])
    assert (hidden[~around] == tokenizer.mask).all()
