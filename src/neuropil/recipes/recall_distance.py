"""Recall at growing distance: for how many steps each recurrent cell, and attention, keeps what it will be asked for.

    delayed recall    a symbol, d − 1 others that mean nothing, and the question which was the first
    copy              four symbols, then nothing; from d steps after the first on, all of them again, in order
    adding problem    d numbers between 0 and 1, two of them marked, one in each half; in the end their sum

The first two are scored by accuracy, and guessing gets 1/8 of the symbols right. In the adding problem (Hochreiter and
Schmidhuber 1997) whoever knows nothing says 1, and has the squared error

    E[(u + v − 1)²] = Var u + Var v = 2/12 = 1/6          R² = 1 − 6 E[(y − u − v)²]

All networks have as many parameters. Each learns the shortest distance first, then the next one from there, and so on
until it fails: its score is below the threshold after as many updates as the others have. It does so with several
learning rates, and the one that comes furthest on validation sequences is kept. Sequences are made anew for every
update.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.inspection.pictures.memories import recall_over_distance
from neuropil.inspection.report.page import Section, Table, percent
from neuropil.models.recurrent import CellName, RecurrentNetwork, RecurrentNetworkConfig
from neuropil.parts.blocks import TransformerBlock
from neuropil.parts.losses import categorical_cross_entropy, squared_error
from neuropil.parts.objectives import Objective
from neuropil.parts.parameters import count_parameters
from neuropil.parts.positions import Positions
from neuropil.progress import Display
from neuropil.protocols import Batch
from neuropil.randomness import initialised, seeded
from neuropil.tasks import study
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.config import TrainingConfig
from neuropil.training.evaluation import evaluate

SYMBOLS, COPIED = 8, 4
STORE, ASK = SYMBOLS, SYMBOLS + 1
"""The channels beside those of the symbols: one marks what to keep, the other the question."""
CHANNELS = SYMBOLS + 2
GUESSED_SUM, VARIANCE_OF_SUM = 1.0, 1 / 6
FIRST = 6
"""Times as many updates at the shortest distance, where a network has to find out what is asked of it."""
EVALUATED, EVALUATION_BATCH = 512, 128
LARGEST = 4096
"""Of the sizes that are tried."""


class RecallDistanceOptions(Config):
    distances: tuple[int, ...] = option((8, 16, 32, 64, 128), "distances in steps, from short to long", low=COPIED)
    parameters: int = option(8_000, "parameters of each network, about", low=200)
    updates: int = option(150, f"updates at each distance; {FIRST} times as many at the shortest", low=1)
    batch_size: int = option(32, "sequences in a batch", low=1)
    learning_rates: tuple[float, ...] = option(
        (1e-2, 3e-2),
        "peak learning rates of Adam, of which the one that comes furthest on validation sequences is kept",
        above=0,
    )
    threshold: float = option(0.9, "accuracy or R² from which on a distance counts as solved", above=0, high=1)

    def validate(self) -> None:
        if not self.distances or list(self.distances) != sorted(set(self.distances)):
            rule = "distances must be given from short to long"
            raise InputError(rule, got=" ".join(map(str, self.distances)) or "none")
        if not self.learning_rates:
            raise InputError("learning_rates must name at least one", got="none")


# --- what is asked ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DistanceTask:
    """`make` gives the inputs and targets of so many sequences of a distance; what is asked comes last in each, in so
    many `answers`."""

    title: str
    make: Callable[[int, int, torch.Generator], tuple[Tensor, Tensor]]
    inputs: int
    outputs: int
    answers: int
    metric: Literal["accuracy", "squared_error"]

    @property
    def score_name(self) -> str:
        return "accuracy" if self.metric == "accuracy" else "R²"

    @property
    def chance(self) -> float:
        """The score of whoever knows nothing."""
        return 1 / SYMBOLS if self.metric == "accuracy" else 0.0

    def score(self, measured: float) -> float:
        """Accuracy, or R² = 1 − 6 E[(y − u − v)²]."""
        return measured if self.metric == "accuracy" else 1 - measured / VARIANCE_OF_SUM


def delayed_recall(
    distance: int, rows: int, random: torch.Generator
) -> tuple[Float[Tensor, "row time channel"], Int64[Tensor, "row 1"]]:
    symbols = torch.randint(SYMBOLS, (rows, distance + 1), generator=random)
    x = F.pad(F.one_hot(symbols, SYMBOLS).float(), (0, CHANNELS - SYMBOLS))
    x[:, -1] = 0
    x[:, 0, STORE] = x[:, -1, ASK] = 1
    return x, symbols[:, :1]


def copy(
    distance: int, rows: int, random: torch.Generator
) -> tuple[Float[Tensor, "row time channel"], Int64[Tensor, "row answer"]]:
    symbols = torch.randint(SYMBOLS, (rows, COPIED), generator=random)
    x = torch.zeros(rows, distance + COPIED, CHANNELS)
    x[:, :COPIED, :SYMBOLS] = F.one_hot(symbols, SYMBOLS).float()
    x[:, :COPIED, STORE] = x[:, distance, ASK] = 1
    return x, symbols


def adding(
    distance: int, rows: int, random: torch.Generator
) -> tuple[Float[Tensor, "row time 2"], Float[Tensor, "row 1 1"]]:
    numbers, half = torch.rand(rows, distance, generator=random), distance // 2
    first = torch.randint(half, (rows, 1), generator=random)
    second = torch.randint(half, distance, (rows, 1), generator=random)
    marked = torch.cat([first, second], 1)
    marks = torch.zeros(rows, distance).scatter(1, marked, 1.0)
    return torch.stack([numbers, marks], -1), numbers.gather(1, marked).sum(1).view(rows, 1, 1)


TASKS = (
    DistanceTask("delayed recall", delayed_recall, CHANNELS, SYMBOLS, 1, "accuracy"),
    DistanceTask("copy", copy, CHANNELS, SYMBOLS, COPIED, "accuracy"),
    DistanceTask("adding problem", adding, 2, 1, 1, "squared_error"),
)


@dataclass(frozen=True)
class MadeSequences:
    """New ones in every batch, by the seed, the part and the number of the batch."""

    task: DistanceTask
    distance: int
    batches: int
    batch_size: int
    key: tuple[int, str]

    def __len__(self) -> int:
        return self.batches

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        for batch in range(start, self.batches):
            random = seeded(*self.key, self.task.title, self.distance, number, batch)
            x, target = self.task.make(self.distance, self.batch_size, random)
            yield {"input": x, "target": target}


class AnswersAtTheEnd(Objective[nn.Module]):
    """The loss and the score of the last outputs, those that are asked for."""

    phase = "recall"

    def __init__(self, model: nn.Module, task: DistanceTask):
        self.model, self.task = model, task

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        return self._losses(self._answers(batch), batch["target"]).mean()

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        answers, target = self._answers(batch), batch["target"]
        if self.task.metric == "accuracy":
            measured = (answers.argmax(-1) == target).float().mean(1)
        else:
            measured = (answers - target).square().mean((1, 2))
        return {"loss": self._losses(answers, target).mean(1), self.task.metric: measured}

    def _answers(self, batch: Batch) -> Float[Tensor, "batch answer output"]:
        return self.model(batch["input"])[:, -self.task.answers :]

    def _losses(self, answers: Tensor, target: Tensor) -> Float[Tensor, "batch answer"]:
        loss = categorical_cross_entropy if self.task.metric == "accuracy" else squared_error
        return loss(answers, target)


# --- who is asked -----------------------------------------------------------------------------------------------------


class CausalAttention(nn.Module):
    """Z = X W + b with the sinusoidal positions, one block of causal attention, and Y = N(Z) V + c."""

    def __init__(self, inputs: int, outputs: int, width: int):
        super().__init__()
        self.enter = nn.Linear(inputs, width)
        self.positions = Positions("sinusoidal", width, context=512)
        self.block = TransformerBlock(width, 1, 2 * width, activation="gelu")
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, outputs)

    def forward(self, x: Float[Tensor, "batch time input"]) -> Float[Tensor, "batch time output"]:
        return self.output(self.norm(self.block(self.positions(self.enter(x)), causal=True)))


BuildNetwork = Callable[[int, int, int], nn.Module]
"""From the sizes of an input, of an output, and of the network: hidden units, or the width of attention."""


def recurrent(cell: CellName, inputs: int, outputs: int, size: int) -> RecurrentNetwork:
    """minGRU stands in two residual blocks: its gates do not see the state, so that one layer alone cannot count."""
    layers = {"layers": 2, "residual": True} if cell == "mingru" else {}
    sizes = {"hidden_size": size, "input_size": inputs, "output_size": outputs}
    return RecurrentNetwork(RecurrentNetworkConfig(cell=cell, shape="aligned", **sizes, **layers))


RNN = "RNN"
NETWORKS: dict[str, BuildNetwork] = {
    RNN: partial(recurrent, "rnn"),
    "LSTM": partial(recurrent, "lstm"),
    "GRU": partial(recurrent, "gru"),
    "minGRU": partial(recurrent, "mingru"),
    "attention": CausalAttention,
}


def size_for(build: BuildNetwork, task: DistanceTask, parameters: int) -> int:
    """The size whose number of parameters is nearest."""

    def count(size: int) -> int:
        return count_parameters(initialised(lambda: build(task.inputs, task.outputs, size), 0))

    low, high = 1, 2
    while count(high) < parameters and high < LARGEST:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) < parameters else (low, middle)
    return min((low, high), key=lambda size: abs(count(size) - parameters))


# --- how far each comes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DistanceTrial:
    size: int
    parameters: int
    learning_rate: float
    scores: Mapping[int, float]
    """Of test sequences at each distance that it was trained at; it failed at the last one, or solved all."""

    def solved(self, threshold: float) -> int:
        """The longest distance that was solved, 0 if none."""
        return max((distance for distance, score in self.scores.items() if score >= threshold), default=0)

    def fails_at(self, threshold: float) -> int | None:
        return next((distance for distance, score in self.scores.items() if not score >= threshold), None)


Trials = Mapping[str, DistanceTrial]


def build(options: RecallDistanceOptions, seed: int) -> Study:
    def compute(folder: Path, display: Display) -> Findings:
        total, done = len(TASKS) * len(NETWORKS), 0
        trials: dict[str, dict[str, DistanceTrial]] = {}
        for task in TASKS:
            trials[task.title] = {}
            for name in NETWORKS:

                def say(share: float, words: str, before: int = done) -> None:
                    display.update((before + share) / total, words)

                trials[task.title][name] = train(name, task, options, seed, folder, say)
                done += 1
        sections = [task_section(task, trials[task.title], options) for task in TASKS]
        return Findings(results(trials, options, seed), [summary_section(trials, options), *sections])

    return Study("recall distance", compute, {"source": "sequences that are made"})


def train(
    name: str,
    task: DistanceTask,
    options: RecallDistanceOptions,
    seed: int,
    folder: Path,
    say: Callable[[float, str], None],
) -> DistanceTrial:
    """From distance to distance, until one is not solved, with each learning rate: the one that comes furthest on
    validation sequences, or has the lowest loss as far, is kept."""
    size = size_for(NETWORKS[name], task, options.parameters)
    stages, done = len(options.learning_rates) * len(options.distances), 0

    def climb(rate: float) -> tuple[tuple[int, float], DistanceTrial]:
        nonlocal done
        model = initialised(lambda: NETWORKS[name](task.inputs, task.outputs, size), seed)
        scores, solved, loss = dict[int, float](), 0, float("inf")
        for distance in options.distances:
            updates = options.updates if scores else FIRST * options.updates
            diverged = learn(model, name, task, distance, rate, updates, options, seed, folder)
            known = measure_at(model, task, "validation", distance, seed)
            solved += task.score(known[task.metric]) >= options.threshold
            loss = float("inf") if diverged or known["loss"] != known["loss"] else known["loss"]
            scores[distance] = task.score(measure_at(model, task, "test", distance, seed)[task.metric])
            done += 1
            say(done / stages, f"{task.title}, {name}: distance {distance}, loss {loss:.3g}")
            if not scores[distance] >= options.threshold:
                break
        return (solved, -loss), DistanceTrial(size, count_parameters(model), rate, scores)

    return max(map(climb, options.learning_rates), key=lambda climbed: climbed[0])[1]


def learn(
    model: nn.Module,
    name: str,
    task: DistanceTask,
    distance: int,
    rate: float,
    updates: int,
    options: RecallDistanceOptions,
    seed: int,
    folder: Path,
) -> str | None:
    """Train at one distance; why it diverged, if it did."""
    batches = MadeSequences(task, distance, updates, options.batch_size, (seed, "train"))
    config = TrainingConfig(epochs=1, learning_rate=rate, optimizer="adam", weight_decay=0.0, clip=1.0, keep="last")
    title = f"{task.title}, {name}, {distance}, {rate:g}"
    learner = AnswersAtTheEnd(model, task)
    return study.until_divergence(partial(study.train_trial, folder, title, learner, batches, None, config, seed=seed))[
        1
    ]


def measure_at(model: nn.Module, task: DistanceTask, part: str, distance: int, seed: int) -> dict[str, float]:
    batches = MadeSequences(task, distance, EVALUATED // EVALUATION_BATCH, EVALUATION_BATCH, (seed, part))
    with study.alone():
        return evaluate(AnswersAtTheEnd(model, task), batches)


# --- the report -------------------------------------------------------------------------------------------------------


class KnowsNothing(nn.Module):
    """The same answer always: the first symbol, or 1."""

    def __init__(self, outputs: int):
        super().__init__()
        self.outputs = outputs

    def forward(self, x: Float[Tensor, "batch time input"]) -> Float[Tensor, "batch time output"]:
        return torch.eye(self.outputs)[0].expand(*x.shape[:2], -1) * GUESSED_SUM


def results(trials: Mapping[str, Trials], options: RecallDistanceOptions, seed: int) -> list[Result]:
    """How far each comes; then what whoever knows nothing scores, which does not depend on the distance."""
    found = []
    for title, of_task in trials.items():
        best = max(of_task, key=lambda name: of_task[name].solved(options.threshold))
        ordered = study.leading(of_task, *dict.fromkeys((best, RNN)))
        for name, trial in ordered.items():
            found.append(Result(f"{name}, {title}", {"recall_distance": trial.solved(options.threshold)}))
    for task in TASKS:
        measured = measure_at(KnowsNothing(task.outputs), task, "test", options.distances[-1], seed)
        found.append(Result(f"knowing nothing, {task.title}", {task.metric: measured[task.metric]}))
    return found


def summary_section(trials: Mapping[str, Trials], options: RecallDistanceOptions) -> Section:
    counts = {name: [of_task[name].parameters for of_task in trials.values()] for name in NETWORKS}
    every = [count for of_network in counts.values() for count in of_network]
    words = (
        f"Each network has about {options.parameters:,} parameters ({min(every):,} to {max(every):,}, solved for its "
        f"size). It learns the distance {options.distances[0]} for {FIRST * options.updates:,} updates, then each "
        f"longer one for {options.updates:,} from there on, with new sequences of {options.batch_size} in each, until "
        f"its score on {EVALUATED} test sequences is below {options.threshold:g}. The table has the distance at which "
        f"that was. Of {len(options.learning_rates)} learning rates, the one that came furthest on as many validation "
        "sequences was kept."
    )
    rows = []
    for name in NETWORKS:
        fates = [fate(of_task[name], options) for of_task in trials.values()]
        sizes = ", ".join(dict.fromkeys(str(of_task[name].size) for of_task in trials.values()))
        rows.append([name, sizes, ", ".join(f"{count:,}" for count in dict.fromkeys(counts[name])), *fates])
    header = ["network", "units", "parameters", *(f"fails at, {title}" for title in trials)]
    return Section.of("Where each fails", words, Table(header, rows))


def fate(trial: DistanceTrial, options: RecallDistanceOptions) -> str:
    failed = trial.fails_at(options.threshold)
    return f"not up to {options.distances[-1]}" if failed is None else f"{failed}"


ASKED = {
    "delayed recall": f"One of {SYMBOLS} symbols, then others that mean nothing; the first is asked for in the end.",
    "copy": f"{COPIED} of {SYMBOLS} symbols, then nothing; all of them are asked for in the end, in their order.",
    "adding problem": "Numbers between 0 and 1, two of them marked, one in each half; their sum is asked for.",
}


def task_section(task: DistanceTask, trials: Trials, options: RecallDistanceOptions) -> Section:
    reached = {name: trial.solved(options.threshold) for name, trial in trials.items()}
    furthest = max(reached.values())
    first = [name for name, distance in reached.items() if distance == furthest]
    if furthest:
        words = f"{ASKED[task.title]} {', '.join(first)} {'come' if len(first) > 1 else 'comes'} furthest, to a "
        words += f"distance of {furthest}"
    else:
        words = f"{ASKED[task.title]} No network solves the shortest distance"
    others = [f"{name} to {distance}" if distance else f"{name} nowhere" for name, distance in reached.items()]
    words += f" ({', '.join(others)}). Whoever knows nothing has " + (
        f"an accuracy of {percent(task.chance)}"
        if task.metric == "accuracy"
        else f"a mean squared error of 1/6 = {VARIANCE_OF_SUM:.3f}, an R² of 0"
    )
    words += f"; a distance is solved from {options.threshold:g} on. Lines end where a network failed."
    curves = {name: list(trial.scores.items()) for name, trial in trials.items()}
    figure = recall_over_distance(curves, chance=task.chance, threshold=options.threshold, score=task.score_name)
    rows = [
        [
            name,
            f"{trial.learning_rate:g}",
            *(f"{trial.scores[d]:.3f}" if d in trial.scores else "–" for d in options.distances),
        ]
        for name, trial in trials.items()
    ]
    table = Table(["network", "learning rate", *(f"{distance}" for distance in options.distances)], rows)
    alt = f"{task.score_name} in the task {task.title} against the distance"
    return Section.illustrated(task.title.capitalize(), words, figure, alt, table)


RECIPE = Recipe(RecallDistanceOptions(), build, about="recipes.recall_distance")
