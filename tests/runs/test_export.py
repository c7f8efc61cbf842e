"""Models in ONNX files answer under ONNX Runtime as they do here, whatever the batch and the length."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import neuropil
from command_line import said
from contracts.test_recipes import SMALL
from neuropil import recipes
from neuropil.errors import InputError, RunError
from neuropil.runs.export import example_inputs
from neuropil.runs.run import Run
from neuropil.training.config import TrainingConfig
from real_data import digits

SYSTEMS = [
    each.name
    for each in recipes.SYSTEMS
    if each.family != recipes.NEURONS
    and recipes.recipe(each.name).predictor is not None
    and isinstance(getattr(recipes.recipe(each.name).options, "training", None), TrainingConfig)
]
PICTURES = ("mlp", "cnn", "attention", "vit", "raw patches", "autoencoder", "vae", "gan", "diffusion", "rbm")
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "luong": ("seq2seq", {"attention": "general", "input_feeding": True}),
    "raw patches": ("attention", {"embedding": "none"}),
}


def small(name: str, folder: Path, **options: Any) -> Run:
    chosen = {**SMALL[name], "epochs": 1, **options}
    return neuropil.train(name, out=folder, report=False, show_progress=False, **chosen)


def answers(path: Path, *inputs: torch.Tensor) -> torch.Tensor:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return torch.as_tensor(session.run(None, dict(zip(names, (x.numpy() for x in inputs), strict=True)))[0])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small("mlp", tmp_path_factory.mktemp("runs") / "mlp")


def test_an_exported_network_answers_as_in_pytorch(run: Run, capsys: pytest.CaptureFixture[str]):
    header, *rows, sentence, path = said(capsys, "export", str(run.folder)).splitlines()
    assert (header, path) == ("\tname\tshape", str(run.folder / "model.onnx"))
    assert rows == ["inputs\tx\tbatch × 1 × 8 × 8", "outputs\toutput\tbatch × 10"]
    assert sentence.startswith("ONNX Runtime and PyTorch differ by ")
    pictures = torch.as_tensor(digits()[0][:40, None])
    assert torch.allclose(answers(Path(path), pictures), run.model(pictures), atol=1e-4)


def exported(run: Run, path: Path) -> dict[str, Any]:
    """By a process of its own, where no types are checked: PyTorch cannot trace that."""
    words = [sys.executable, "-m", "neuropil", "export", str(run.folder), "--out", str(path), "--json"]
    source = str(Path(neuropil.__file__).parents[1])
    done = subprocess.run(words, env=os.environ | {"PYTHONPATH": source}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_an_exported_recurrence_reads_sequences_of_any_length_and_padding(tmp_path: Path):
    run = small("gru", tmp_path / "gru")
    found = exported(run, tmp_path / "gru.onnx")
    assert found["inputs"] == {"x": ["batch", "time"]}
    for size in ((1, 1), (2, 90)):
        tokens = torch.randint(1, 50, size)
        tokens[0, 1 + size[1] // 2 :] = 0
        assert torch.allclose(answers(tmp_path / "gru.onnx", tokens), run.model(tokens), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SYSTEMS, *VARIANTS])
def test_every_such_model_is_exported(name: str, tmp_path: Path):
    system, options = VARIANTS.get(name, (name, {}))
    run = small(system, tmp_path / "run", **options)
    found = exported(run, tmp_path / "model.onnx")
    assert found["difference"] < 1e-4
    assert all(isinstance(axes[0], str) for axes in (found["inputs"] | found["outputs"]).values())
    if name not in PICTURES:
        assert any(isinstance(axes[1], str) for axes in found["inputs"].values())  # time


def test_a_run_on_data_in_memory_is_exported_with_inputs(tmp_path: Path):
    pictures, targets = (part[:200] for part in digits())
    run = neuropil.train(
        "mlp", data=(pictures, targets), out=tmp_path / "run", updates=2, report=False, show_progress=False
    )
    with pytest.raises(RunError) as error:
        run.export("onnx")
    rule = f"{run.folder} does not hold its data, which was in memory"
    assert str(error.value) == f"{rule}, but got no inputs: give some, as in run.export('onnx', inputs=X[:3])."
    inputs = torch.as_tensor(pictures[:2, None])
    assert {name: x.shape for name, x in example_inputs(run, pictures[:2]).items()} == {"x": (3, 1, 8, 8)}
    assert torch.equal(example_inputs(run, (inputs,))["x"][:2].float(), inputs.float())


def test_another_format_is_refused(run: Run):
    with pytest.raises(InputError) as error:
        run.export("pickle")
    assert str(error.value) == "a model is exported as 'onnx' or 'nir', but got 'pickle'."


@pytest.mark.parametrize(
    ("format", "name", "said"),
    [
        ("nir", "sc.onnx", "'sc.onnx' for nir: call it sc.nir, or export it as onnx."),
        ("onnx", "sc.nir", "'sc.nir' for onnx: call it sc.onnx, or export it as nir."),
        ("onnx", "a.BIN", "'a.BIN' for onnx: call it a.onnx, or export it as word2vec-binary."),
    ],
)
def test_a_name_that_says_another_format_is_refused(run: Run, tmp_path: Path, format: str, name: str, said: str):
    with pytest.raises(InputError) as error:
        run.export(format, tmp_path / name)
    assert str(error.value) == f"the name of an exported file must fit its format, but got {said}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_cannot_be_exported_gets_a_sentence_and_no_file(tmp_path: Path):
    run = small("predictive_coding", tmp_path / "run")
    with pytest.raises(RunError) as error:
        run.export("onnx")
    rule = "the model of predictive_coding cannot be exported to ONNX"
    assert str(error.value).startswith(f"{rule}, but got ")  # then PyTorch's own words
    assert not [path for path in run.folder.iterdir() if "onnx" in path.name]


def test_an_export_that_answers_otherwise_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def other(self: object, *_: object) -> list[np.ndarray]:
        return [np.full((1, 10), 0.5, np.float32)]

    monkeypatch.setattr(onnxruntime.InferenceSession, "run", other)
    with pytest.raises(RunError) as error:
        run.export("onnx", tmp_path / "model.onnx")
    assert str(error.value).startswith(
        "the exported model of mlp must answer as PyTorch's within 0.0001, but got a diff"
    )
    assert not list(tmp_path.iterdir())
