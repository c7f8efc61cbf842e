"""A spiking classifier in a NIR file fires the same spikes in a simulator of NIR, as far as NIR has words for it."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
import torch

import neuropil
from command_line import said
from neuropil.errors import RunError
from neuropil.extras import MissingExtraError
from neuropil.models.spiking.classifier import SpikingClassifier
from neuropil.runs.nir import NIRExport
from neuropil.runs.run import Run
from real_data import digits

NETWORKS: dict[str, dict[str, Any]] = {
    "exact": {"hidden_sizes": (24,)},
    "own voltages": {"hidden_sizes": (24,), "tau_m": 15.0, "rest": -70.0, "threshold": -50.0, "reset": -65.0},
    "deep": {"hidden_sizes": (24, 16)},
    "counted": {"hidden_sizes": (24,), "readout": "spikes", "rest": 0.25, "reset": -0.5},
}


def trained(folder: Path, **options: Any) -> Run:
    options = {"tau_ref": 0.0, "steps": 12, "updates": 20} | options
    return neuropil.train("spiking_classifier", out=folder, report=False, show_progress=False, **options)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    return {name: trained(tmp_path_factory.mktemp(name) / "run", **options) for name, options in NETWORKS.items()}


def chain(graph: nir.NIRGraph) -> list[Any]:
    after, names = dict(graph.edges), ["input"]
    while names[-1] in after:
        names.append(after[names[-1]])
    return [graph.nodes[name] for name in names]


def fire(node: nir.LIF, currents: np.ndarray, dt: float, *, lossy: bool) -> np.ndarray:
    """The equation as v ← λ v + (1 − λ) (v_leak + R I). A `lossy` neuron does not get what the step of its spike adds,
    which NIR has no word for; here that is the input of the step after it."""
    reset = node.v_reset
    assert reset is not None
    decay, v, spikes = np.exp(-dt / node.tau), node.v_leak, [np.zeros(currents.shape[1:], bool)]
    for current in currents:
        current = np.where(spikes[-1], 0, current) if lossy else current
        v = decay * v + (1 - decay) * (node.v_leak + node.r * current)
        spikes.append(v > node.v_threshold)
        v = np.where(spikes[-1], reset, v)
    return np.stack(spikes[1:]).astype(float)


def simulated(path: Path, x: torch.Tensor, *, lossy: bool = False) -> tuple[list[np.ndarray], np.ndarray]:
    """The spikes of each layer, and the answers."""
    graph = nir.read(path)
    dt, steps = graph.metadata["dt"], graph.metadata["steps"]
    signal = np.repeat(x.flatten(1).double().numpy()[None], steps, 0)
    layers = []
    for node in chain(graph)[1:-1]:
        if isinstance(node, nir.Affine):
            signal = signal @ node.weight.T + node.bias
        elif isinstance(node, nir.LIF):
            signal = fire(node, signal, dt, lossy=lossy and layers != [])
            layers.append(signal)
        else:
            assert isinstance(node, nir.LI)
            decay = np.exp(-dt / node.tau)
            # v_k = (1 − λ) Σ_j λ^{k−j} R I_j
            powers = [sum(decay ** (k - j) * signal[j] for j in range(k + 1)) for k in range(steps)]
            signal = (1 - decay) * node.r * np.stack(powers)
    return layers, {"mean": signal.mean(0), "sum": signal.sum(0)}[graph.metadata["readout"]]


def in_double(run: Run) -> SpikingClassifier:
    model = neuropil.load(run.folder).model.double()
    assert isinstance(model, SpikingClassifier)
    return model


def exported(run: Run, path: Path, inputs: Any = None) -> NIRExport:
    found = run.export("nir", path, inputs=inputs)
    assert isinstance(found, NIRExport)
    return found


PICTURES = torch.as_tensor(digits()[0][:100, None])


@pytest.mark.parametrize("name", ["exact", "own voltages"])
def test_one_hidden_layer_is_exact(name: str, runs: dict[str, Run], tmp_path: Path):
    found = exported(runs[name], tmp_path / "a.nir")
    (spikes,), answers = simulated(tmp_path / "a.nir", PICTURES)
    activity = in_double(runs[name]).activity(PICTURES)
    assert np.array_equal(spikes, activity.hidden[0].spikes.numpy())
    assert spikes.sum() > 1000
    assert np.abs(answers - activity.logits[-1].numpy()).max() < 1e-12
    assert (found.exact, found.same_answers, found.num_inputs) == (True, 256, 256)
    assert found.difference < 1e-12


@pytest.mark.parametrize("name", ["deep", "counted"])
def test_behind_it_all_is_the_same_but_for_the_input_that_a_spike_loses(
    name: str, runs: dict[str, Run], tmp_path: Path
):
    found = exported(runs[name], tmp_path / "a.nir")
    layers, answers = simulated(tmp_path / "a.nir", PICTURES, lossy=True)
    activity = in_double(runs[name]).activity(PICTURES)
    first, second = [*activity.hidden, activity.output][:2]
    assert np.array_equal(layers[0], first.spikes[:-1].numpy())
    assert np.array_equal(layers[1], second.spikes[1:].numpy())  # which is a step ahead
    assert layers[1].sum() > 100
    assert np.abs(answers - activity.logits[-1].numpy()).max() < 1e-12

    kept, answers = simulated(tmp_path / "a.nir", PICTURES)
    assert np.array_equal(kept[0], layers[0])
    assert not np.array_equal(kept[1], layers[1])
    assert (found.exact, found.steps, found.num_inputs) == (False, 11, 256)
    found = exported(runs[name], tmp_path / "a.nir", PICTURES)
    assert found.same_answers == (answers.argmax(1) == activity.logits[-1].numpy().argmax(1)).sum()
    assert found.num_inputs == 100


def test_the_file_has_what_a_simulator_must_know(runs: dict[str, Run], tmp_path: Path):
    exported(runs["own voltages"], tmp_path / "a.nir")
    graph = nir.read(tmp_path / "a.nir")
    assert [type(node).__name__ for node in chain(graph)] == ["Input", "Affine", "LIF", "Affine", "LI", "Output"]
    neuron = chain(graph)[2]
    assert {key: value.tolist() for key, value in neuron.to_dict().items() if isinstance(value, np.ndarray)} == {
        "tau": [0.015] * 24,
        "r": [1] * 24,
        "v_leak": [-70] * 24,
        "v_threshold": [-50] * 24,
        "v_reset": [-65] * 24,
    }
    classes = [name.decode() for name in graph.metadata.pop("classes")]
    assert classes == [str(digit) for digit in range(10)]
    assert graph.metadata == {"dt": 0.002, "steps": 12, "readout": "mean"}
    exported(runs["counted"], tmp_path / "a.nir")
    assert nir.read(tmp_path / "a.nir").metadata["readout"] == "sum"


def test_the_command_says_what_was_measured(runs: dict[str, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = runs["exact"]
    *table, sentence, path = said(capsys, "export", str(run.folder), "--format", "nir").splitlines()
    assert path == str(run.folder / "model.nir")
    rows = ["node kind shape", "input Input 64", "affine Affine 24", "lif LIF 24", "affine_1 Affine 10", "li LI 10"]
    assert [row.split("\t") for row in table] == [row.split() for row in rows]
    simulated = "Simulated for 12 steps of 2 ms, the file fires the spikes of PyTorch for all of 256 inputs; "
    assert sentence.startswith(simulated + "logits differ by ")
    assert float(sentence.split()[-3]) < 1e-12

    out = tmp_path / "deep.nir"  # whose name says the format
    found = json.loads(said(capsys, "export", str(runs["deep"].folder), "--out", str(out), "--json"))
    sentence, path = said(capsys, "export", str(runs["deep"].folder), "--out", str(out)).splitlines()[-2:]
    assert (path, found["path"], found["dt"]) == (str(out), str(out), 0.002)
    answers = f"gives the class of PyTorch for {found['same_answers']} of 256 inputs"
    why = "in NIR a neuron keeps the input of the step in which it spikes"
    assert sentence == f"Simulated for 11 steps of 2 ms, the file {answers}: {why}."


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "refractory": (
        {"tau_ref": 2.0},
        "neurons in NIR have no refractory period, but got --tau-ref 2: train with --tau-ref 0.",
    ),
    "poisson": (
        {"coding": "poisson"},
        "inputs coded as spikes have no node in NIR, but got --coding poisson: train with --coding current.",
    ),
    "short": (
        {"hidden_sizes": (8, 8), "readout": "spikes", "steps": 2},
        "inputs must be presented for enough steps to reach the output, but got 2 for 2 hidden layers: "
        "train with more --steps.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_nir_cannot_say_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    options, sentence = REFUSED[name]
    run = trained(tmp_path / "run", **{"hidden_sizes": (8,), "epochs": 1} | options)
    complained = said(capsys, "export", str(run.folder), "--format", "nir", code=2)
    assert " ".join(complained.split()) == f"neuropil: {sentence}"
    assert not list(run.folder.glob("*nir*"))


def test_a_network_without_spikes_is_refused(tmp_path: Path):
    run = neuropil.train("mlp", out=tmp_path / "run", epochs=1, report=False, show_progress=False)
    with pytest.raises(RunError) as error:
        run.export("nir")
    fix = "train a spiking_classifier, or export it as ONNX"
    assert str(error.value) == f"NIR holds spiking networks, but got a run of mlp: {fix}."


def test_a_run_on_data_in_memory_is_exported_with_inputs(tmp_path: Path):
    pictures, targets = (part[:200] for part in digits())
    run = trained(tmp_path / "run", data=(pictures, targets), hidden_sizes=(8,), epochs=1)
    with pytest.raises(RunError) as error:
        run.export("nir")
    rule = f"{run.folder} does not hold its data, which was in memory"
    assert str(error.value) == f"{rule}, but got no inputs: give some, as in run.export('nir', inputs=X[:3])."
    found = exported(run, tmp_path / "a.nir", pictures[:2])
    assert (found.num_inputs, found.same_answers) == (2, 2)


@pytest.mark.parametrize(
    ("name", "node", "parameter"),
    [("exact", "lif", "v_threshold"), ("deep", "lif", "v_threshold"), ("exact", "affine_1", "weight")],
)
def test_a_file_that_answers_otherwise_is_refused(
    name: str, node: str, parameter: str, runs: dict[str, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    read = nir.read

    def other(path: Path) -> nir.NIRGraph:
        graph = read(path)
        changed = graph.nodes[node]
        setattr(changed, parameter, 2 * getattr(changed, parameter))
        return graph

    monkeypatch.setattr(nir, "read", other)
    with pytest.raises(RunError) as error:
        runs[name].export("nir", tmp_path / "a.nir")
    rule = "the exported network of spiking_classifier must answer as PyTorch's within 0.0001"
    spikes = "0" if node == "affine_1" else "[1-9][0-9,]*"
    got = f"{spikes} other spikes and a difference of [0-9.e+]+"
    assert re.fullmatch(f"{rule}, but got {got}\\.", str(error.value))
    assert not list(tmp_path.iterdir())


def test_without_the_extra_nothing_is_written(runs: dict[str, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "nir", None)
    with pytest.raises(MissingExtraError) as error:
        runs["exact"].export("nir", tmp_path / "a.nir")
    sentence = "an export to NIR needs the packages of neuropil[nir], but got no nir: pip install 'neuropil[nir]'."
    assert str(error.value) == sentence
    assert not list(tmp_path.iterdir())
