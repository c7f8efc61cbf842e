"""A recurrence and its gradients: back-propagation through time by hand, how far back it reaches in each cell, and what clipping cures.

    ∂L/∂h_{t−n} = (Π_k Wᵀ diag(1 − h_k²)) ∂L/∂h_t          one factor for each step: like wⁿ it fades for w < 1 and explodes for w > 1

All cells read the same text. A gate that stays open carries the gradient on as it was; a matrix that stretches makes it explode, and
clipping shortens it to a length that a step can bear.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.data.corpus.dataset import TextDataConfig, prepare_text
from neuropil.data.corpus.streams import TextStreams
from neuropil.data.tokenizers.encoding import encode_text
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.errors import DivergedError
from neuropil.inspection import pictures
from neuropil.inspection.gradients import TimeProfile, diagnose, profile_time
from neuropil.inspection.pictures.style import power_of_ten
from neuropil.inspection.report.page import Picture, Section, Table, Text
from neuropil.models.recurrent import CELLS, CellName, RecurrentNetwork, RecurrentNetworkConfig
from neuropil.models.rnn import RNN, RNNConfig, gradients_by_hand
from neuropil.parts.next_token import NextToken
from neuropil.parts.parameters import count_parameters
from neuropil.parts.recurrence import WAYS, Cell, Way, choose
from neuropil.randomness import initialised, seeded
from neuropil.tasks.recipe import Recipe, Result
from neuropil.tasks.study import Findings, Study
from neuropil.tasks.trial import alone, train_trial
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig
from neuropil.training.progress import Display

BATCH, EMBEDDING, VALIDATIONS, TIMED_ROUNDS = 16, 64, 10, 5
FACTORS = (0.8, 1.0, 1.25)
SMALL_INPUTS = 1e-7
"""Scale of what enters the RNNs with a factor: their states stay small, where tanh is nearly a straight line."""
QUIET = 0.3
"""Scale of the weights of cells with open gates, which else would open and close with every character."""
OPEN = 5.0
"""What the sum of a gate begins with: σ(5) = 0.993 of the state is kept at each step."""
TITLES: Mapping[CellName, str] = {"rnn": "RNN", "lstm": "LSTM", "gru": "GRU", "mingru": "minGRU"}
PLAIN, CLIPPED = "RNN that stretches", "the same, clipped"


class RecurrenceOptions(Config):
    data: TextDataConfig = TextDataConfig()
    hidden_size: int = option(64, "units of each cell", low=1)
    steps: int = option(60, "steps in time", low=2)
    updates: int = option(200, "updates of each of the two networks that are trained", low=1)
    learning_rate: float = option(
        2.0, "learning rate of plain gradient descent, the same with and without clipping", low=0
    )
    stretch: float = option(2.5, "factor on the recurrent weights of the network whose gradients explode", low=0)
    clip: float = option(1.0, "longest gradient of the network that is clipped", low=0)


@dataclass(frozen=True)
class Reading:
    """The text as tokens, and some of it as vectors that a cell can read."""

    train: Tensor
    test: Tensor
    vocabulary: int
    x: Float[Tensor, "batch time width"]
    following: Int64[Tensor, "batch time"]


@dataclass(frozen=True)
class Outcome:
    history: Sequence[Row]
    loss: float
    first_norm: float
    """Of the gradient, before training."""
    stopped: str | None
    """Why training ended early, in the words of the training loop."""


def build(options: RecurrenceOptions, seed: int) -> Study:
    corpus = prepare_text(options.data)
    reading = read(corpus.train, corpus.test, options.steps, seed)

    def compute(folder: Path, display: Display) -> Findings:
        with alone():
            differences = compare_by_hand(reading, options.hidden_size, seed)
            display.update(0.1, f"by hand and by autograd: {max(row.difference for row in differences):.0e} apart")
            profiles = profile_cells(reading, options, seed)
            display.update(0.3, "gradients by distance in time")
            outcomes: dict[str, Outcome] = {}
            for name, clip in ((PLAIN, None), (CLIPPED, options.clip)):
                outcomes[name] = train_stretched(name, clip, reading, options, seed, folder)
                display.update(0.6 if clip is None else 0.9, f"{name}: loss {outcomes[name].loss:.3f}")
            sections = [
                by_hand_section(differences, options),
                distance_section(profiles, options),
                clipping_section(outcomes, options),
                parameter_section(options),
                ways_section(options),
            ]
        return Findings(results(differences, profiles, outcomes), sections)

    return Study("recurrence", compute, {"source": corpus.source, "notes": list(corpus.notes)})


def read(train: str, test: str, steps: int, seed: int) -> Reading:
    tokenizer = Tokenizer.train([train], "characters")
    tokens = encode_text(tokenizer, train)
    batch = next(TextStreams(tokens, BATCH, steps, seed=seed).epoch(0))
    embedding = torch.randn(len(tokenizer), EMBEDDING, generator=seeded(seed, "vectors of characters"))
    return Reading(tokens, encode_text(tokenizer, test), len(tokenizer), embedding[batch["input"]], batch["target"])


def results(
    differences: Sequence["Difference"], profiles: Mapping[str, TimeProfile], outcomes: Mapping[str, Outcome]
) -> list[Result]:
    """An open gate, the network that forgets, then all others."""
    order = [f"{TITLES['lstm']}, open gates", f"RNN, w = {FACTORS[0]:g}"]
    kept = {name: profile.norms[-1] / profile.norms[0] for name, profile in profiles.items()}
    found = [
        Result(name, {"gradient_kept": kept[name]}) for name in (*order, *(name for name in kept if name not in order))
    ]
    found += [Result(name, {"loss": outcome.loss}) for name, outcome in outcomes.items()]
    return [
        *found,
        Result("by hand, against autograd", {"largest_difference": max(row.difference for row in differences)}),
    ]


# --- by hand ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    name: str
    shape: tuple[int, ...]
    norm: float
    difference: float


def compare_by_hand(reading: Reading, units: int, seed: int) -> list[Difference]:
    """The gradients of V, W, U, b and c as sums over time, and those that autograd finds, for the loss of predicting the text."""
    cell = initialised(lambda: RNN(RNNConfig(input_size=EMBEDDING, hidden_size=units)), seed).double()
    output = initialised(lambda: nn.Linear(units, reading.vocabulary), seed).double()
    x = reading.x.double()
    o = output(cell(x).outputs)
    loss = F.cross_entropy(o.flatten(0, 1), reading.following.flatten())
    named = {"V": output.weight, "W": cell.state_weight, "U": cell.input_weight, "b": cell.bias, "c": output.bias}
    (do, *found) = torch.autograd.grad(loss, [o, *named.values()])
    by_hand = gradients_by_hand(cell, output.weight.detach(), x, do)
    return [
        Difference(
            name, tuple(theirs.shape), float(theirs.norm()), float((getattr(by_hand, name) - theirs).abs().max())
        )
        for name, theirs in zip(named, found, strict=True)
    ]


def by_hand_section(differences: Sequence[Difference], options: RecurrenceOptions) -> Section:
    words = (
        f"h_t = tanh(W h_(t−1) + U x_t + b) and o_t = V h_t + c read {BATCH} pieces of {options.steps} characters. The loss is that of "
        "predicting each next one. The gradient of each matrix is a sum over all steps, written out by hand in `models/rnn.py`, "
        "and here it stands beside what autograd finds, in double precision."
    )
    rows = [[row.name, " × ".join(map(str, row.shape)), row.norm, f"{row.difference:.1e}"] for row in differences]
    return Section(
        "By hand", [Text(words), Table(["gradient of", "shape", "length", "largest difference from autograd"], rows)]
    )


# --- by distance -----------------------------------------------------------------------------------------------------------------


def profile_cells(reading: Reading, options: RecurrenceOptions, seed: int) -> dict[str, TimeProfile]:
    """What the last state still feels of each step before it."""
    networks: dict[str, Cell] = {f"RNN, w = {w:g}": rotating(w, options.hidden_size, seed) for w in FACTORS}
    networks |= {
        f"{TITLES[name]}, open gates": opened(name, options.hidden_size, seed) for name in ("lstm", "gru", "mingru")
    }
    networks |= {f"{TITLES[name]}, as it begins": new_cell(name, options.hidden_size, seed) for name in TITLES}
    return {name: profile_time(network, reading.x) for name, network in networks.items()}


def new_cell(name: CellName, units: int, seed: int) -> Cell:
    return initialised(lambda: CELLS[name](EMBEDDING, units), seed)


@torch.no_grad()
def rotating(w: float, units: int, seed: int) -> Cell:
    """An RNN whose recurrent weights are w times a rotation, which changes no length."""
    cell = new_cell("rnn", units, seed)
    cell.get_parameter("state_weight").mul_(w)
    nn.init.orthogonal_(cell.get_parameter("input_weight"), gain=SMALL_INPUTS, generator=seeded(seed, "what enters"))
    return cell


@torch.no_grad()
def opened(name: CellName, units: int, seed: int) -> Cell:
    """A cell that keeps nearly all of its state: the sum of the gate that decides on this begins at 5, or −5 where open means new."""
    cell = new_cell(name, units, seed)
    for weight in cell.parameters():
        weight.mul_(QUIET)
    bias = cell.get_parameter("bias")
    gate = slice(0, units) if name == "mingru" else slice(units, 2 * units)
    bias[gate] = -OPEN if name == "mingru" else OPEN
    return cell


def superscript(n: int) -> str:
    return str(n).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def rounded(value: float) -> str:
    return power_of_ten(float(f"{value:.1g}"))


def distance_section(profiles: Mapping[str, TimeProfile], options: RecurrenceOptions) -> Section:
    n = options.steps - 1
    low, _, high = FACTORS
    words = (
        f"The gradient of the last state by the input of each step, {n} steps back. RNNs whose recurrent weights are w times a rotation "
        f"multiply it by w at each step: {low:g}{superscript(n)} = {rounded(low**n)}, {high:g}{superscript(n)} = "
        f"{rounded(high**n)}. Cells whose gates begin open keep 0.993 "
        "of their state at each step, and the gradient with it. As they usually begin, the gates of all cells are half open, and forget; "
        "what to keep, they have to learn."
    )
    shown = {name: profile for name, profile in profiles.items() if "begins" not in name}
    figure = Picture.of(pictures.gradient_through_time(shown), alt="gradient norm of each cell by distance in time")
    rows = [
        [name, f"{profile.norms[-1] / profile.norms[0]:.2g}", " ".join(diagnose(profile))]
        for name, profile in profiles.items()
    ]
    return Section(
        "By distance in time", [Text(words), figure, Table(["cell", f"left after {n} steps", "in words"], rows)]
    )


# --- clipping --------------------------------------------------------------------------------------------------------------------


def train_stretched(
    name: str, clip: float | None, reading: Reading, options: RecurrenceOptions, seed: int, folder: Path
) -> Outcome:
    """An RNN whose weights stretch, on the text, by plain gradient descent."""
    config = RecurrentNetworkConfig(
        cell="rnn",
        hidden_size=options.hidden_size,
        embedding_size=EMBEDDING,
        vocabulary_size=reading.vocabulary,
        output_size=reading.vocabulary,
        shape="aligned",
    )
    model = initialised(lambda: RecurrentNetwork(config), seed)
    with torch.no_grad():
        model.get_parameter("reader.forwards.0.state_weight").mul_(options.stretch)
    learner = NextToken(model)
    updates = max(1, options.updates // VALIDATIONS)
    train = TextStreams(reading.train[: updates * BATCH * options.steps], BATCH, options.steps, seed=seed)
    test = TextStreams(reading.test, BATCH, options.steps)
    norm = gradient_norm(model, next(train.epoch(0)))
    training = TrainingConfig(
        epochs=VALIDATIONS,
        batch_size=BATCH,
        optimizer="sgd",
        learning_rate=options.learning_rate,
        weight_decay=0.0,
        schedule="constant",
        warmup=0.0,
        clip=clip,
        keep="last",
    )
    history: Sequence[Row] = []
    stopped = None
    try:
        history = train_trial(folder, name, learner, train, test, training, seed=seed)
    except DivergedError as error:
        stopped = error.got
    return Outcome(history, evaluate(NextToken(model), test)["loss"], norm, stopped)


def gradient_norm(model: RecurrentNetwork, batch: Mapping[str, Tensor]) -> float:
    loss = NextToken(model).loss(batch)
    return float(torch.stack([part.norm() for part in torch.autograd.grad(loss, list(model.parameters()))]).norm())


def clipping_section(outcomes: Mapping[str, Outcome], options: RecurrenceOptions) -> Section:
    plain, clipped = outcomes[PLAIN], outcomes[CLIPPED]
    fate = (
        f"was stopped by the training loop: its loss was {plain.stopped}"
        if plain.stopped
        else f"ends at a loss of {plain.loss:.2f}"
    )
    words = (
        f"The recurrent weights of this RNN are {options.stretch:g} times a rotation. Its first gradient has a length of "
        f"{plain.first_norm:,.3g}. With steps of {options.learning_rate:g} times the gradient it {fate} on the test part. Where each "
        f"gradient is shortened to at most {options.clip:g}, the same steps bring it to {clipped.loss:.2f}."
    )
    histories = {name: outcome.history for name, outcome in outcomes.items() if outcome.history}
    rows = [
        [name, outcome.first_norm, outcome.loss, "diverged" if outcome.stopped else "finished"]
        for name, outcome in outcomes.items()
    ]
    figure = Picture.of(
        pictures.learning_curves(histories, "loss"), alt="loss with and without clipping against the pass over the text"
    )
    return Section(
        "Clipping", [Text(words), figure, Table(["network", "first gradient", "test loss", "training"], rows)]
    )


# --- sizes and ways --------------------------------------------------------------------------------------------------------------


def parameter_section(options: RecurrenceOptions) -> Section:
    cells = {title: CELLS[name](EMBEDDING, options.hidden_size) for name, title in TITLES.items()}
    rows = [
        [title, str(cell.parameter_table()[0]), cell.parameter_table()[0].count, count_parameters(cell)]
        for title, cell in cells.items()
    ]
    words = "What a cell learns does not depend on how long the sequences are: n units and m inputs, by formula and in the cell itself."
    return Section("Parameters", [Text(words), Table(["cell", "formula", "by formula", "in the cell"], rows)])


def ways_section(options: RecurrenceOptions) -> Section:
    """Measured on the spot: these numbers differ from run to run."""
    x = torch.randn(BATCH, options.steps, EMBEDDING, generator=seeded(0, "timed"))
    rows = []
    for name, title in TITLES.items():
        cell = new_cell(name, options.hidden_size, 0)
        chosen = choose(cell, options.steps, x.device)
        seconds = {
            way: f"{1e6 * seconds_of(cell, x, way) / options.steps:,.0f}" if can_run(cell, way) else "–" for way in WAYS
        }
        rows.append([title, *seconds.values(), chosen.way, chosen.reason])
    words = (
        "The same steps can be run one after the other, by PyTorch's own kernel, or, where a state is linear in the one before it, as a "
        f"scan. Microseconds per step, forward and backward, of {BATCH} sequences of {options.steps} steps on one thread of this machine:"
    )
    return Section("How it is run", [Text(words), Table(["cell", *WAYS, "chosen", "because"], rows)])


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


RECIPE = Recipe(RecurrenceOptions(), build)
