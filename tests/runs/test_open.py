"""Models of others, used as ours are; and folders that hold something else."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import neuropil
from neuropil.cli import main
from neuropil.data.tokenizers.learned import learn_merges, learn_word_pieces
from neuropil.data.tokenizers.published import fitting_tokenizer
from neuropil.errors import NeuropilError
from neuropil.models.bert import BERTClassifier, BERTConfig, MaskedBERT
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.runs import open as opening
from neuropil.sampling.text.filters import SamplingConfig
from neuropil.tasks.predictor import Classifies, Embeds, Generates

TEXT = "the quick brown fox jumps over the lazy dog " * 20
SIZES: dict[str, Any] = {"width": 16, "heads": 2, "layers": 1, "feed_forward": 16, "context": 24}


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Hugging Face writes it, without anything of ours; the vocabulary is rounded up."""
    folder, tokenizer = tmp_path_factory.mktemp("gpt2"), learn_merges([TEXT], 280)
    torch.manual_seed(0)
    GPT2(GPT2Config(**SIZES, vocabulary_size=288)).save_pretrained(folder)
    tokenizer.save(folder)
    return folder


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, tokenizer = tmp_path_factory.mktemp("bert"), learn_word_pieces([TEXT], 100)
    torch.manual_seed(0)
    MaskedBERT(BERTConfig(**SIZES, vocabulary_size=len(tokenizer), pooler=False)).save_pretrained(folder)
    tokenizer.save(folder)
    return folder


@pytest.fixture(scope="module")
def classifier(masked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifier")
    tokenizer = fitting_tokenizer(masked, MaskedBERT.from_pretrained(masked).config.vocabulary_size)
    BERTClassifier(BERTConfig(**SIZES, vocabulary_size=len(tokenizer), classes=3)).save_pretrained(folder)
    tokenizer.save(folder)
    settings = json.loads((folder / "config.json").read_text()) | {"id2label": {"0": "bad", "1": "fair", "2": "good"}}
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def test_a_published_model_is_used_without_importing_what_trains_one(gpt2: Path):
    code = f"""
import sys, neuropil
print(*neuropil.open({str(gpt2)!r}).generate("the quick", length=0))
print({{"neuropil.tasks.experiment", "neuropil.training.loop", "matplotlib"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\nset()\n"


def refusal(function, *words: Any) -> str:
    with pytest.raises(NeuropilError) as error:
        function(*words)
    return str(error.value)


def test_a_published_gpt2_writes(gpt2: Path, capsys: pytest.CaptureFixture[str]):
    writer = opening.open(gpt2)
    assert writer.opening == "<|endoftext|>"
    text = "".join(writer.generate("the quick", length=8, temperature=0))
    main(["generate", str(gpt2), "the quick", "--length", "8", "--temperature", "0", "--precision", "int8"])
    assert capsys.readouterr().out.startswith("the quick")
    pieces = writer.generate_batch(["the quick", "dog"], length=8, sampling=SamplingConfig(temperature=0))
    assert "".join(piece.text for piece in pieces if piece.row == 0) == text


def test_numbers_without_a_token_are_never_written(gpt2: Path):
    writer = opening.open(gpt2)
    with torch.no_grad():
        writer.model.tokens.weight[280:] *= 50
    assert writer.never == tuple(range(280, 288))
    list(writer.generate("the", length=20, temperature=2.0))


def test_a_published_bert_fills_embeds_and_classifies(
    masked: Path, classifier: Path, capsys: pytest.CaptureFixture[str]
):
    assert len(opening.open(masked).fill("the [MASK] fox", 4)) == 4
    assert opening.open(masked).embed(["the fox", "a dog"]).shape == (2, 16)
    assert opening.open(classifier).embed(["the fox"]).shape == (1, 16)
    main(["classify", str(classifier), "the fox"])
    text, *cells = capsys.readouterr().out.strip().split("\t")
    assert text == "the fox"
    assert {cell.split(" ")[0] for cell in cells} == {"bad", "fair", "good"}


def test_other_architectures_are_named(masked: Path, gpt2: Path, tmp_path: Path):
    assert refusal(opening.open_able, masked, Generates) == (
        f"this needs a model that generates text, but got a MaskedBERT in {masked}: train rnn, lstm, gru, mingru or "
        "gpt2."
    )
    assert refusal(opening.open_able, gpt2, Embeds) == (
        f"this needs a model that embeds texts, but got a GPT2 in {gpt2}: train bert or bert_classifier."
    )
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert refusal(opening.open, tmp_path) == (
        f"{tmp_path} must hold a model of type gpt2, bert, clip, but got a model of type 'llama'."
    )
    (tmp_path / "config.json").write_text("{}")
    assert refusal(opening.open, tmp_path) == (
        f"{tmp_path} must hold a model of type gpt2, bert, clip, but got a config.json without model_type."
    )


def test_a_bert_without_classes_is_to_be_fine_tuned(masked: Path):
    assert refusal(opening.open_able, masked, Classifies) == (
        f"this needs a model that classifies texts, but got a MaskedBERT in {masked}: "
        "train text_classifier or bert_classifier."
    )


def test_a_file_that_is_no_model_is_refused_and_a_file_of_one_is_led_to_its_folder(tmp_path: Path):
    rule = "a model is a run, a Hugging Face folder, owner/name on its hub, or a file of word vectors"
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"")
    assert refusal(opening.open, picture) == (
        f"{rule}, but got the file {str(picture)!r}: word vectors end in .bin, .vec, .txt."
    )
    book, vectors = tmp_path / "book.txt", tmp_path / "book.vec"
    for each in (book, vectors):
        each.write_text("   GNU GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007\n")
    assert refusal(opening.open, book) == (
        f"{rule}, but got the file {str(book)!r}: word vectors begin with a word and its numbers, or with their count "
        "and width."
    )
    assert refusal(opening.open, vectors) == (
        "book.vec must begin with a word and its numbers, or with the count and the width of its vectors, but got "
        "'   GNU GENERAL PUBLIC LICENSE'."
    )
    (tmp_path / "config.json").write_text("{}")
    for each in (picture, book):
        assert refusal(opening.open, each) == f"{rule}, but got the file {str(each)!r}: give {str(tmp_path)!r}."


def test_folders_that_are_no_models_are_refused(tmp_path: Path):
    assert refusal(opening.open, tmp_path) == (
        "a model is a run, or a folder with a config.json as Hugging Face writes it, but got none in "
        f"{str(tmp_path)!r}."
    )
    assert refusal(opening.open, tmp_path / "nowhere").startswith(
        "a model is a run, a Hugging Face folder, owner/name on its hub, or a file of word vectors, but got "
        f"{str(tmp_path / 'nowhere')!r}, which is no folder here"
    )


def test_a_tokenizer_that_does_not_fit_is_refused(gpt2: Path, tmp_path: Path):
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((gpt2 / name).read_bytes())
    assert refusal(opening.open, tmp_path) == (
        f"{tmp_path} must hold a tokenizer: tokenizer.json, or vocab.json with merges.txt, or vocab.txt, but got none "
        "of them: take these files from where the model comes from."
    )
    learn_merges(["abc"], 260).save(tmp_path)
    assert "must fit the model's vocabulary of 288 tokens, but got one of" in refusal(opening.open, tmp_path)


def test_runs_of_other_kinds_are_named(tmp_path: Path):
    run = neuropil.train("mlp", hidden_sizes=(4,), epochs=1, out=tmp_path / "run", report=False, show_progress=False)
    got = f"a run of mlp in {run.folder}"
    assert refusal(opening.open_able, run.folder, Generates) == (
        f"this needs a model that generates text, but got {got}: train rnn, lstm, gru, mingru or gpt2."
    )
    assert refusal(run.embed, "a text") == (
        f"this needs a model that embeds texts, but got {got}: train bert or bert_classifier."
    )
    assert [each.verb for each in run.capabilities] == ["predict", "evaluate"]


def test_a_run_that_leaves_no_model_names_the_systems_that_can(tmp_path: Path):
    run = neuropil.train("activations", epochs=1, repeats=1, out=tmp_path / "run", show_progress=False)
    assert refusal(opening.open_able, run.folder, Classifies) == (
        f"this needs a model that classifies texts, but got a run of activations in {run.folder}: "
        "train text_classifier or bert_classifier."
    )
    assert run.capabilities == []
    assert refusal(lambda: run.model) == (
        f"{run.folder} must hold a model for this, but got a run of activations, which only makes a report."
    )
