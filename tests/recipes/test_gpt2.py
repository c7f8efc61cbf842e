"""GPT-2 as a user meets it: it learns a text, goes on with it, and opens elsewhere."""

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import neuropil
from command_line import printed_and_complained
from neuropil.errors import InputError, RunError
from neuropil.models.gpt2 import GPT2
from neuropil.runs.run import Run
from neuropil.tasks.language_modelling.gpt2 import GPT2LanguageModel

TEXT = "".join(f'{number} is "{"odd" if number % 2 else "even"}" (see {number + 1}).\n' for number in range(600))
SMALL: dict[str, Any] = {
    "width": 32,
    "heads": 2,
    "layers": 2,
    "feed_forward": 64,
    "context": 32,
    "vocabulary_size": 300,
    "updates": 60,
    "learning_rate": 1e-2,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("gpt2")
    (folder / "book.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    return neuropil.train(
        "gpt2", data=folder / "book.txt.gz", out=folder / "run", report=False, show_progress=False, **SMALL
    )


def model_of(run: Run) -> GPT2LanguageModel:
    assert isinstance(run.predictor, GPT2LanguageModel)
    return run.predictor


def test_it_learns_more_than_how_often_tokens_occur(run: Run):
    named = {result.name: result.metrics for result in run.results}
    assert run.metrics["loss"] < 0.7 * named["unigram"]["loss"]
    assert set(named) >= {"gpt2", "5-gram", "xz, which has read the training text"}
    assert run.metrics["perplexity"] == pytest.approx(math.exp(run.metrics["loss"]))


def test_the_score_is_the_mean_surprise_of_the_test_part(run: Run):
    test = run.experiment().corpus.test  # type: ignore[attr-defined]
    assert run.metrics["loss"] == pytest.approx(float(model_of(run).surprise(test).nats.mean()), abs=1e-5)


def test_surprise_is_the_cross_entropy_of_each_token(run: Run):
    model, text = model_of(run), '12 is "even"'
    surprise = model.surprise(text)
    tokens = torch.tensor(model.tokenizer.encode([text]))
    with torch.no_grad():
        logits = model.model(tokens)[0]
    torch.testing.assert_close(surprise.nats, F.cross_entropy(logits[:-1], tokens[0, 1:], reduction="none"))
    assert "".join(model.tokenizer.tokens(tokens[0, :1].tolist()) + surprise.tokens) == text
    assert surprise.following[0][1] == pytest.approx(float(logits[-1].softmax(-1).max()))


def test_a_text_longer_than_the_context_is_judged_to_its_end(run: Run, tmp_path: Path):
    model = model_of(run)
    surprise = model.surprise(TEXT[:600])
    assert len(surprise.nats) == len(model.tokenizer.encode([TEXT[:600]])[0]) - 1 > 32
    (tmp_path / "more.txt").write_text(TEXT[:600])
    assert run.evaluate(tmp_path / "more.txt")["loss"] == pytest.approx(float(surprise.nats.mean()), abs=1e-5)


def test_the_folder_holds_what_a_model_of_ours_is_loaded_from(run: Run):
    tokens = torch.tensor(model_of(run).tokenizer.encode(["12 is"]))
    with torch.no_grad():
        torch.testing.assert_close(GPT2.from_pretrained(run.folder)(tokens), model_of(run).model(tokens))


@pytest.mark.parametrize(
    "sampling", [{"temperature": 0}, {"temperature": 1.0, "top_k": 5}, {"top_p": 0.8, "repetition_penalty": 1.3}]
)
def test_a_text_alone_is_written_as_among_others(run: Run, sampling: dict[str, Any]):
    """Alone by the decoder that reads every weight once, among others by the model."""
    from neuropil.sampling.text.filters import SamplingConfig

    model = model_of(run)
    alone = "".join(model.generate("12 is", length=20, **sampling))
    pieces = list(model.generate_batch(["12 is", '7 is "odd" (see'], length=20, sampling=SamplingConfig(**sampling)))
    assert alone == "".join(piece.text for piece in pieces if piece.row == 0)
    assert "".join(run.generate("12 is", length=20, **sampling)) == "12 is" + alone


@pytest.mark.parametrize("precision", ["bfloat16", "int8", "int4"])
def test_rounded_weights_write_on_too(run: Run, precision: str):
    assert len("".join(model_of(run).generate("12 is", length=10, precision=precision))) > 5
    with pytest.raises(InputError) as error:
        next(model_of(run).generate_batch(["1", "2"], precision=precision))
    assert (
        str(error.value)
        == f"precision {precision} is for one text at a time on a processor, but got 2 texts: leave it out."
    )


def test_the_command_writes_streams_stops_samples_and_searches(run: Run, capsys: pytest.CaptureFixture[str]):
    folder, model = str(run.folder), model_of(run)
    greedy = "".join(model.generate("12 is", length=12, temperature=0))
    assert printed_and_complained(capsys, "generate", folder, "12 is", "--length", "12", "--temperature", "0") == (
        f"12 is{greedy}\n",
        "",
    )
    words = ("generate", folder, "12 is", "--length", "12", "--temperature", "0", "--json")
    assert json.loads(printed_and_complained(capsys, *words)[0]) == {"prompt": "12 is", "text": f"12 is{greedy}\n"}
    assert printed_and_complained(
        capsys, "generate", folder, "12 is", "--length", "12", "--temperature", "0", "--stop", "q", "see"
    )[0] == (f"12 is{greedy.split('see')[0]}\n")
    several = printed_and_complained(
        capsys, "generate", folder, "12 is", "--length", "4", "--samples", "3", "--top-p", "0.9"
    )[0]
    assert several.count("\n---\n12 is") == 2
    searched = model.beam_search("12 is", beam=3, length=6)[0].text
    assert (
        printed_and_complained(capsys, "generate", folder, "12 is", "--length", "6", "--beam", "3")[0]
        == f"12 is{searched}\n"
    )


def test_what_happens_at_the_borders_is_said(run: Run, capsys: pytest.CaptureFixture[str]):
    folder = str(run.folder)
    text, told = printed_and_complained(capsys, "generate", folder, "--length", "3")
    assert text
    assert told == "Without a prompt, the text goes on from '\\n'.\n"
    full = "The text ends because the model's context of 32 tokens is full.\n"
    assert printed_and_complained(capsys, "generate", folder, "12", "--length", "99")[1] == full
    assert printed_and_complained(capsys, "generate", folder, "12", "--length", "99", "--beam", "2")[1] == full
    long = TEXT[:400]
    count = len(model_of(run).tokenizer.encode([long])[0])
    assert printed_and_complained(capsys, "generate", folder, long, code=2) == (
        "",
        f"neuropil: a prompt must fit into the model's context of 32 tokens, but got one of {count}: "
        "shorten it, or give its last 32 tokens only.\n",
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--precision", "float16"],
            "precision must be float32, bfloat16, int8 or int4, but got float16: processors compute with it slowly, "
            "and what exceeds 65504 is lost; bfloat16 is as small.",
        ),
        (
            ["--beam", "2", "--samples", "2"],
            "beam search finds one text, but got 2 samples: leave out --beam or --samples.",
        ),
        (["--stop", ""], "a stop string must have at least one character, but got an empty one."),
    ],
)
def test_bad_options_are_refused(run: Run, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]):
    assert (
        printed_and_complained(capsys, "generate", str(run.folder), "12", *words, code=2)[1]
        == f"neuropil: {sentence}\n"
    )


def test_a_folder_of_texts_is_read(tmp_path: Path):
    (tmp_path / "texts" / "inner").mkdir(parents=True)
    (tmp_path / "texts" / "b.txt").write_text(TEXT[:2000])
    (tmp_path / "texts" / "inner" / "a.txt.gz").write_bytes(gzip.compress(TEXT[2000:4000].encode()))
    run = neuropil.train(
        "gpt2",
        data=tmp_path / "texts",
        out=tmp_path / "run",
        report=False,
        show_progress=False,
        **SMALL | {"updates": 2},
    )
    assert run.settings["facts"]["source"] == "4,002 characters (texts)"


def test_a_run_is_resumed_with_its_own_text_only(run: Run):
    book = run.folder.parent / "book.txt.gz"
    book.write_bytes(gzip.compress(TEXT[:-100].encode()))
    with pytest.raises(RunError):
        run.experiment()
    book.write_bytes(gzip.compress(TEXT.encode()))
