"""Pages on the inside of runs that read texts, as a user asks for them."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import neuropil
from command_line import said
from neuropil.data.tokenizers.learned import learn_merges, learn_word_pieces
from neuropil.errors import InputError
from neuropil.inspection.report.alignment import shown
from neuropil.inspection.report.attention import Tokenized, self_attention, tokens_of
from neuropil.models.bert import BERTConfig, MaskedBERT
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.parts.multi_head import remove_heads
from neuropil.runs.pages.attention import write_neighbours
from neuropil.runs.run import Run

TEXT = "The cat sat on the mat, and the dog sat on the log. " * 30
TINY: dict[str, Any] = {
    "width": 16,
    "heads": 2,
    "layers": 3,
    "feed_forward": 20,
    "context": 24,
    "vocabulary_size": 280,
    "epochs": 1,
}


@dataclasses.dataclass
class Pair:
    """A model with its tokenizer, as every recipe for texts gives them."""

    model: Any
    tokenizer: Any


def gpt2() -> Pair:
    torch.manual_seed(0)
    tokenizer = learn_merges([TEXT], 280)
    config = GPT2Config(width=16, heads=2, layers=3, feed_forward=20, context=24, vocabulary_size=len(tokenizer))
    return Pair(GPT2(config).eval(), tokenizer)


def bert() -> Pair:
    torch.manual_seed(0)
    tokenizer = learn_word_pieces([TEXT], 80)
    config = BERTConfig(width=16, heads=2, layers=2, feed_forward=20, context=24, vocabulary_size=len(tokenizer))
    return Pair(MaskedBERT(config).eval(), tokenizer)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("inside")
    (folder / "book.txt").write_text(TEXT)
    return neuropil.train(
        "gpt2", data=folder / "book.txt", out=folder / "run", report=False, show_progress=False, **TINY
    )


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that reads no texts."""
    return neuropil.train(
        "mlp", epochs=1, out=tmp_path_factory.mktemp("mlp") / "run", report=False, show_progress=False
    )


def test_gpt2_looks_back_only_and_bert_both_ways():
    back = self_attention(pair := gpt2(), tokens_of(pair, "the cat sat on the log"))
    assert [attention.name for attention in back] == [f"blocks.{number}.attention" for number in range(3)]
    for attention in back:
        weights = torch.as_tensor(attention.weights)
        assert torch.equal(weights, weights.tril())
        assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:2]), atol=1e-5)
    both = self_attention(pair := bert(), tokens_of(pair, "the cat sat"))
    assert both[0].queries[0] == both[0].keys[0] == "[CLS]"
    assert both[0].queries[-1] == "[SEP]"
    assert torch.as_tensor(both[0].weights).triu(1).any()


def test_a_layer_whose_heads_are_gone_is_passed_over():
    pair = gpt2()
    remove_heads(pair.model, {"blocks.1.attention": [0, 1], "blocks.2.attention": [1]})
    assert [
        (attention.name, len(attention.weights)) for attention in self_attention(pair, tokens_of(pair, "the cat"))
    ] == [
        ("blocks.0.attention", 2),
        ("blocks.2.attention", 1),
    ]
    remove_heads(pair.model, {"blocks.0.attention": [0, 1], "blocks.2.attention": [0]})
    with pytest.raises(InputError) as error:
        self_attention(pair, tokens_of(pair, "the cat"))
    assert str(error.value) == "attention is shown of models with heads, but got one whose heads were all removed."


@pytest.mark.parametrize("pair", [gpt2(), bert()], ids=["gpt2", "bert"])
def test_a_text_of_nothing_is_refused(pair: Pair):
    assert isinstance(pair, Tokenized)
    with pytest.raises(InputError) as error:
        tokens_of(pair, "")
    assert str(error.value) == "a text to look at must have one token or more, but got ''."


def test_pages_are_written_beside_the_report(run: Run, capsys: pytest.CaptureFixture[str]):
    words = ["--attention", "the cat sat", "--lens", "the cat sat", "--neighbours", "cat"]
    lines = said(capsys, "inspect", str(run.folder), *words).splitlines()
    assert re.fullmatch(r"3 layers with 6 heads over \d+ tokens\.", lines[0])
    assert lines[1] == str(run.folder / "attention.html")
    assert re.fullmatch(
        r"After the last token: .+ \(\d+\.\d %\), (already in the embedding|since block \d of 3)\.", lines[2]
    )
    assert lines[3] == str(run.folder / "lens.html")
    assert all(re.fullmatch(r".+: .+ -?\d\.\d\d(, .+ -?\d\.\d\d){9}", line) for line in lines[4:-1])
    assert lines[-1] == str(run.folder / "neighbours.html")
    for name in ("attention", "lens", "neighbours"):
        assert "<html" in (run.folder / f"{name}.html").read_text()


def test_gpt2_has_a_word_as_it_stands_after_a_space(run: Run):
    assert len(run.predictor.tokenizer.encode([" the"])[0]) == 1
    for typed in ("the", " the"):
        _, sentences = write_neighbours(run, typed)
        assert [sentence.partition(":")[0] for sentence in sentences] == [shown(" the")]


@pytest.mark.parametrize("name", ["lstm", "text_classifier"])
def test_recurrent_networks_have_neighbours_too(name: str, tmp_path: Path):
    path = tmp_path / "texts.tsv"
    path.write_text("text\tlabel\n" + "a good film\tyes\na bad film\tno\nno film at all\tno\nit is good\tyes\n" * 10)
    options = {"hidden_size": 4, "embedding_size": 4, "tokens": "words", "epochs": 1}
    other = neuropil.train(name, data=path, out=tmp_path / "run", show_progress=False, **options)
    _, sentences = write_neighbours(other, "film" if name == "lstm" else "Film")
    assert [sentence.partition(":")[0] for sentence in sentences] == ["film"]


def test_a_text_may_be_a_file(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "words.txt").write_text("the cat")
    said(capsys, "inspect", str(run.folder), "--lens", str(tmp_path / "words.txt"))
    assert "likeliest next token after each block" in (run.folder / "lens.html").read_text()


def test_a_text_longer_than_the_context_is_refused(run: Run, capsys: pytest.CaptureFixture[str]):
    error = said(capsys, "inspect", str(run.folder), "--attention", "xyz " * 24, code=2)
    assert re.search(r"the context length of this model is 24 tokens, but got \d+: shorten the text\.", error)


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (
            ["--attention", "a"],
            "must hold a model that reads a text by attention, but got a run of mlp: train a gpt2 or a bert.",
        ),
        (["--lens", "a"], "must hold a GPT-2, but got a run of mlp: train a gpt2."),
        (
            ["--neighbours", "a"],
            "must hold a model with an embedding of tokens, but got a run of mlp: train a gpt2, a bert, an lstm or a "
            "text_classifier.",
        ),
    ],
)
def test_a_run_that_reads_no_texts_is_refused(
    pictures: Run, words: list[str], rule: str, capsys: pytest.CaptureFixture[str]
):
    error = said(capsys, "inspect", str(pictures.folder), *words, code=2)
    assert f"{pictures.folder} {rule}" in error


def test_something_must_be_asked_for(run: Run, capsys: pytest.CaptureFixture[str]):
    error = said(capsys, "inspect", str(run.folder), code=2)
    texts = '--gates "a text", --attention "a text", --lens "a text" or --neighbours "a word"'
    ways = f"--gradients, --signal, --activations picture.png, {texts}"
    assert f"neuropil inspect needs to know what to look at, but got nothing: add {ways}." in error
