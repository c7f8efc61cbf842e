"""Back-propagation through time: by hand, how far back it reaches in each cell, and gradient clipping.

    ∂L/∂h_{t−n} = (Π_k Wᵀ diag(1 − h_k²)) ∂L/∂h_t      one factor per step: like wⁿ it vanishes (w < 1) or explodes

All cells read the same text. An open gate carries the gradient on as it was; large recurrent weights make it explode,
and clipping limits its norm.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.data.corpus.files import TextDataConfig, prepare_text
from neuropil.data.corpus.streams import TextStreams
from neuropil.data.tokenizers.encoding import encode_text
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.inspection.gradients import TimeProfile, diagnose, profile_time
from neuropil.inspection.pictures.gradients import gradient_through_time
from neuropil.inspection.pictures.style import power_of_ten
from neuropil.inspection.pictures.training import learning_curves
from neuropil.inspection.report.page import Picture, Section, Table
from neuropil.models.recurrent import CELLS, CellName, RecurrentNetwork, RecurrentNetworkConfig
from neuropil.models.rnn import RNN, RNNConfig, gradients_by_hand
from neuropil.parts.objectives import NextToken
from neuropil.parts.parameters import count_parameters
from neuropil.parts.recurrence import WAYS, Cell, Way, choose
from neuropil.progress import Display
from neuropil.randomness import initialised, seeded
from neuropil.tasks import study
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row

BATCH, EMBEDDING, VALIDATIONS, TIMED_ROUNDS = 16, 64, 10, 5
FACTORS = (0.8, 1.0, 1.25)
SMALL_INPUTS = 1e-7
"""Scale of the input weights of the RNNs with a factor: their states stay small, where tanh is nearly linear."""
QUIET = 0.3
"""Scale of the weights of cells with open gates, which else would open and close with every character."""
OPEN = 5.0
"""Bias of an open gate: σ(5) = 0.993 of the state is kept at each step."""
TITLES: Mapping[CellName, str] = {"rnn": "RNN", "lstm": "LSTM", "gru": "GRU", "mingru": "minGRU"}
PLAIN, CLIPPED = "RNN with large weights", "the same, clipped"


class RecurrenceOptions(Config):
    data: TextDataConfig = TextDataConfig()
    hidden_size: int = option(64, "hidden size of each cell", low=1)
    steps: int = option(60, "steps in time", low=2)
    updates: int = option(200, "updates of each of the two networks that are trained", low=1)
    learning_rate: float = option(2.0, "learning rate of SGD, the same with and without clipping", low=0)
    stretch: float = option(2.5, "factor on the recurrent weights of the network whose gradients explode", low=0)
    clip: float = option(1.0, "gradient clipping: maximum norm, in the network that is clipped", low=0)


@dataclass(frozen=True)
class EmbeddedText:
    """The text as tokens, and a batch of it as embeddings with the tokens that follow."""

    train: Tensor
    test: Tensor
    vocabulary: int
    x: Float[Tensor, "batch time width"]
    following: Int64[Tensor, "batch time"]


@dataclass(frozen=True)
class ClippingTrial:
    history: Sequence[Row]
    loss: float
    first_norm: float
    """Of the gradient, before training."""
    diverged: str | None


Profiles: TypeAlias = Mapping[str, TimeProfile]
Trials: TypeAlias = Mapping[str, ClippingTrial]


def build(options: RecurrenceOptions, seed: int) -> Study:
    corpus = prepare_text(options.data)
    text = read(corpus.ending, corpus.test, options.steps, seed)

    def compute(folder: Path, display: Display) -> Findings:
        def train(name: str, clip: float | None) -> ClippingTrial:
            return train_stretched(name, clip, text, options, seed, folder)

        with study.alone():
            differences = compare_by_hand(text, options.hidden_size, seed)
            profiles = profile_cells(text, options, seed)
            clips = {PLAIN: None, CLIPPED: options.clip}
            trials = study.compare(clips, train, display, lambda trial: f"loss {trial.loss:.3f}")
            sections = [by_hand_section(differences, options), distance_section(profiles, options)]
            sections += [clipping_section(trials, options), parameter_section(options), execution_section(options)]
        return Findings(results(differences, profiles, trials), sections)

    return Study("recurrence", compute, {"source": corpus.source, "notes": list(corpus.notes)})


def read(train: str, test: str, steps: int, seed: int) -> EmbeddedText:
    tokenizer = Tokenizer.train([train], "characters")
    tokens = encode_text(tokenizer, train)
    batch = next(TextStreams(tokens, BATCH, steps, seed=seed).epoch(0))
    embedding = torch.randn(len(tokenizer), EMBEDDING, generator=seeded(seed, "vectors of characters"))
    test_tokens = encode_text(tokenizer, test)
    return EmbeddedText(tokens, test_tokens, len(tokenizer), embedding[batch["input"]], batch["target"])


def results(differences: Sequence["Difference"], profiles: Profiles, trials: Trials) -> list[Result]:
    """An open gate, an RNN whose gradient vanishes, then all others."""
    ordered = study.leading(profiles, "LSTM, open gates", f"RNN, w = {FACTORS[0]:g}")
    found = [Result(name, {"gradient_kept": kept(profile)}) for name, profile in ordered.items()]
    found += [Result(name, {"loss": trial.loss}) for name, trial in trials.items()]
    largest = max(row.difference for row in differences)
    return [*found, Result("by hand, against autograd", {"largest_difference": largest})]


def kept(profile: TimeProfile) -> float:
    return profile.norms[-1] / profile.norms[0]


# --- by hand ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    name: str
    shape: tuple[int, ...]
    norm: float
    difference: float


def compare_by_hand(text: EmbeddedText, units: int, seed: int) -> list[Difference]:
    """The gradients of V, W, U, b and c as sums over time, and by autograd, for the loss of predicting the text."""
    cell = initialised(lambda: RNN(RNNConfig(input_size=EMBEDDING, hidden_size=units)), seed).double()
    output = initialised(lambda: nn.Linear(units, text.vocabulary), seed).double()
    x = text.x.double()
    loss = F.cross_entropy(output(cell(x).outputs).flatten(0, 1), text.following.flatten())
    named = {"V": output.weight, "W": cell.state_weight, "U": cell.input_weight, "b": cell.bias, "c": output.bias}
    found = torch.autograd.grad(loss, list(named.values()))
    mean = torch.full(text.following.shape, 1 / text.following.numel(), dtype=x.dtype)  # α of a mean over all steps
    by_hand = gradients_by_hand(cell, output, x, text.following, weights=mean)
    differences = []
    for name, theirs in zip(named, found, strict=True):
        largest = float((getattr(by_hand, name) - theirs).abs().max())
        differences.append(Difference(name, tuple(theirs.shape), float(theirs.norm()), largest))
    return differences


def by_hand_section(differences: Sequence[Difference], options: RecurrenceOptions) -> Section:
    words = (
        f"h_t = tanh(W h_(t−1) + U x_t + b) and o_t = V h_t + c read {BATCH} sequences of {options.steps} characters. "
        "The loss is the cross-entropy of the next one, whose gradient at o_t is ŷ_t − y_t, with ŷ = softmax(o). From "
        "there on, the gradient of each matrix is a sum over all steps, written out by hand in `models/rnn.py`; here "
        "it stands beside that of autograd, in double precision."
    )
    rows = [[row.name, " × ".join(map(str, row.shape)), row.norm, f"{row.difference:.1e}"] for row in differences]
    header = ["gradient of", "shape", "norm", "largest difference from autograd"]
    return Section.of("By hand", words, Table(header, rows))


# --- by distance ------------------------------------------------------------------------------------------------------


def profile_cells(text: EmbeddedText, options: RecurrenceOptions, seed: int) -> dict[str, TimeProfile]:
    """The gradient of the last state by each step before it."""
    size = options.hidden_size
    networks: dict[str, Cell] = {f"RNN, w = {w:g}": rotating(w, size, seed) for w in FACTORS}
    networks |= {f"{TITLES[name]}, open gates": opened(name, size, seed) for name in ("lstm", "gru", "mingru")}
    networks |= {f"{TITLES[name]}, default initialisation": new_cell(name, size, seed) for name in TITLES}
    return {name: profile_time(network, text.x) for name, network in networks.items()}


def new_cell(name: CellName, units: int, seed: int) -> Cell:
    return initialised(lambda: CELLS[name](EMBEDDING, units), seed)


@torch.no_grad()
def rotating(w: float, units: int, seed: int) -> Cell:
    """An RNN whose recurrent weights are w times a rotation, which keeps norms."""
    cell = new_cell("rnn", units, seed)
    cell.get_parameter("state_weight").mul_(w)
    nn.init.orthogonal_(cell.get_parameter("input_weight"), gain=SMALL_INPUTS, generator=seeded(seed, "what enters"))
    return cell


@torch.no_grad()
def opened(name: CellName, units: int, seed: int) -> Cell:
    """A cell that keeps nearly all of its state: its gate has a bias of 5, or −5 where it lets the new state in."""
    cell = new_cell(name, units, seed)
    for weight in cell.parameters():
        weight.mul_(QUIET)
    bias = cell.get_parameter("bias")
    gate = slice(0, units) if name == "mingru" else slice(units, 2 * units)
    bias[gate] = -OPEN if name == "mingru" else OPEN
    return cell


def distance_section(profiles: Profiles, options: RecurrenceOptions) -> Section:
    n = options.steps - 1
    exponent = str(n).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    powers = ", ".join(f"{w:g}{exponent} = {power_of_ten(float(f'{w**n:.1g}'))}" for w in (FACTORS[0], FACTORS[-1]))
    words = (
        f"The gradient of the last state by the input of each step, {n} steps back. RNNs whose recurrent weights are w "
        f"times a rotation would multiply it by w at each step, if their units were linear: {powers}. Cells with open "
        "gates keep 0.993 of their state at each step; with their default initialisation the gates of all cells are "
        f"half open. Most is left by the {max(profiles, key=lambda name: kept(profiles[name]))}, least by the "
        f"{min(profiles, key=lambda name: kept(profiles[name]))}."
    )
    shown = {name: profile for name, profile in profiles.items() if "default" not in name}
    figure = Picture.of(gradient_through_time(shown), "gradient norm of each cell by distance in time")
    rows = [[name, f"{kept(profile):.2g}", " ".join(diagnose(profile))] for name, profile in profiles.items()]
    return Section.of("By distance in time", words, figure, Table(["cell", f"left after {n} steps", "diagnosis"], rows))


# --- clipping ---------------------------------------------------------------------------------------------------------


def train_stretched(
    name: str, clip: float | None, text: EmbeddedText, options: RecurrenceOptions, seed: int, folder: Path
) -> ClippingTrial:
    """An RNN with large recurrent weights, on the text, by SGD."""
    config = RecurrentNetworkConfig(cell="rnn", hidden_size=options.hidden_size, embedding_size=EMBEDDING)
    config = replace(config, vocabulary_size=text.vocabulary, output_size=text.vocabulary, shape="aligned")
    model = initialised(lambda: RecurrentNetwork(config), seed)
    with torch.no_grad():
        model.get_parameter("reader.forwards.0.state_weight").mul_(options.stretch)
    learner = NextToken(model)
    updates = max(1, options.updates // VALIDATIONS)
    train = TextStreams(text.train[: updates * BATCH * options.steps], BATCH, options.steps, seed=seed)
    test = TextStreams(text.test, BATCH, options.steps)
    norm = gradient_norm(model, next(train.epoch(0)))
    training = study.constant_rate("sgd", options.learning_rate, epochs=VALIDATIONS, batch_size=BATCH, clip=clip)
    fit = partial(study.train_trial, folder, name, learner, train, test, training, seed=seed)
    history, diverged = study.until_divergence(fit)
    return ClippingTrial(history, evaluate(NextToken(model), test)["loss"], norm, diverged)


def gradient_norm(model: RecurrentNetwork, batch: Mapping[str, Tensor]) -> float:
    loss = NextToken(model).loss(batch)
    return float(torch.stack([part.norm() for part in torch.autograd.grad(loss, list(model.parameters()))]).norm())


def clipping_section(trials: Trials, options: RecurrenceOptions) -> Section:
    plain, clipped = trials[PLAIN], trials[CLIPPED]
    stopped = f"was stopped, as its loss was {plain.diverged}, with" if plain.diverged else "ends at"
    words = (
        f"The recurrent weights of this RNN are {options.stretch:g} times a rotation. Its first gradient has a norm of "
        f"{plain.first_norm:,.3g}. With a learning rate of {options.learning_rate:g} it {stopped} a test loss of "
        f"{plain.loss:.2f}; with gradients clipped to a norm of {options.clip:g}, {clipped.loss:.2f}."
    )
    histories = {name: trial.history for name, trial in trials.items() if trial.history}
    rows = [[name, t.first_norm, t.loss, "diverged" if t.diverged else "finished"] for name, t in trials.items()]
    figure = Picture.of(learning_curves(histories, "loss"), "loss with and without clipping against the epoch")
    table = Table(["network", "first gradient norm", "test loss", "training"], rows)
    return Section.of("Clipping", words, figure, table)


# --- sizes and speed --------------------------------------------------------------------------------------------------


def parameter_section(options: RecurrenceOptions) -> Section:
    cells = {title: CELLS[name](EMBEDDING, options.hidden_size) for name, title in TITLES.items()}
    formulas = {title: cell.parameter_table()[0] for title, cell in cells.items()}
    rows = [[title, str(row), row.count, count_parameters(cells[title])] for title, row in formulas.items()]
    words = "The parameters of a cell with n units and m inputs, by formula and counted, whatever the sequence length."
    return Section.of("Parameters", words, Table(["cell", "formula", "by formula", "in the cell"], rows))


def execution_section(options: RecurrenceOptions) -> Section:
    """Measured on the spot: these numbers differ from run to run."""
    x = torch.randn(BATCH, options.steps, EMBEDDING, generator=seeded(0, "timed"))
    rows = []
    for name, title in TITLES.items():
        cell = new_cell(name, options.hidden_size, 0)
        chosen = choose(cell, options.steps, x.device)
        seconds = {way: seconds_of(cell, x, way) / options.steps for way in WAYS if can_run(cell, way)}
        times = [f"{1e6 * seconds[way]:,.0f}" if way in seconds else "–" for way in WAYS]
        rows.append([title, *times, chosen.way, chosen.reason])
    words = (
        "The same steps can be run as a loop, by PyTorch's fused kernel, or, where a state is linear in the one before "
        f"it, as a parallel scan. Microseconds per step, forward and backward, of {BATCH} sequences of {options.steps} "
        "steps on one thread of this machine:"
    )
    return Section.of("How it is run", words, Table(["cell", *WAYS, "chosen", "because"], rows))


def can_run(cell: Cell, way: Way) -> bool:
    return {"loop": True, "fused": cell.kernel() is not None, "scan": type(cell).linear is not Cell.linear}[way]


def seconds_of(cell: Cell, x: Float[Tensor, "batch time width"], way: Way) -> float:
    """The fastest of some rounds: what else the machine does can only add to it."""
    times: list[float] = []
    for _ in range(TIMED_ROUNDS):
        begun = time.perf_counter()
        torch.autograd.grad(cell(x, way=way).outputs.sum(), list(cell.parameters()))
        times.append(time.perf_counter() - begun)
    return min(times)


RECIPE = Recipe(RecurrenceOptions(), build, about="parts.recurrence")
