"""Models in ONNX files answer under ONNX Runtime as they do here, whatever the batch and the length."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import neuropil
from contracts.test_recipes import SMALL
from neuropil.cli import main
from neuropil.errors import InputError, RunError
from neuropil.runs.run import Run
from real_data import digits

SYSTEMS = (
    "cnn attention vit rnn lstm mingru text_classifier tagger forecaster captioner tracker seq2seq transformer gpt2 bert "
    "bert_classifier clip"
).split()


def small(name: str, folder: Path, **options: Any) -> Run:
    chosen = {key: value for key, value in SMALL[name].items() if key != "epochs"} | {"updates": 2} | options
    return neuropil.train(name, out=folder, report=False, show_progress=False, **chosen)


def answers(path: Path, *inputs: torch.Tensor) -> torch.Tensor:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return torch.as_tensor(session.run(None, dict(zip(names, (x.numpy() for x in inputs), strict=True)))[0])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small("mlp", tmp_path_factory.mktemp("runs") / "mlp")


def test_an_exported_network_answers_as_in_pytorch(run: Run):
    found = run.export("onnx")
    assert found.path == run.folder / "model.onnx"
    assert found.inputs == {"x": ["batch", 1, 8, 8]}
    assert found.outputs == {"output": ["batch", 10]}
    assert found.difference < 1e-5
    pictures = torch.as_tensor(digits()[0][:40, None])
    assert torch.allclose(answers(found.path, pictures), run.model(pictures), atol=1e-4)
