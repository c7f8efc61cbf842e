"""Automatic differentiation: the graph of an expression, the chain rule run backwards over it, and networks trained
with it.

    f = x · tanh(w x + b)          x.grad = Σ over the ops that use x of s · ∂op/∂x

First one small expression with its values and gradients, each gradient beside the difference quotient (f(x + h) − f(x −
h)) / 2h; then the same graph after each step of `backward`. Then two graphs of real networks: an attention head whose
boxes open and close, and a recurrent network of thousands of nodes, which its boxes keep legible. Last, four networks
that learn the digits by this engine alone, on NumPy, without PyTorch.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from neuropil.autodiff import Var, graph, networks, ops
from neuropil.autodiff.modules import Module
from neuropil.config import Config, option
from neuropil.data.examples.dataset import Examples
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.data.splits import Splits
from neuropil.inspection.pictures.training import learning_curves
from neuropil.inspection.report.page import Html, Section, Table, percent
from neuropil.progress import Display
from neuropil.tasks import study
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.history import Row

NETWORKS: dict[str, Callable[..., Module]] = {
    "mlp": networks.ImageMLP,
    "cnn": networks.ImageCNN,
    "rnn": networks.RowRNN,
    "attention head": networks.RowAttention,
}
SMALL_STEP = 1e-6
DRAWN_EXAMPLES = 4


class AutodiffOptions(Config):
    epochs: int = option(30, "epochs of each network", low=1)
    learning_rate: float = option(6e-3, "learning rate of Adam, the same for all", low=0)
    batch_size: int = option(32, "examples in a batch", low=1)
    pixels: int = option(320, "sequence length of the RNN that is drawn; each pixel adds 12 nodes", low=1, high=5000)
    x: float = option(1.5, "x of the expression x · tanh(w x + b) that is drawn")
    w: float = option(-0.8, "w of that expression")
    b: float = option(0.5, "b of that expression")


@dataclass(frozen=True)
class GraphTrial:
    network: Module
    history: Sequence[Row]
    accuracy: float


def build(options: AutodiffOptions, seed: int) -> Study:
    splits = prepare(DataConfig(), seed)

    def compute(folder: Path, display: Display) -> Findings:
        def train(name: str, kind: Callable[..., Module]) -> GraphTrial:
            network, history = _new_network(kind, splits.train, seed), []
            for row in _train(network, options, splits, seed):
                history.append(row)
                if display.due():
                    share = (list(NETWORKS).index(name) + row["epoch"] / options.epochs) / len(NETWORKS)
                    display.update(share, f"{name}: epoch {row['epoch']}, val accuracy {percent(row['accuracy'])}")
            return GraphTrial(network, history, networks.accuracy(network, *_arrays(splits.test)))

        with study.alone():
            trials = study.compare(NETWORKS, train, display, lambda trial: f"test accuracy {percent(trial.accuracy)}")
        first, *others = [Result(name, {"accuracy": trial.accuracy}) for name, trial in trials.items()]
        linear, frequent = baselines(splits)
        sections = [*_expression_sections(options), _network_section(splits.train, seed)]
        sections += [_large_section(splits.train, options.pixels, seed, folder), _training_section(options, trials)]
        return Findings([first, linear, *others, frequent], sections)

    return Study("autodiff", compute, {"source": splits.train.source})


def _train(network: Module, options: AutodiffOptions, splits: Splits, seed: int) -> Iterator[Row]:
    """One row for each epoch."""
    images, labels = _arrays(splits.train)
    size, rate = options.batch_size, options.learning_rate
    losses = networks.train(network, images, labels, epochs=options.epochs, batch_size=size, rate=rate, seed=seed)
    for epoch, loss in enumerate(losses, start=1):
        accuracy = networks.accuracy(network, *_arrays(splits.validation))
        yield {"kind": "validation", "epoch": epoch, "train_loss": loss, "accuracy": accuracy}


def _new_network(kind: Callable[..., Module], train: Examples, seed: int) -> Module:
    _, height, width = train.schema.shape
    return kind(height, width, len(train.schema.classes), np.random.default_rng(seed))


def _arrays(examples: Examples) -> tuple[Float[np.ndarray, "example height width"], Int[np.ndarray, " example"]]:
    return examples.inputs[:, 0].double().numpy() / 255, examples.targets.numpy()


# --- one small expression ---------------------------------------------------------------------------------------------


def _expression_sections(options: AutodiffOptions) -> list[Section]:
    x, w, b = Var(options.x, name="x"), Var(options.w, name="w"), Var(options.b, name="b")
    f = x * ops.tanh(w * x + b)
    whole = graph(f)
    frames = [
        _drawing(whole.draw(step=step, layout="layered", interactive=False), f"step {number}: {step.op.name}")
        for number, step in enumerate(f.backward(steps=True), start=1)
    ]
    words = (
        "`f = x * tanh(w * x + b)` as the engine records it: each card is a value, with the derivative of f by it in "
        "red; dark are the ops that made them. x is used twice, so two gradients meet there and are added."
    )
    stepping = (
        "`backward` visits the ops from f to the leaves, each only after everything that uses its output. Red is what "
        "the step has just changed; pale cards still wait. The gradient of x is complete only when both of its uses "
        "are done."
    )
    quotients = _quotients(options, {"x": x, "w": w, "b": b})
    first = Section.of("One expression", words, _row(_drawing(whole.draw(layout="layered"))), quotients)
    return [first, Section.of("Backward, step by step", stepping, _row(*frames))]


def _quotients(options: AutodiffOptions, leaves: Mapping[str, Var]) -> Table:
    """The gradients beside what a small change of each value does."""

    def value(**changed: float) -> float:
        at = {"x": options.x, "w": options.w, "b": options.b} | changed
        return at["x"] * np.tanh(at["w"] * at["x"] + at["b"])

    rows = []
    for name, var in leaves.items():
        here = float(var.val)
        # (f(x + h) − f(x − h)) / 2h
        quotient = (value(**{name: here + SMALL_STEP}) - value(**{name: here - SMALL_STEP})) / (2 * SMALL_STEP)
        gradient = float(var.grad)
        rows.append([f"∂f/∂{name}", f"{gradient:.8f}", f"{quotient:.8f}", f"{abs(gradient - quotient):.0e}"])
    return Table(["", "by backward", "by a difference quotient", "difference"], rows)


# --- networks ---------------------------------------------------------------------------------------------------------


def _network_section(train: Examples, seed: int) -> Section:
    images, labels = (values[:DRAWN_EXAMPLES] for values in _arrays(train))
    loss = ops.cross_entropy(_new_network(networks.RowAttention, train, seed)(images), labels)
    loss.backward()
    whole = graph(loss)
    words = (
        f"The loss of an attention head on {DRAWN_EXAMPLES} digits, before training: {len(whole)} nodes. Every module "
        "is a box; click its name to open or close it. Arrays are drawn as small pictures of their values and "
        "gradients, with mean and spread."
    )
    return Section.of("A network", words, _row(_drawing(whole.draw(layout="layered", collapse=1))))


def _large_section(train: Examples, length: int, seed: int, folder: Path) -> Section:
    """Digits one after another, pixel by pixel, through a recurrent network."""
    images, labels = _arrays(train)
    sequences = images.reshape(-1)[: DRAWN_EXAMPLES * length].reshape(DRAWN_EXAMPLES, length, 1)
    network = networks.RowRNN(length, 1, len(train.schema.classes), np.random.default_rng(seed))
    loss = ops.cross_entropy(network(sequences), labels[:DRAWN_EXAMPLES])
    loss.backward()
    whole = graph(loss)
    whole.draw(folder / "graph.svg", layout="layered")
    words = (
        f"A recurrent network that reads {length} pixels one at a time has a graph of {len(whole):,} nodes. Boxes keep "
        f"it legible: {whole.num_visible(whole.opened())} are seen at first. In `graph.svg`, beside this report, they "
        "open down to the last op."
    )
    drawing = _row(_drawing(whole.draw(layout="layered", interactive=False)))
    counts = Table(["op", "times"], Counter(op.name for op in whole.ops).most_common())
    return Section.of(f"{len(whole):,} nodes", words, drawing, counts)


def _training_section(options: AutodiffOptions, trials: Mapping[str, GraphTrial]) -> Section:
    words = f"Four networks, {options.epochs} epochs over the digits with Adam at {options.learning_rate:g}. Every "
    words += "gradient is computed by this engine and every number by NumPy."
    rows = []
    for name, trial in trials.items():
        count = sum(var.val.size for var in trial.network.parameters().values())
        rows.append([name, count, trial.history[-1]["train_loss"], percent(trial.accuracy, 2)])
    curves = learning_curves({name: trial.history for name, trial in trials.items()}, "accuracy")
    alt = "validation accuracy of the four networks against the epoch"
    table = Table(["network", "parameters", "last training loss", "test accuracy"], rows)
    return Section.illustrated("What it can train", words, curves, alt, table)


# --- drawings in the page ---------------------------------------------------------------------------------------------


def _drawing(svg: str, caption: str = "") -> str:
    """One drawing with a line under it. It shrinks a little to fit the page, and scrolls where that is not enough."""
    svg = svg.replace("<svg ", '<svg style="max-width: max(100%, 44rem); height: auto" ', 1)
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure style="margin: 0; overflow-x: auto; max-width: 100%">{svg}{below}</figure>'


def _row(*drawings: str) -> Html:
    style = "display: flex; flex-wrap: wrap; gap: 1.2rem; justify-content: center"
    return Html(f'<div style="{style}">{"".join(drawings)}</div>')


RECIPE = Recipe(AutodiffOptions(), build, about="autodiff.engine")
