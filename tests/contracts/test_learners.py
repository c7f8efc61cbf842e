"""What holds of every learner: training calls the model itself, so that hooks and compilation take effect."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import neuropil
from neuropil.errors import InputError
from neuropil.models.autoencoder import Autoencoder, AutoencoderConfig, ReconstructionLoss
from neuropil.models.bert import BERTConfig, MaskedBERT
from neuropil.models.captioner import Captioner, CaptionerConfig
from neuropil.models.clip import CLIP, CLIPConfig, ContrastiveMatching, TextTowerConfig, VisionTowerConfig
from neuropil.models.forecaster import Forecaster, ForecasterConfig, QuantileRegression
from neuropil.models.gan import GAN, AdversarialGame, GANConfig
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.models.predictive_coding.network import PredictiveCoding, PredictiveCodingConfig
from neuropil.models.predictive_coding.settled_energy import SettledEnergy
from neuropil.models.rbm import RBM, ContrastiveDivergence, RBMConfig
from neuropil.models.recurrent import CellName, RecurrentNetwork, RecurrentNetworkConfig
from neuropil.models.seq2seq import AttentionName, Seq2Seq, Seq2SeqConfig
from neuropil.models.spiking.classifier import SpikingClassifier, SpikingClassifierConfig
from neuropil.models.tracker import Tracker, TrackerConfig, Tracking
from neuropil.models.transformer import Transformer, TransformerConfig
from neuropil.models.vae import VAE, EvidenceLowerBound, VAEConfig
from neuropil.parts.objectives import (
    Classification,
    MaskedToken,
    MultiLabel,
    NextToken,
    NextTokenInWindow,
    Regression,
    SequenceToSequence,
    Tagging,
)
from neuropil.protocols import Batch, Learner
from neuropil.training.config import TrainingConfig
from neuropil.training.distributed.shares import shares
from neuropil.training.loop import fit

VOCABULARY = 12
NARROW: dict[str, Any] = {"width": 8, "heads": 2, "layers": 1, "feed_forward": 8}


def tokens(*shape: int) -> Tensor:
    return torch.randint(4, VOCABULARY, shape)


def recurrent(cell: CellName, **options: Any) -> RecurrentNetwork:
    sizes = {"hidden_size": 8, "embedding_size": 6, "vocabulary_size": VOCABULARY, "output_size": VOCABULARY}
    return RecurrentNetwork(RecurrentNetworkConfig(cell=cell, shape="aligned", **sizes, **options))


def language(cell: CellName) -> tuple[Learner, Batch]:
    batch = {"input": tokens(3, 5), "target": tokens(3, 5), "begins": torch.tensor([True, False, True])}
    return NextToken(recurrent(cell)), batch


def translation(model: nn.Module) -> tuple[Learner, Batch]:
    return SequenceToSequence(model), {"source": tokens(3, 4), "target": tokens(3, 6)}


def attentive(attention: AttentionName) -> Seq2Seq:
    sizes: dict[str, Any] = {"source_vocabulary_size": VOCABULARY, "target_vocabulary_size": VOCABULARY}
    return Seq2Seq(Seq2SeqConfig(attention=attention, embedding_size=6, hidden_size=8, **sizes))


def windows(model: nn.Module, learner: Callable[[Any], Learner]) -> tuple[Learner, Batch]:
    return learner(model), {"input": tokens(3, 6), "target": tokens(3, 6), "scored": torch.rand(3, 6) < 0.5}


def images() -> Batch:
    return {"input": torch.rand(5, 1, 8, 8), "target": torch.arange(5)}


def captioning() -> tuple[Learner, Batch]:
    config = CaptionerConfig(
        width=4, hidden_size=8, embedding_size=6, attention_size=6, shape=(1, 8, 8), vocabulary_size=VOCABULARY
    )
    return SequenceToSequence(Captioner(config)), {"source": torch.rand(3, 1, 8, 8), "target": tokens(3, 5)}


def matching() -> tuple[Learner, Batch]:
    vision = VisionTowerConfig(width=8, heads=2, layers=1, patch=4, shape=(1, 8, 8))
    text = TextTowerConfig(width=8, heads=2, layers=1, context=6, vocabulary_size=VOCABULARY, end=3)
    model = CLIP(CLIPConfig(embedding_size=8, vision=vision, text=text))
    caption = torch.cat([tokens(4, 5), torch.full((4, 1), 3)], 1)
    return ContrastiveMatching(model), {"picture": torch.rand(4, 1, 8, 8), "caption": caption, "group": torch.arange(4)}


def forecasting() -> tuple[Learner, Batch]:
    model = Forecaster(ForecasterConfig(hidden_size=4, members=2, lags=3, context=6, features=2, steps=4))
    batch = {"history": torch.randn(5, 6), "known": torch.randn(5, 10, 2), "target": torch.randn(5, 4)}
    return QuantileRegression(model), batch | {"valid_mask": torch.rand(5, 4) < 2}


def tracking() -> tuple[Learner, Batch]:
    model = Tracker(TrackerConfig(width=4, features=8, hidden_size=8, shape=(1, 8, 8)))
    batch = {"input": torch.rand(3, 4, 1, 8, 8), "length": torch.tensor([4, 3, 4]), "target": torch.rand(3, 4, 2)}
    return Tracking(model), batch


LEARNERS: dict[str, Callable[[], tuple[Learner, Batch]]] = {
    "classification": lambda: (Classification(MLP(MLPConfig(hidden_sizes=(8,)))), images()),
    "multi-label": lambda: (MultiLabel(MLP(MLPConfig(hidden_sizes=(8,)))), {**images(), "target": torch.eye(5, 10)}),
    "regression": lambda: (Regression(MLP(MLPConfig(hidden_sizes=(8,), outputs=1))), images()),
    "tagging": lambda: (Tagging(recurrent("gru")), {"input": tokens(3, 5), "target": tokens(3, 5)}),
    "rnn": lambda: language("rnn"),
    "lstm": lambda: language("lstm"),
    "gru": lambda: language("gru"),
    "mingru": lambda: language("mingru"),
    "gpt2": lambda: windows(GPT2(GPT2Config(**NARROW, context=6, vocabulary_size=VOCABULARY)), NextTokenInWindow),
    "bert": lambda: windows(MaskedBERT(BERTConfig(**NARROW, context=6, vocabulary_size=VOCABULARY)), MaskedToken),
    "transformer": lambda: translation(
        Transformer(TransformerConfig(**NARROW, source_vocabulary_size=VOCABULARY, target_vocabulary_size=VOCABULARY))
    ),
    "seq2seq": lambda: translation(attentive("dot")),
    "captioner": captioning,
    "forecaster": forecasting,
    "tracker": tracking,
    "rbm": lambda: (ContrastiveDivergence(RBM(RBMConfig(hidden_size=8, chains=3))), images()),
    "clip": matching,
    "autoencoder": lambda: (ReconstructionLoss(Autoencoder(AutoencoderConfig(hidden_sizes=(8,), tied=True))), images()),
    "vae": lambda: (EvidenceLowerBound(VAE(VAEConfig(network="convolutional", width=4))), images()),
    "gan": lambda: (AdversarialGame(GAN(GANConfig(network="convolutional", width=4, spectral_norm=True))), images()),
}
QUICK = ["gpt2"]
UNCOMPILABLE: dict[str, Callable[[], tuple[Learner, Batch]]] = {
    "seq2seq that feeds back": lambda: translation(attentive("bahdanau")),
    "predictive coding": lambda: (SettledEnergy(PredictiveCoding(PredictiveCodingConfig(hidden_sizes=(8,)))), images()),
    "spiking classifier": lambda: (
        Classification(SpikingClassifier(SpikingClassifierConfig(hidden_sizes=(8,), steps=3))),
        images(),
    ),
}


class Repeated:
    """One batch, three times."""

    def __init__(self, batch: Batch):
        self.batch = batch

    def __len__(self) -> int:
        return 3

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        return iter([self.batch] * (len(self) - start))


def learn(learner: Learner, batch: Batch, folder: Path, **options: Any) -> list[dict[str, Any]]:
    config = TrainingConfig(epochs=1, **options)
    return fit(learner, Repeated(batch), None, config, seed=0, folder=folder, show_progress=False)


@pytest.mark.parametrize("name", [*LEARNERS, *UNCOMPILABLE])
def test_a_hook_on_the_model_sees_every_batch_of_each_phase_and_of_evaluation(name: str, tmp_path: Path):
    learner, batch = (LEARNERS | UNCOMPILABLE)[name]()
    calls: list[bool] = []
    learner.model.register_forward_hook(lambda module, inputs, output: calls.append(module.training))
    learn(learner, batch, tmp_path)
    trained = 3 * len(learner.phases())
    assert calls == [True] * trained
    learner.metrics(batch)
    assert len(calls) > trained


@pytest.mark.parametrize("name", LEARNERS)
def test_metrics_change_no_weight_and_no_state(name: str):
    learner, batch = LEARNERS[name]()
    learner.model.eval()
    before = {name: value.clone() for name, value in learner.model.state_dict().items()}
    first, second = learner.metrics(batch), learner.metrics(batch)
    assert all(torch.equal(first[metric], second[metric]) for metric in first)
    assert all(torch.equal(value, before[name]) for name, value in learner.model.state_dict().items())


UNWEIGHTED = ("rbm", "gan", "spiking classifier")
"""What the first two learn is no mean of losses of examples; the third is silent at first, and all its losses equal."""


@pytest.mark.parametrize("name", sorted({*LEARNERS, *UNCOMPILABLE} - {*UNWEIGHTED}))
def test_weights_enter_the_loss_as_a_weighted_mean(name: str):
    def loss(weights: Sequence[float] | None) -> float:
        torch.manual_seed(0)
        learner, batch = (LEARNERS | UNCOMPILABLE)[name]()
        learner.model.eval()
        weighted = batch if weights is None else {**batch, "weight": torch.tensor(weights)}
        return learner.phases()[0].loss(weighted).item()

    count = len(next(iter((LEARNERS | UNCOMPILABLE)[name]()[1].values())))
    alone = [loss([float(place == each) for place in range(count)]) for each in range(count)]
    assert loss([2.5] * count) == pytest.approx(loss(None), rel=1e-5)
    assert min(alone) < loss(None) < max(alone)
    pair = loss([1.0, 3.0, *[0.0] * (count - 2)])
    assert min(alone[:2]) < pair < max(alone[:2])


NOT_BY_EXAMPLE = ("rbm", "gan", "vae", "clip")
"""The first three draw random numbers, and the last compares all examples of a batch."""


def ragged(batch: Batch) -> Batch:
    """With fewer tokens or steps in the first row than in the others."""
    short = {name: values.clone() for name, values in batch.items()}
    for values in short.values():
        if values.ndim == 2 and not values.is_floating_point():
            values[0, -2:] = 0
    return short


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", sorted({*LEARNERS, *UNCOMPILABLE} - {*NOT_BY_EXAMPLE}))
def test_the_loss_of_a_batch_is_the_sum_of_those_of_its_shares(name: str, weighted: bool):
    def learned(rank: int, size: int) -> tuple[float, list[Tensor]]:
        torch.manual_seed(0)
        learner, batch = (LEARNERS | UNCOMPILABLE)[name]()
        learner.model.eval()
        batch = ragged(batch)
        if weighted:
            batch = {**batch, "weight": torch.arange(1.0, len(next(iter(batch.values()))) + 1)}
        (phase,) = learner.phases()
        (share,) = shares(phase, [batch], rank, size)
        loss = share.factor * phase.loss(share.batch)
        loss.backward()
        found = [torch.zeros_like(each) if each.grad is None else each.grad for each in phase.parameters.values()]
        return loss.item(), found

    (whole, gradient), parts = learned(0, 1), [learned(rank, 2) for rank in range(2)]
    assert sum(loss for loss, _ in parts) == pytest.approx(whole, rel=1e-5)
    for expected, *found in zip(gradient, *(gradients for _, gradients in parts), strict=True):
        torch.testing.assert_close(sum(found), expected, rtol=1e-4, atol=1e-6)


def count_graphs(names: list[str], folder: str) -> None:
    """Print for each learner how many graphs its training compiles, and its loss without and with compiling."""
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    plain = nn.Module.compile
    nn.Module.compile = lambda model: plain(model, backend=backend)  # type: ignore[method-assign]
    found = {}
    for name in names:
        losses = []
        for compiles in (False, True):
            graphs.clear()
            torch.manual_seed(0)
            (row,) = learn(*LEARNERS[name](), Path(folder) / name / str(compiles), compile=compiles)
            losses.append([value for key, value in row.items() if key.endswith("loss")])  # one for each phase
        found[name] = [len(graphs), *losses]
    sys.stdout.write(json.dumps(found))


@pytest.mark.parametrize(
    "names", [QUICK, pytest.param(sorted(set(LEARNERS) - set(QUICK)), marks=pytest.mark.slow)], ids=["quick", "others"]
)
def test_compiling_compiles_what_is_trained_and_changes_no_loss(names: list[str], tmp_path: Path):
    """In a process of its own: here shapes are checked in every function, and the compiler would trace the checks."""
    for name in names:
        for compiles in ("True", "False"):
            (tmp_path / name / compiles).mkdir(parents=True)
    words = f"from contracts.test_learners import count_graphs; count_graphs({names!r}, {str(tmp_path)!r})"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", words], env=environment, capture_output=True, text=True, check=True)
    for name, (graphs, plain, compiled) in json.loads(done.stdout.splitlines()[-1]).items():
        assert graphs > 0, name
        assert compiled == pytest.approx(plain, rel=1e-5), name


@pytest.mark.parametrize("name", UNCOMPILABLE)
def test_where_compiling_cannot_help_it_is_refused_with_the_reason(name: str, tmp_path: Path):
    learner, batch = UNCOMPILABLE[name]()
    with pytest.raises(InputError) as error:
        learn(learner, batch, tmp_path, compile=True)
    assert str(error.value).startswith("compile=True needs a model that torch.compile can speed up, but got ")
    assert type(learner.model).__name__ in str(error.value)
    assert str(error.value).endswith(": train without it.")


@pytest.mark.parametrize("system", ["predictive_coding", "spiking_classifier", "seq2seq"])
def test_compiling_is_refused_before_a_run_folder_is_made(system: str, tmp_path: Path):
    with pytest.raises(InputError, match=r"^compile=True needs a model that torch\.compile can speed up"):
        neuropil.train(system, compile=True, out=tmp_path / "run", show_progress=False)
    assert not (tmp_path / "run").exists()
