"""Language models as a user meets them: a text in, a text out, and a look at the gates."""

import gzip
import math
import re
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import neuropil
from command_line import said
from neuropil.errors import InputError, RunError
from neuropil.inspection.gates import record_gates
from neuropil.recipes import recipe
from neuropil.runs.run import Run
from neuropil.sampling.text.streaming import as_text
from neuropil.tasks.language_modelling.recurrent import RecurrentLanguageModel

TEXT = "".join(f'{number} is "{"odd" if number % 2 else "even"}" (see {number + 1}).\n' for number in range(400))
SMALL = {"hidden_size": 24, "embedding_size": 8, "updates": 60, "batch_size": 8, "steps": 32}


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("book") / "book.txt.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    return path


@pytest.fixture(scope="module")
def run(book: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return neuropil.train(
        "lstm", data=book, out=tmp_path_factory.mktemp("lstm") / "run", report=False, show_progress=False, **SMALL
    )


def model_of(run: Run) -> RecurrentLanguageModel:
    assert isinstance(run.predictor, RecurrentLanguageModel)
    return run.predictor


def test_bits_perplexity_and_loss_say_the_same(run: Run):
    own = run.metrics
    assert own["perplexity"] == pytest.approx(math.exp(own["loss"]))
    assert own["bits_per_byte"] == own["bits_per_character"] == pytest.approx(own["loss"] / math.log(2))
    named = {result.name: result.metrics for result in run.results}
    assert own["loss"] < named["unigram"]["loss"]
    assert set(named) >= {"5-gram", "3-gram", "gzip"}
    losses = [result.metrics["loss"] for result in run.results[1:]]
    assert losses == sorted(losses)


def test_a_metric_that_grows_with_the_loss_is_monitored_by_it(book: Path):
    lstm = recipe("lstm")
    experiment = lstm.build(lstm.defaults(own_data=True).override(data=book, monitor="perplexity"), 0)
    assert experiment.training.monitor == "loss"  # type: ignore[attr-defined]
    assert experiment.facts()["notes"][-1] == (
        "The perplexity grows with the loss, so that the loss is monitored in its place."
    )


def test_the_score_is_the_mean_surprise_of_the_test_part(run: Run):
    """Read in several rows, each of which begins afresh, it may differ a little from reading in one."""
    test = run.experiment().corpus.test  # type: ignore[attr-defined]
    one_row = model_of(run).surprise(test).nats.mean()
    assert run.metrics["loss"] == pytest.approx(float(one_row), abs=0.3)


def test_surprise_is_the_cross_entropy_of_each_token(run: Run):
    model, text = model_of(run), '12 is "even"'
    surprise = model.surprise(text)
    tokens = torch.tensor(model.tokenizer.encode([text]))
    with torch.no_grad():
        logits = model.model(tokens)[0]
    torch.testing.assert_close(surprise.nats, F.cross_entropy(logits[:-1], tokens[0, 1:], reduction="none"))
    assert "".join(surprise.tokens) == text[1:]
    assert [len(line) for line in run.predict([text, "7"]).lines()] == [4, 4]


def test_a_text_goes_on_in_the_same_way_for_the_same_seed(run: Run):
    model = model_of(run)
    first, again, other = ("".join(model.generate("1 is", length=50, seed=seed)) for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) == 50
    assert set(first) <= set(TEXT)
    assert "".join(neuropil.load(run.folder).predictor.generate("1 is", length=50)) == first


def test_the_command_writes_the_prompt_and_what_follows(run: Run, capsys: pytest.CaptureFixture[str]):
    shown = said(capsys, "generate", str(run.folder), "1 is", "--length", "20", "--temperature", "0")
    assert shown == "1 is" + "".join(model_of(run).generate("1 is", length=20, temperature=0)) + "\n"
    assert len(said(capsys, "generate", str(run.folder), "--length", "5")) == 6


def test_half_a_character_waits_for_the_rest(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("größer 日本 " * 60, encoding="utf-8")
    run = neuropil.train(
        "gru",
        data=path,
        tokens="bpe",
        vocabulary_size=270,
        out=tmp_path / "run",
        report=False,
        show_progress=False,
        **SMALL | {"updates": 2},
    )
    model = model_of(run)
    ids = model.tokenizer.encode(["größer 日本"])[0]
    pieces = list(as_text(ids, model.tokenizer.decode))
    assert "".join(pieces) == "größer 日本"
    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)
    assert run.metrics["bits_per_character"] > run.metrics["bits_per_byte"] > 0


def test_words_have_a_perplexity_and_no_bits(book: Path, tmp_path: Path):
    run = neuropil.train(
        "rnn", data=book, tokens="words", out=tmp_path / "run", report=False, show_progress=False, **SMALL
    )
    assert not {"bits_per_character", "bits_per_byte"} & set(run.metrics)
    assert run.metrics["perplexity"] > 1
    assert "".join(model_of(run).generate("1 is", length=3)).count(" ") == 3


def test_evaluate_reads_files_of_the_users(run: Run, tmp_path: Path):
    path = tmp_path / "more.txt"
    path.write_text('12 is "even" (see 13).\n' * 5)
    strange = tmp_path / "strange.txt"
    strange.write_text("(((((3333" * 10)
    assert run.evaluate(path)["bits_per_character"] < run.evaluate(strange)["bits_per_character"]


def test_a_short_run_of_a_long_text_is_a_part_of_ten_passes(book: Path):
    options = recipe("lstm").options.override(data=book, **SMALL)
    experiment = recipe("lstm").build(options, 0)
    passes = experiment.training.epochs  # type: ignore[attr-defined]
    assert passes == math.ceil(SMALL["updates"] / len(experiment.training_batches))  # type: ignore[attr-defined]
    assert recipe("lstm").build(options.override(epochs=7), 0).training.epochs == 7  # type: ignore[attr-defined]


def test_the_state_can_be_left_behind(book: Path, tmp_path: Path):
    run = neuropil.train(
        "rnn",
        data=book,
        carry_state=False,
        out=tmp_path / "run",
        report=False,
        show_progress=False,
        **SMALL | {"updates": 2},
    )
    assert "--no-carry-state" in run.settings["command"]


def test_gates_are_shown_for_a_short_text_with_what_they_are_tied_to(run: Run, capsys: pytest.CaptureFixture[str]):
    *sentences, path = said(capsys, "inspect", str(run.folder), "--gates", '7 is "odd"').splitlines()
    assert path == str(run.folder / "gates.html")
    assert [sentence.split(":")[0] for sentence in sentences] == ["reader.forwards.0"]
    page = Path(path).read_text()
    assert page.count("<svg") == 1
    for name in ("forget gate", "input gate", "output gate", "candidate", "cell state c", "inside quotes"):
        assert name in page


def test_a_long_text_or_file_says_itself_what_units_are_tied_to(
    run: Run, book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "part.txt"
    path.write_text(TEXT[:900])
    said(capsys, "inspect", str(run.folder), "--gates", str(path))
    page = (run.folder / "gates.html").read_text()
    assert re.search(r"over 900 tokens", page)
    tied = re.findall(r"([+-]0\.\d\d)</td></tr>", page)
    assert max(abs(float(r)) for r in tied) > 0.5  # a space is easily seen


def test_watching_a_language_model_does_not_change_it(run: Run):
    model = model_of(run)
    tokens = torch.tensor(model.tokenizer.encode([TEXT[:200]]))
    with torch.no_grad(), record_gates(model.model):
        watched = model.model.stream(tokens).outputs
    with torch.no_grad():
        assert torch.equal(watched, model.model.stream(tokens).outputs)


def test_explain_says_how_cells_run_and_trains_nothing(
    book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
):
    monkeypatch.chdir(tmp_path)
    lines = said(
        capsys, "train", "lstm", "--data", str(book), "--explain", "--steps", "16", "--layers", "2"
    ).splitlines()
    assert lines == [
        "cell\tkind\tsteps\tway\tbecause",
        "reader.forwards.0\tLSTM\t16\tfused\tPyTorch has a kernel for LSTM",
        "reader.forwards.1\tLSTM\t16\tfused\tPyTorch has a kernel for LSTM",
    ]
    assert list(tmp_path.iterdir()) == []


def test_runs_of_other_kinds_are_refused_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = neuropil.train("mlp", hidden_sizes=(4,), epochs=1, out=tmp_path / "run", report=False, show_progress=False)
    assert said(capsys, "generate", str(run.folder), "a", code=2) == (
        f"neuropil: this needs a model that generates text, but got a run of mlp in {run.folder}: "
        "train rnn, lstm, gru, mingru or gpt2."
    )
    assert said(capsys, "inspect", str(run.folder), "--gates", "a", code=2) == (
        f"neuropil: {run.folder} must hold a recurrent model that reads texts, but got a run of mlp: train an lstm."
    )
    assert said(capsys, "train", "mlp", "--explain", code=2) == (
        "neuropil: only recurrent cells are run in several ways, but got a MLP without any."
    )


def test_a_prompt_without_tokens_is_refused(run: Run):
    with pytest.raises(InputError) as error:
        list(islice(model_of(run).generate_batch([""], length=3), 1))
    assert str(error.value) == "a text must have at least one token, but got '': give it a word or two."


def test_a_run_is_resumed_with_its_own_text_only(run: Run, book: Path):
    book.write_bytes(gzip.compress(TEXT[:-100].encode()))
    with pytest.raises(RunError):
        run.experiment()
    book.write_bytes(gzip.compress(TEXT.encode()))
