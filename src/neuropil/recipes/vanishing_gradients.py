"""Vanishing and exploding gradients, in a deep network and back through time, and their remedies.

    δ_l = (δ_{l+1} W_{l+1}) ⊙ σ'(z_l)          σ'(z) = σ(z) (1 − σ(z)) ≤ 0.25 for the logistic function

With orthogonal weights, a layer of logistic units leaves at most a quarter of a gradient, ten layers at most 0.25¹⁰.
The remedies are an activation with slope one, batch normalisation, and residual connections. Large weights make
gradients explode; clipping limits their norm. In time the same factor meets the gradient at each step: wⁿ for one unit.

The signal on its way forward is measured in the same networks: how much examples differ in each layer, and how many of
its units are saturated. With logistic units, large weights do both: where biases keep z near 0 the slope is a quarter
and a layer amplifies the gradient as soon as its weights are above 4; where biases are large too, units are saturated
and the gradient vanishes.

Each network is drawn, diagnosed, and trained for a short while in the same way, to show that it matters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.data.examples.dataset import Examples
from neuropil.data.examples.files import DataConfig
from neuropil.data.splits import Splits
from neuropil.inspection.gradients import (
    STEEP,
    GradientProfile,
    TimeProfile,
    diagnose,
    profile_gradients,
    profile_time,
)
from neuropil.inspection.pictures.gradients import gradient_flow, gradient_through_time
from neuropil.inspection.pictures.signal import large_weights, signal_flow
from neuropil.inspection.pictures.training import learning_curves
from neuropil.inspection.report.page import Picture, Section, Table, percent
from neuropil.inspection.signal import SignalProfile, diagnose_signal, profile_signal
from neuropil.models.mlp import MLP, gradients_by_hand
from neuropil.parts.objectives import Classification
from neuropil.progress import Display
from neuropil.protocols import Batch
from neuropil.randomness import seeded
from neuropil.tasks import study
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.history import Row

STEEPEST_LOGISTIC = 0.25
PROFILE_BATCH = 256
RECURRENT_UNITS = 32
SMALL_INPUTS = 1e-4
"""Scale of the RNN's input weights: states stay small, where tanh is nearly linear."""
OPEN = 5.0
"""Bias of the LSTM's forget gates: logistic(5) = 0.993 of the cell state is kept at each step."""
LARGE, CLIPPED = "ReLU, large weights", "the same, clipped"
FACTORS = (1, 2, 4, 8, 16, 32, 64)
"""On the weights of logistic units."""
HIGH = 4.0
"""A high bias, in units of the factor on the weights: beyond what the weights can take back."""

Biases: TypeAlias = Literal["centred", "zero", "high"]


class VanishingGradientsOptions(Config):
    data: DataConfig = DataConfig()
    depth: int = option(10, "hidden layers", low=2)
    width: int = option(64, "units of each hidden layer", low=1)
    stretch: float = option(2.0, "factor on the initial weights of the network whose gradients explode", low=0)
    clip: float = option(1.0, "gradient clipping: maximum norm, in the network that is clipped", low=0)
    epochs: int = option(10, "epochs of each network", low=1)
    learning_rate: float = option(0.02, "learning rate of SGD with momentum, the same for all", low=0)
    steps: int = option(60, "steps in time", low=2)


@dataclass(frozen=True)
class DeepNetwork:
    """`options` are those of MLPConfig; `stretch` multiplies the initial weights of its hidden layers."""

    options: Mapping[str, Any] = field(default_factory=dict)
    stretch: float = 1.0
    clip: float | None = None


@dataclass(frozen=True)
class DeepTrial:
    profile: GradientProfile
    signal: SignalProfile
    history: Sequence[Row]
    accuracy: float
    train_accuracy: float
    diverged: str | None

    @property
    def kept(self) -> float:
        """The gradient norm at the first layer relative to that at the last."""
        flow = self.profile.flow()
        return flow[0][1] / flow[-1][1]


def networks(options: VanishingGradientsOptions) -> dict[str, DeepNetwork]:
    return {
        "logistic": DeepNetwork({"activation": "logistic"}),
        "tanh": DeepNetwork({"activation": "tanh"}),
        "ReLU": DeepNetwork({"activation": "relu"}),
        "logistic, batch norm": DeepNetwork({"activation": "logistic", "batch_norm": True}),
        "logistic, residual": DeepNetwork({"activation": "logistic", "residual": True}),
        LARGE: DeepNetwork({"activation": "relu"}, stretch=options.stretch),
        CLIPPED: DeepNetwork({"activation": "relu"}, stretch=options.stretch, clip=options.clip),
    }


def build(options: VanishingGradientsOptions, seed: int) -> Study:
    splits = study.prepare_classes(options.data, seed)

    def compute(folder: Path, display: Display) -> Findings:
        def run(name: str, network: DeepNetwork) -> DeepTrial:
            return _train(name, network, options, splits, seed, folder)

        def figures(trial: DeepTrial) -> str:
            return f"{trial.kept:.3g} of the gradient kept, training accuracy {percent(trial.train_accuracy)}"

        trials = study.compare(networks(options), run, display, figures)
        results = [
            Result(name, {"accuracy": t.accuracy, "train_accuracy": t.train_accuracy, "gradient_kept": t.kept})
            for name, t in study.leading(trials, "logistic, batch norm", "logistic").items()
        ]
        sections = [_depth_section(options, trials), _diagnosis_section(trials)]
        sections += [_training_section(options, trials), _time_section(options, splits.train, seed)]
        sections += [_signal_section(options, trials), _large_weights_section(options, splits.train, seed)]
        sections.append(_by_hand_section(options, splits.train, seed))
        return Findings([*results, baselines(splits)[0]], sections)

    return Study("vanishing gradients", compute, {"source": splits.train.source})


def _train(
    name: str, network: DeepNetwork, options: VanishingGradientsOptions, splits: Splits, seed: int, folder: Path
) -> DeepTrial:
    """Profile the gradients and the signal before training, then train."""
    model = _new_network(network, options, splits.train, seed)
    learner = Classification(model)
    batch = next(study.shuffled(splits.train, PROFILE_BATCH, seed).epoch(0))
    model.train()
    profile, signal = (
        profile_gradients(model, lambda: learner.loss(batch)),
        profile_signal(model, lambda: model(batch["input"])),
    )
    config = study.constant_rate("momentum", options.learning_rate, epochs=options.epochs, clip=network.clip)
    batches, validation = study.shuffled(splits.train, config.batch_size, seed), study.in_order(splits.validation)
    train = partial(study.train_trial, folder, name, learner, batches, validation, config, seed=seed)
    history, diverged = study.until_divergence(train)
    test, own = (study.score(learner, part)["accuracy"] for part in (splits.test, splits.train))
    return DeepTrial(profile, signal, history, test, own, diverged)


def _new_network(network: DeepNetwork, options: VanishingGradientsOptions, train: Examples, seed: int) -> MLP:
    model = study.new_mlp(train, seed, hidden_sizes=(options.width,) * options.depth, dropout=0.0, **network.options)
    with torch.no_grad():
        for layer in model.hidden:
            layer.get_parameter("weight").mul_(network.stretch)
    return model


# --- depth -----------------------------------------------------------------------------------------------------------


def _depth_section(options: VanishingGradientsOptions, trials: Mapping[str, DeepTrial]) -> Section:
    logistic = trials["logistic"]
    norms = [norm for _, norm in logistic.profile.flow()]
    factor = (norms[-1] / norms[0]) ** (1 / (len(norms) - 1))
    shown = {name: trial for name, trial in trials.items() if name != CLIPPED}
    others = ", ".join(f"{trial.kept:.2g} with {name}" for name, trial in shown.items() if trial is not logistic)
    words = (
        f"Networks of {options.depth} hidden layers before any training, and the gradient norm at each layer for one "
        "batch, from the output on the right back to the input on the left. Logistic units leave one part in "
        f"{factor:.1f} of it per layer; the dotted bound is one in four. {logistic.kept:.0e} of it arrives at the "
        f"first layer; {others}."
    )
    figure = gradient_flow({name: trial.profile for name, trial in shown.items()}, bound=STEEPEST_LOGISTIC)
    picture = Picture.of(figure, "gradient norm of each layer of each network")
    return Section.of("The gradient at each layer", words, picture)


def _diagnosis_section(trials: Mapping[str, DeepTrial]) -> Section:
    words = "The same in words, as `neuropil inspect RUN --gradients` says it of any trained model."
    rows = [[name, " ".join(diagnose(trial.profile))] for name, trial in trials.items() if name != CLIPPED]
    return Section.of("The diagnosis", words, Table(["network", "diagnosis of its gradients"], rows))


def _training_section(options: VanishingGradientsOptions, trials: Mapping[str, DeepTrial]) -> Section:
    exploded = trials[LARGE].diverged
    fate = f"was stopped by the training loop: its loss was {exploded}" if exploded else "finished"
    words = (
        f"Each network trains for {options.epochs} epochs, with momentum at {options.learning_rate:g}. The logistic "
        f"one ends at a training accuracy of {percent(trials['logistic'].train_accuracy, 0)}.\n\nThe one with large "
        f"weights {fate}. With gradients clipped to a norm of {options.clip:g}, the same network ends at "
        f"{percent(trials[CLIPPED].train_accuracy, 0)}."
    )
    fates = {name: "diverged" if trial.diverged else "finished" for name, trial in trials.items()}
    rows = [
        [name, f"{trial.kept:.3g}", percent(trial.train_accuracy), percent(trial.accuracy), fates[name]]
        for name, trial in trials.items()
    ]
    curves = learning_curves({name: trial.history for name, trial in trials.items() if trial.history}, "accuracy")
    alt = "validation accuracy of each network against the epoch"
    table = Table(["network", "gradient kept", "train accuracy", "test accuracy", "training"], rows)
    return Section.illustrated("What it does to learning", words, curves, alt, table)


# --- by hand ---------------------------------------------------------------------------------------------------------


class LayerDifference(NamedTuple):
    """Of one layer: the norm of its δ, that of ∂W, and the largest difference of ∂W and ∂b from autograd's."""

    name: str
    shape: tuple[int, ...]
    delta: float
    norm: float
    difference: float


def compare_by_hand(model: MLP, batch: Batch) -> list[LayerDifference]:
    """Back-propagation in matrix form beside autograd, for the cross-entropy of a batch, in double precision."""
    model = model.double()
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear)}
    y = model(batch["input"])
    parameters = [parameter for layer in layers.values() for parameter in (layer.weight, layer.bias)]
    theirs = torch.autograd.grad(Classification(model).loss(batch), parameters)
    # ∂E/∂Y = (softmax(Y) − T) / N
    dy = (y.detach().softmax(-1) - F.one_hot(batch["target"], y.shape[1])) / len(y)
    found = []
    for number, (name, ours) in enumerate(zip(layers, gradients_by_hand(model, batch["input"], dy), strict=True)):
        pairs = zip((ours.W, ours.b), theirs[2 * number : 2 * number + 2], strict=True)
        largest = max(float((mine - other).abs().max()) for mine, other in pairs)
        found.append(
            LayerDifference(name, tuple(ours.W.shape), float(ours.delta.norm()), float(ours.W.norm()), largest)
        )
    return found


def _by_hand_section(options: VanishingGradientsOptions, train: Examples, seed: int) -> Section:
    model = _new_network(DeepNetwork({"activation": "logistic"}), options, train, seed)
    layers = compare_by_hand(model, next(study.shuffled(train, PROFILE_BATCH, seed).epoch(0)))
    words = (
        "Back-propagation in matrix form, δˡ = (δˡ⁺¹ Wˡ⁺¹) ⊙ σ'(Aˡ) and ∂Wˡ = δˡᵀ Hˡ⁻¹, is written out in "
        f"`models/mlp.py`. Here it is for the logistic network and one batch of at most {PROFILE_BATCH} examples, from "
        "δ = (softmax(Y) − T) / N at the output down to the first layer, whose ‖δ‖ is "
        f"{layers[0].delta / layers[-1].delta:.2g} of that. Autograd's gradients differ from these by at most "
        f"{max(layer.difference for layer in layers):.1e}, in double precision."
    )
    header = ["layer", "shape of W", "‖δ‖", "‖∂W‖", "largest difference from autograd"]
    rows = [
        [
            layer.name,
            " × ".join(map(str, layer.shape)),
            f"{layer.delta:.3g}",
            f"{layer.norm:.3g}",
            f"{layer.difference:.1e}",
        ]
        for layer in reversed(layers)
    ]
    return Section.of("Back-propagation by hand", words, Table(header, rows))


# --- the signal ------------------------------------------------------------------------------------------------------


def _signal_section(options: VanishingGradientsOptions, trials: Mapping[str, DeepTrial]) -> Section:
    shown = {name: trial.signal for name, trial in trials.items() if name != CLIPPED}
    ends = {name: [spread for _, spread in signal.flow()] for name, signal in shown.items()}
    left = ", ".join(f"{spreads[-1] / spreads[0]:.3g} of it with {name}" for name, spreads in ends.items())
    words = (
        "The other direction: the same untrained networks and the same batch, from the input on the left to the output "
        "on the right. Drawn is how much examples differ in each layer before its activation, and how many units are "
        "saturated. A logistic unit passes on at most a quarter of a difference, as of a gradient; a residual sum "
        "passes on the difference itself, and batch normalisation stretches what is left of it to a spread of one. A "
        "ReLU counts as saturated where it is 0, which is half of the time by design. "
        f"Relative to the first layer, the last has {left}."
    )
    rows = [[name, " ".join(diagnose_signal(signal))] for name, signal in shown.items()]
    picture = Picture.of(signal_flow(shown), "spread and saturation of each layer of each network")
    caption = "As `neuropil inspect RUN --signal` says it of any trained model."
    return Section.of(
        "The signal at each layer", words, picture, Table(["network", "diagnosis of its signal"], rows, caption)
    )


class LargeWeights(NamedTuple):
    """Of a network of logistic units: what is left of the gradient at the first layer, and the mean share of saturated
    units."""

    kept: float
    saturated: float


def _large_weights_section(options: VanishingGradientsOptions, train: Examples, seed: int) -> Section:
    batch = next(study.shuffled(train, PROFILE_BATCH, seed).epoch(0))
    kinds: dict[str, Biases] = {"biases that centre z": "centred", "no biases": "zero", "high biases": "high"}
    found = {
        name: {factor: _with_large_weights(options, train, batch, factor, biases, seed) for factor in FACTORS}
        for name, biases in kinds.items()
    }
    last = FACTORS[-1]
    centred, high = found["biases that centre z"], found["high biases"][last]
    grows = next((factor for factor, each in centred.items() if each.kept > 1), None)
    amplified = f"is amplified from a factor of {grows} on" if grows else "is not amplified at any of these factors"
    vanishes = " (vanishing by saturation)" if high.kept < 1 / STEEP else ""
    words = (
        f"The logistic network again, with its initial weights times 1 to {last}. Where biases are such that the mean "
        "of every z is 0, many units work where the slope is large, and with large weights the gradient "
        f"{amplified}: at {last} the first layer receives {centred[last].kept:.3g} times what the last does. With "
        f"biases of {HIGH:g} times the factor as well, {percent(high.saturated, 0)} of the units are saturated, and "
        f"{high.kept:.1g} of the gradient is left{vanishes}."
    )
    figure = large_weights(found)
    rows = [
        [
            f"{factor}",
            *(cell for by in found.values() for cell in (f"{by[factor].kept:.2g}", percent(by[factor].saturated, 0))),
        ]
        for factor in FACTORS
    ]
    header = ["factor", *(cell for name in found for cell in (f"gradient kept, {name}", "saturated"))]
    alt = "gradient kept and saturated units against the factor on the weights"
    return Section.illustrated("Logistic units with large weights", words, figure, alt, Table(header, rows))


def _with_large_weights(
    options: VanishingGradientsOptions, train: Examples, batch: Batch, factor: float, biases: Biases, seed: int
) -> LargeWeights:
    model = _new_network(DeepNetwork({"activation": "logistic"}, stretch=factor), options, train, seed)
    set_biases(model, biases, factor, batch["input"])
    profile = profile_gradients(model, lambda: Classification(model).loss(batch))
    signal = profile_signal(model, lambda: model(batch["input"]))
    flow = profile.flow()
    shares = [layer.saturated_share for layer in signal.layers if layer.saturated_share is not None]
    return LargeWeights(flow[0][1] / flow[-1][1], sum(shares) / len(shares))


@torch.no_grad()
def set_biases(model: MLP, biases: Biases, factor: float, inputs: Tensor) -> None:
    """Of the hidden layers: zero, high, or such that the mean of every z over these inputs is 0."""
    h = model.standardize(inputs).flatten(1)
    for layer in model.hidden:
        bias = layer.get_parameter("bias")
        bias.fill_(HIGH * factor if biases == "high" else 0.0)
        if biases == "centred":
            bias.copy_(-layer(h).mean(0))
        h = model.activation(layer(h))


# --- time ------------------------------------------------------------------------------------------------------------


def _time_section(options: VanishingGradientsOptions, train: Examples, seed: int) -> Section:
    inputs = in_time(train, options.steps)
    factors = (0.9, 1.0, 1.1)
    profiles = {f"one unit, w = {w:g}": TimeProfile([w**n for n in range(inputs.shape[1])]) for w in factors}
    networks = {f"RNN, w = {w:g}": profile_time(rotating_rnn(w, inputs.shape[2], seed), inputs) for w in factors}
    networks["LSTM, open gates"] = profile_time(open_lstm(inputs.shape[2], seed), inputs)
    words = (
        "One unit that multiplies its state by w at each step passes wⁿ of a gradient n steps back: 0.9⁵⁰ = "
        f"{0.9**50:.1g}, 1.1⁵⁰ = {1.1**50:.3g}. An RNN with {RECURRENT_UNITS} units, whose recurrent weights are w "
        f"times a rotation, reads {inputs.shape[1]} examples one after another. Of the gradient of its last state by "
        f"the first of them {_kept(networks)}, whose forget gates are open and carry the cell state on by addition."
    )
    rows = [[name, " ".join(diagnose(profile))] for name, profile in networks.items()]
    figure = Picture.of(gradient_through_time(profiles | networks), "gradient norm against steps back in time")
    return Section.of("Back through time", words, figure, Table(["network", "diagnosis of its gradient"], rows))


def _kept(networks: Mapping[str, TimeProfile]) -> str:
    """What arrives at the first step, relative to the last."""
    left = [f"{each.norms[-1] / each.norms[0]:.2g} is left by the {name}" for name, each in networks.items()]
    return ", ".join(left)


def in_time(train: Examples, steps: int) -> Float[Tensor, "batch time width"]:
    """Sequences of examples, as many of `steps` steps as there are; of fewer steps where there is not even one."""
    values = train.inputs.flatten(1).float()
    values = (values - values.mean()) / values.std()
    steps = min(steps, len(values))
    return rearrange(values[: len(values) // steps * steps], "(batch time) width -> batch time width", time=steps)


def rotating_rnn(w: float, inputs: int, seed: int) -> nn.RNN:
    """h_t = tanh(w Q h_{t−1} + U x_t) with a rotation Q, which keeps norms."""
    rnn = nn.RNN(inputs, RECURRENT_UNITS, bias=False, batch_first=True)
    random = seeded(seed, "recurrent weights")
    nn.init.orthogonal_(rnn.get_parameter("weight_hh_l0"), gain=w, generator=random)
    nn.init.orthogonal_(rnn.get_parameter("weight_ih_l0"), gain=SMALL_INPUTS, generator=random)
    return rnn


def open_lstm(inputs: int, seed: int) -> nn.LSTM:
    """Gates that do not depend on the state: the cell state is all that carries a gradient."""
    lstm = nn.LSTM(inputs, RECURRENT_UNITS, batch_first=True)
    random = seeded(seed, "recurrent weights")
    nn.init.orthogonal_(lstm.get_parameter("weight_ih_l0"), gain=SMALL_INPUTS, generator=random)
    for name in ("weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
        nn.init.zeros_(lstm.get_parameter(name))
    with torch.no_grad():  # PyTorch's order of gates: input, forget, cell, output
        lstm.get_parameter("bias_hh_l0")[RECURRENT_UNITS : 2 * RECURRENT_UNITS] = OPEN
    return lstm


RECIPE = Recipe(VanishingGradientsOptions(), build, about="inspection.gradients")
