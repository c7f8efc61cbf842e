"""Every convention of the GRU from the command line: trained, opened again, and exported."""

import itertools
from pathlib import Path
from typing import get_args

import pytest
import torch

import neuropil
from command_line import said
from contracts.test_recipes import SMALL
from neuropil.models.gru import GRU, Gate, GRUConfig, GRUConvention, Reset, convert
from neuropil.models.recurrent import RecurrentNetwork
from neuropil.models.rnn import RNN
from neuropil.recipes import recipe
from neuropil.recipes.gru import GRUOptions

TEXT = "It was the best of times, it was the worst of times.\n" * 60
CONVENTIONS = list(zip(itertools.cycle(get_args(Gate)), get_args(Reset), strict=False))


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("book") / "book.txt"
    path.write_text(TEXT)
    return path


def command(name: str, book: Path, folder: Path) -> list[str]:
    sizes = ["--hidden-size", "6", "--embedding-size", "4", "--updates", "3", "--batch-size", "4", "--steps", "16"]
    return ["train", name, "--data", str(book), "--out", str(folder), "--no-report", *sizes]


@pytest.mark.parametrize(("gate", "reset"), CONVENTIONS)
def test_a_convention_is_trained_and_opened_again(
    gate: Gate, reset: Reset, book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    said(capsys, *command("gru", book, tmp_path / "run"), "--gate", gate, "--reset", reset)
    run = neuropil.load(tmp_path / "run")
    assert isinstance(run.model, RecurrentNetwork)
    (cell,) = run.model.reader.cells
    assert isinstance(cell, GRU)
    assert cell.config == GRUConfig(input_size=4, hidden_size=6, gate=gate, reset=reset)
    text = said(capsys, "generate", str(tmp_path / "run"), "It ", "--length", "5")
    assert len(text) == len("It ") + 5 + 1
    other = convert(cell, "take" if gate == "keep" else "keep", reset)  # what was trained goes into the other sign
    x = torch.randn(2, 7, 4)
    torch.testing.assert_close(other(x).outputs, cell(x).outputs)


def test_the_default_is_pytorchs_and_only_that_runs_on_its_kernel(book: Path, capsys: pytest.CaptureFixture[str]):
    assert GRUOptions().model.convention == GRUConvention(gate="keep", reset="after")
    words = ["train", "gru", "--data", str(book), "--explain", "--steps", "16"]
    fused, looped = (said(capsys, *words, *more).splitlines()[1] for more in ([], ["--reset", "before"]))
    assert fused == "reader.forwards.0\tGRU\t16\tfused\tPyTorch has a kernel for GRU"
    assert looped == "reader.forwards.0\tGRU\t16\tloop\tPyTorch has no kernel for this GRU, and its state is not linear"


def test_no_other_language_model_has_these_options(book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    names = {name: {option.name for option in recipe(name).options.options()} for name in ("rnn", "lstm", "mingru")}
    assert {"gate", "reset", "activation"} & names["rnn"] == {"activation"}
    assert not {"gate", "reset", "activation"} & (names["lstm"] | names["mingru"])
    said(capsys, *command("lstm", book, tmp_path / "run"), "--reset", "before", code=2)
    assert not (tmp_path / "run").exists()


def test_an_rnn_is_trained_with_another_activation(book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    said(capsys, *command("rnn", book, tmp_path / "run"), "--activation", "relu")
    run = neuropil.load(tmp_path / "run")
    assert isinstance(run.model, RecurrentNetwork)
    (cell,) = run.model.reader.cells
    assert isinstance(cell, RNN)
    assert cell.config.activation == "relu"


@pytest.mark.slow
@pytest.mark.parametrize("reset", get_args(Reset))
def test_a_convention_is_exported_to_onnx(reset: Reset, tmp_path: Path):
    from runs.test_export import answers, exported

    chosen = {**SMALL["gru"], "epochs": 1}
    run = neuropil.train(
        "gru", out=tmp_path / "run", report=False, show_progress=False, gate="take", reset=reset, **chosen
    )
    exported(run, tmp_path / "gru.onnx")
    tokens = torch.randint(1, 50, (2, 30))
    tokens[0, 12:] = 0
    assert torch.allclose(answers(tmp_path / "gru.onnx", tokens), run.model(tokens), atol=1e-4)
