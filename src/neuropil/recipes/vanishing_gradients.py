"""Gradients that fade or grow on their way through a deep network and back through time, and what keeps them alive.

    δ_l = (δ_{l+1} W_{l+1}) ⊙ σ'(z_l)          σ'(z) = σ(z) (1 − σ(z)) ≤ 0.25 for the logistic function

With weights that neither shrink nor stretch, a layer of logistic units leaves at most a quarter of a gradient, ten layers at most 0.25¹⁰.
The remedies are an activation with slope one, batch normalisation, and residual layers. Weights that stretch make gradients explode;
clipping shortens them to a length that a step can bear. In time the same factor meets the gradient at each step: wⁿ for one unit.

Each network is drawn, diagnosed in words, and trained for a short while in the same way, to show that it matters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from neuropil.config import Config, option
from neuropil.data.examples.dataset import Examples, Splits
from neuropil.data.examples.files import DataConfig
from neuropil.errors import DivergedError
from neuropil.inspection import pictures
from neuropil.inspection.gradients import GradientProfile, TimeProfile, diagnose, profile_gradients, profile_time
from neuropil.inspection.report.page import Picture, Section, Table, Text
from neuropil.models.mlp import MLP
from neuropil.parts.objectives import Classification
from neuropil.randomness import seeded
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.recipe import Recipe, Result
from neuropil.tasks.study import Findings, Study
from neuropil.tasks.trial import in_order, new_mlp, prepare_classes, score, shuffled, train_trial
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig
from neuropil.training.progress import Display

STEEPEST_LOGISTIC = 0.25
PROFILE_BATCH = 256
RECURRENT_UNITS = 32
SMALL_INPUTS = 1e-4
"""Scale of the RNN's input weights: states stay small, where tanh is nearly a straight line."""
OPEN = 5.0
"""Bias of the LSTM's forget gates: logistic(5) = 0.993 of the memory is kept at each step."""


class VanishingGradientsOptions(Config):
    data: DataConfig = DataConfig()
    depth: int = option(10, "hidden layers", low=2)
    width: int = option(64, "units of each hidden layer", low=1)
    stretch: float = option(2.0, "factor on the first weights of the network whose gradients explode", low=0)
    clip: float = option(1.0, "longest gradient of the network that is clipped", low=0)
    epochs: int = option(10, "passes over the training data of each network", low=1)
    learning_rate: float = option(0.02, "learning rate of SGD with momentum, the same for all", low=0)
    steps: int = option(60, "steps in time", low=2)


@dataclass(frozen=True)
class Network:
    """`options` are those of MLPConfig; `stretch` multiplies the first weights of its hidden layers."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    stretch: float = 1.0
    clip: float | None = None


@dataclass(frozen=True)
class Outcome:
    profile: GradientProfile
    history: Sequence[Row]
    accuracy: float
    train_accuracy: float
    stopped: str | None
    """Why training ended early, in the words of the training loop."""

    @property
    def kept(self) -> float:
        """The gradient at the first layer as a share of that at the last."""
        flow = self.profile.flow()
        return flow[0][1] / flow[-1][1]


def networks(options: VanishingGradientsOptions) -> list[Network]:
    return [
        Network("logistic", {"activation": "logistic"}),
        Network("tanh", {"activation": "tanh"}),
        Network("ReLU", {"activation": "relu"}),
        Network("logistic, batch norm", {"activation": "logistic", "batch_norm": True}),
        Network("logistic, residual", {"activation": "logistic", "residual": True}),
        Network("ReLU, large weights", {"activation": "relu"}, stretch=options.stretch),
        Network("the same, clipped", {"activation": "relu"}, stretch=options.stretch, clip=options.clip),
    ]


def build(options: VanishingGradientsOptions, seed: int) -> Study:
    splits = prepare_classes(options.data, seed)

    def compute(folder: Path, display: Display) -> Findings:
        plan, outcomes = networks(options), {}
        for index, network in enumerate(plan):
            outcomes[network.name] = outcome = _observe(network, options, splits, seed, folder)
            accuracy = f"training accuracy {100 * outcome.train_accuracy:.1f} %"
            display.update(
                (index + 1) / len(plan), f"{network.name}: {outcome.kept:.3g} of the gradient kept, {accuracy}"
            )
        sections = [
            _depth_section(options, outcomes),
            _words_section(outcomes),
            _training_section(options, outcomes),
            _time_section(options, splits.train, seed),
        ]
        return Findings([*_results(outcomes), baselines(splits)[0]], sections)

    return Study("vanishing gradients", compute, {"source": splits.train.source})


def _observe(network: Network, options: VanishingGradientsOptions, splits: Splits, seed: int, folder: Path) -> Outcome:
    """Look at the gradients before training, then train."""
    model = _new_network(network, options, splits.train, seed)
    learner = Classification(model)
    batch = next(shuffled(splits.train, PROFILE_BATCH, seed).epoch(0))
    model.train()
    profile = profile_gradients(model, lambda: learner.loss(batch))
    config = TrainingConfig(
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        optimizer="momentum",
        weight_decay=0.0,
        schedule="constant",
        warmup=0.0,
        clip=network.clip,
        keep="last",
    )
    batches, validation = shuffled(splits.train, config.batch_size, seed), in_order(splits.validation)
    history: Sequence[Row] = []
    stopped = None
    try:
        history = train_trial(folder, network.name, learner, batches, validation, config, seed=seed)
    except DivergedError as error:
        stopped = error.got
    return Outcome(
        profile, history, score(learner, splits.test)["accuracy"], score(learner, splits.train)["accuracy"], stopped
    )


def _new_network(network: Network, options: VanishingGradientsOptions, train: Examples, seed: int) -> MLP:
    model = new_mlp(train, seed, hidden_sizes=(options.width,) * options.depth, dropout=0.0, **network.options)
    with torch.no_grad():
        for layer in model.hidden:
            layer.get_parameter("weight").mul_(network.stretch)
    return model


def _results(outcomes: Mapping[str, Outcome]) -> list[Result]:
    """A remedy, the patient, then all others."""
    order = ["logistic, batch norm", "logistic"]
    return [
        Result(
            name,
            {"accuracy": outcome.accuracy, "train_accuracy": outcome.train_accuracy, "gradient_kept": outcome.kept},
        )
        for name, outcome in sorted(
            outcomes.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)
        )
    ]


# --- depth -------------------------------------------------------------------------------------------------------------------


def _depth_section(options: VanishingGradientsOptions, outcomes: Mapping[str, Outcome]) -> Section:
    patient = outcomes["logistic"]
    norms = [norm for _, norm in patient.profile.flow()]
    factor = (norms[-1] / norms[0]) ** (1 / (len(norms) - 1))
    words = (
        f"Networks of {options.depth} hidden layers before any training, and the gradient that reaches each layer from one batch. It "
        f"comes in at the right and travels left. Logistic units leave one part in {factor:.1f} of it per layer, just below the dotted "
        f"bound of one in four: {patient.kept:.0e} of it arrives at the first layer. An activation with slope one, batch normalisation "
        "and residual layers each hold it level. First weights that are too large send it the other way, up."
    )
    shown = {name: outcome.profile for name, outcome in outcomes.items() if name != "the same, clipped"}
    figure = pictures.gradient_flow(shown, bound=STEEPEST_LOGISTIC)
    return Section(
        "The gradient at each layer",
        [Text(words), Picture.of(figure, alt="gradient norm of each layer of each network")],
    )


def _words_section(outcomes: Mapping[str, Outcome]) -> Section:
    words = "The same in words, as `neuropil inspect RUN --gradients` says it of any trained model."
    rows = [
        [name, " ".join(diagnose(outcome.profile))] for name, outcome in outcomes.items() if name != "the same, clipped"
    ]
    return Section("The diagnosis", [Text(words), Table(["network", "what its gradients say"], rows)])


def _training_section(options: VanishingGradientsOptions, outcomes: Mapping[str, Outcome]) -> Section:
    exploded = outcomes["ReLU, large weights"]
    fate = f"was stopped by the training loop: its loss was {exploded.stopped}" if exploded.stopped else "went on"
    words = (
        f"Each network makes {options.epochs} passes over the training data, with momentum at {options.learning_rate:g}. The first "
        f"layers of the logistic one do not move, and it ends at {100 * outcomes['logistic'].train_accuracy:.0f} % of its own training "
        f"examples.\n\nThe one with large weights {fate}. Clipped to a length of {options.clip:g}, the same gradients train the same "
        f"network to {100 * outcomes['the same, clipped'].train_accuracy:.0f} %."
    )
    rows = [
        [
            name,
            f"{outcome.kept:.3g}",
            f"{100 * outcome.train_accuracy:.1f} %",
            f"{100 * outcome.accuracy:.1f} %",
            "diverged" if outcome.stopped else "finished",
        ]
        for name, outcome in outcomes.items()
    ]
    histories = {name: outcome.history for name, outcome in outcomes.items() if outcome.history}
    return Section(
        "What it does to learning",
        [
            Text(words),
            Picture.of(
                pictures.learning_curves(histories, "accuracy"),
                alt="validation accuracy of each network against the epoch",
            ),
            Table(["network", "gradient kept", "train accuracy", "test accuracy", "training"], rows),
        ],
    )


# --- time --------------------------------------------------------------------------------------------------------------------


def _time_section(options: VanishingGradientsOptions, train: Examples, seed: int) -> Section:
    inputs = in_time(train, options.steps)
    factors = (0.9, 1.0, 1.1)
    profiles = {f"one unit, w = {w:g}": TimeProfile([w**n for n in range(inputs.shape[1])]) for w in factors}
    networks = {f"RNN, w = {w:g}": profile_time(rotating_rnn(w, inputs.shape[2], seed), inputs) for w in factors}
    networks["LSTM, open gates"] = profile_time(open_lstm(inputs.shape[2], seed), inputs)
    words = (
        "One unit that multiplies its state by w at each step passes wⁿ of a gradient n steps back: "
        f"0.9⁵⁰ = {0.9**50:.1g}, 1.1⁵⁰ = {1.1**50:.3g}. An RNN with {RECURRENT_UNITS} units, whose recurrent weights are w times a "
        f"rotation, reads {inputs.shape[1]} examples one after another and does the same to the gradient of its last state by each of "
        "them. An LSTM whose forget gates stand open carries its memory on by addition, and its gradient with it."
    )
    rows = [[name, " ".join(diagnose(profile))] for name, profile in networks.items()]
    figure = Picture.of(
        pictures.gradient_through_time(profiles | networks), alt="gradient norm against steps back in time"
    )
    return Section("Back through time", [Text(words), figure, Table(["network", "what its gradient says"], rows)])


def in_time(train: Examples, steps: int) -> Float[Tensor, "batch time width"]:
    """Sequences of examples, as many of `steps` steps as there are; of fewer steps where there is not even one."""
    values = train.inputs.flatten(1).float()
    values = (values - values.mean()) / values.std()
    steps = min(steps, len(values))
    return rearrange(values[: len(values) // steps * steps], "(batch time) width -> batch time width", time=steps)


def rotating_rnn(w: float, inputs: int, seed: int) -> nn.RNN:
    """h_t = tanh(w Q h_{t−1} + U x_t) with a rotation Q, which changes no length."""
    rnn = nn.RNN(inputs, RECURRENT_UNITS, bias=False, batch_first=True)
    random = seeded(seed, "recurrent weights")
    nn.init.orthogonal_(rnn.get_parameter("weight_hh_l0"), gain=w, generator=random)
    nn.init.orthogonal_(rnn.get_parameter("weight_ih_l0"), gain=SMALL_INPUTS, generator=random)
    return rnn


def open_lstm(inputs: int, seed: int) -> nn.LSTM:
    """Gates that know nothing of the state: the memory is all that carries a gradient."""
    lstm = nn.LSTM(inputs, RECURRENT_UNITS, batch_first=True)
    nn.init.orthogonal_(
        lstm.get_parameter("weight_ih_l0"), gain=SMALL_INPUTS, generator=seeded(seed, "recurrent weights")
    )
    nn.init.zeros_(lstm.get_parameter("weight_hh_l0"))
    nn.init.zeros_(lstm.get_parameter("bias_ih_l0"))
    bias = nn.init.zeros_(lstm.get_parameter("bias_hh_l0"))
    with torch.no_grad():
        bias[RECURRENT_UNITS : 2 * RECURRENT_UNITS] = OPEN  # PyTorch's order of gates: input, forget, cell, output
    return lstm


RECIPE = Recipe(VanishingGradientsOptions(), build)
