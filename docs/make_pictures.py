"""`make pictures`: draw every picture of the docs and the README's with the library itself, on real data. The same
bytes each time.

python docs/make_pictures.py              all of them
python docs/make_pictures.py cnn house    these
"""

import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from einops import rearrange
from torch import Tensor
from torch.nn import Parameter

from neuropil import recipes
from neuropil.autodiff import Var, graph, ops
from neuropil.data.examples.embedded import load_digits
from neuropil.files import write_text
from neuropil.inspection.gradients import GradientProfile, profile_gradients
from neuropil.inspection.pictures.images import image_grid
from neuropil.inspection.pictures.robustness import accuracy_over_beta
from neuropil.inspection.pictures.style import INK, MUTED, PALETTE, house_style, line, make_logarithmic, new_figure
from neuropil.inspection.report.page import Picture
from neuropil.inspection.report.svg import figure_svg
from neuropil.models import MLP, MLPConfig, UniversalApproximator, UniversalApproximatorConfig
from neuropil.parts.expression import Expression
from neuropil.parts.objectives import Classification
from neuropil.randomness import initialised
from neuropil.tasks.classification.experiment import ClassificationExperiment
from neuropil.tasks.generation.experiment import GenerationExperiment
from neuropil.tasks.recall.experiment import RecallExperiment
from neuropil.tasks.recipe import Experiment
from neuropil.training.history import read_history
from neuropil.training.optimizers import OptimizerName, build_optimizer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDER = Path(__file__).parent / "pictures"
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
LARGEST = 150_000
START = (-0.3, -0.4)
RECALLED = 8


def main(names: Sequence[str]) -> None:
    torch.set_num_threads(1)  # the order of a sum, and so its last bit, depends on how many threads share it
    for name in names or PICTURES:
        svg = PICTURES[name]()
        size = len(svg.encode())
        if size > LARGEST:
            raise ValueError(f"{name}.svg must be at most {LARGEST:,} bytes, but is {size:,}")
        write_text(FOLDER / f"{name}.svg", svg)
        sys.stdout.write(f"docs/pictures/{name}.svg  {size:,} bytes\n")


def standing_alone(drawing: str) -> str:
    """A drawing of a report as a file: on white paper, so that it can be read on a dark page too, and with a font."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing)
    if found is None:
        raise ValueError(f"a drawing must say its size in a viewBox, but begins {drawing[:200]!r}")
    inside = drawing.split(">", 1)[1].removesuffix("</svg>")
    # matplotlib names a clipping rectangle by a hash of its corners, whose last bit is not the same each time.
    names = {name: f"n{number}" for number, name in enumerate(re.findall(r' id="([^"]*)"', inside))}
    inside = re.sub(r'( id="|url\(#|href="#)([^")]*)', lambda place: place[1] + names[place[2]], inside)
    return svg_file(float(found[1]), float(found[2]), inside, unit="pt")


def svg_file(width: float, height: float, inside: str, unit: str = "") -> str:
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}{unit}" height="{height:g}{unit}" '
        f'font-family="{escape(FONT)}" stroke-linejoin="round">\n'
        f'<rect width="100%" height="100%" rx="6" fill="#fff"/>{inside}</svg>\n'
    )


# --- pictures that a report shows -------------------------------------------------------------------------------------


@cache
def finished(name: str, **options: Any) -> tuple[Experiment, list[Picture]]:
    """A system, trained with seed 0, and the pictures of its report."""
    recipe = recipes.recipe(name)
    experiment = recipe.build(recipe.options.override(**options), 0)
    with tempfile.TemporaryDirectory() as folder:
        experiment.train(Path(folder), show_progress=False)
        sections = experiment.sections(read_history(Path(folder) / "metrics.jsonl"))
    return experiment, [block for section in sections for block in section.blocks if isinstance(block, Picture)]


def from_report(name: str, alt: str, **options: Any) -> Callable[[], str]:
    """The picture whose description begins with `alt`."""

    def draw() -> str:
        image = next(picture.image for picture in finished(name, **options)[1] if picture.alt.startswith(alt))
        if isinstance(image, bytes):
            raise TypeError(f"the picture {alt!r} of {name} must be a drawing")
        return standing_alone(image)

    return draw


def samples_of(name: str, count: int = 32) -> Callable[[], str]:
    """What a generative model made for its report, not chosen by anybody."""

    def draw() -> str:
        experiment, _ = finished(name)
        if not isinstance(experiment, GenerationExperiment):
            raise TypeError(f"{name} must make examples")
        chosen = torch.linspace(0, len(experiment.predictions) - 1, count).long()  # of all classes, which are in order
        images = rearrange(experiment.predictions[chosen], "image 1 height width -> image height width")
        return standing_alone(figure_svg(image_grid(images.numpy(), columns=16)))

    return draw


def recalled() -> str:
    """Digits that a Hopfield network has stored, the same with flipped signs, and what it makes of them."""
    experiment, _ = finished("hopfield")
    if not isinstance(experiment, RecallExperiment):
        raise TypeError("the hopfield network recalls patterns")
    patterns, given = experiment.patterns[:RECALLED], experiment.damaged["noise"][:RECALLED]
    rows = {"stored": patterns, "given": given, "recalled": experiment.recalled(experiment.memory.model, given)}
    images = [experiment.memory.pictures(states).squeeze(1) for states in rows.values()]
    captions = [name for name in rows for _ in range(RECALLED)]
    return standing_alone(figure_svg(image_grid(torch.cat(images).numpy(), captions, columns=RECALLED)))


def claimed(name: str) -> list[list[float]]:
    """The header and the rows of a table that `make claims` has written, as far as they are numbers."""
    lines = (FOLDER.parent / "claims" / f"{name}.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("| ") and "---" not in line]
    cells = [[cell.strip(" %").replace(",", "") for cell in row] for row in rows]
    return [[float(cell) for cell in row if cell.replace(".", "").isdigit()] for row in cells]


def words_per_second() -> str:
    """Of word2vec, by vocabulary and dimension."""
    widths, *rows = claimed("word2vec-speed")
    return standing_alone(figure_svg(_drawn_speeds(widths, {f"{size:,.0f} words": speeds for size, *speeds in rows})))


@house_style
def _drawn_speeds(widths: Sequence[float], speeds: Mapping[str, Sequence[float]]) -> "Figure":
    figure = new_figure(7.4, 2.8)
    axes = figure.subplots()
    for index, (name, values) in enumerate(speeds.items()):
        axes.plot(widths, [value / 1e6 for value in values], label=name, marker="o", markersize=3.5, **line(index))
    axes.set(xlabel="dimension", ylabel="million words per second", ylim=(0, None))
    figure.legend(loc="outside upper left", ncols=3)
    return figure


def time_by_neurons() -> str:
    """Of a step, decoded and encoded again, and by full weights."""
    _, *rows = claimed("transformations")
    sizes, factored, full = zip(*(row[:3] for row in rows), strict=True)
    times = {"decode and encode": factored, "full weights": full}
    return standing_alone(figure_svg(_drawn_times(sizes, times)))


@house_style
def _drawn_times(sizes: Sequence[float], times: Mapping[str, Sequence[float]]) -> "Figure":
    figure = new_figure(7.4, 2.9)
    axes = figure.subplots()
    for index, (name, values) in enumerate(times.items()):
        axes.plot(sizes, values, label=name, marker="o", markersize=3.5, **line(index))
    axes.set(xlabel="neurons N = M", ylabel="µs per step")
    make_logarithmic(axes, "x")
    make_logarithmic(axes)
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def over_beta() -> str:
    """Of the figures that `make claims` has found."""
    beta, clean, attacked = zip(*claimed("trades")[1:], strict=True)
    figure = accuracy_over_beta([share / 100 for share in clean], [share / 100 for share in attacked], beta)
    return standing_alone(figure_svg(figure))


def cnn_doubts() -> str:
    images, truths, answers = doubts_of_cnn(8)
    captions = [f"{truth}: {first} or {second}?" for truth, (first, second) in zip(truths, answers, strict=True)]
    return standing_alone(figure_svg(image_grid(images, captions)))


def doubts_of_cnn(count: int) -> tuple[np.ndarray, list[str], list[list[str]]]:
    """The held-out digits whose two likeliest answers are nearest to each other: pictures, truths, and those
    answers."""
    experiment, _ = finished("cnn")
    if not isinstance(experiment, ClassificationExperiment):
        raise TypeError("the cnn is trained from examples")
    test, (shares, answers) = experiment.splits.test, experiment.predictions.topk(2)
    chosen = (shares[:, 0] - shares[:, 1]).argsort(stable=True)[:count]
    names = test.schema.classes
    return (
        rearrange(test.inputs[chosen], "image 1 height width -> image height width").numpy(),
        [names[truth] for truth in test.targets[chosen].tolist()],
        [[names[answer] for answer in likeliest] for likeliest in answers[chosen].tolist()],
    )


def autodiff() -> str:
    """The expression with which the page begins, after its backward pass; laid out by our own layers, on every machine
    alike."""
    x, w, b = Var(2.0, name="x"), Var(-3.0, name="w"), Var(6.88, name="b")
    loss = (ops.tanh(x * w + b) - 1) ** 2 + 0.1 * w**2
    loss.backward()
    return graph(loss).draw(layout="layered", interactive=False) + "\n"


# --- the README's picture ---------------------------------------------------------------------------------------------


@house_style
def neuropil() -> str:
    """Four things to try, side by side."""
    figure = new_figure(10.2, 2.5)
    figure.get_layout_engine().set(wspace=0.07)  # type: ignore[union-attr]  # new_figure has given it one
    doubts, race, function, gradients = figure.subplots(1, 4, width_ratios=[0.92, 1, 1, 1])
    _draw_doubts(doubts)
    _draw_race(race)
    _draw_function(function)
    _draw_gradients(gradients)
    return standing_alone(figure_svg(figure))


def _draw_doubts(axes: "Axes") -> None:
    axes.set_title("Where a CNN hesitates")
    axes.set_axis_off()
    images, _, answers = doubts_of_cnn(4)
    for place, (image, (first, second)) in enumerate(zip(images, answers, strict=True)):
        cell: Any = axes.inset_axes((0.53 * (place % 2), 0.51 if place < 2 else -0.03, 0.45, 0.40))
        cell.set_axis_off()
        cell.imshow(image, cmap="gray", interpolation="none")
        cell.set_title(f"{first} or {second}?", fontsize=9, fontweight="normal", loc="center", pad=2, color=MUTED)


def _draw_race(axes: "Axes") -> None:
    """Two weights of a linear regression on scikit-learn's diabetes data: body-mass index and the logarithm of blood
    fats."""
    from sklearn.datasets import load_diabetes

    patients: Any = load_diabetes(scaled=False)
    features = torch.from_numpy(patients.data[:, [2, 8]])
    x = features - features.mean(0)
    t = torch.from_numpy(patients.target - patients.target.mean()) / patients.target.std()

    def loss(w: Tensor) -> Tensor:
        return 0.5 * (torch.einsum("...k,nk->...n", w, x) - t).square().mean(-1)

    first, second = (
        torch.linspace(-0.38, 0.48, 40, dtype=torch.double),
        torch.linspace(-0.62, 1.2, 40, dtype=torch.double),
    )
    heights = loss(torch.stack(torch.meshgrid(first, second, indexing="xy"), dim=-1))
    levels = np.quantile(heights, np.linspace(0.004, 1, 13))
    axes.contourf(first, second, heights, levels=levels, cmap="Greys", vmax=3 * levels[-1])
    axes.contour(first, second, heights, levels=levels, colors="#aab0ba", linewidths=0.5)
    rates: dict[OptimizerName, float] = {"sgd": 0.08, "momentum": 0.012, "rmsprop": 0.02, "adam": 0.06}
    for index, (name, rate) in enumerate(rates.items()):
        path = _descend(loss, name, rate)
        axes.plot(path[:, 0], path[:, 1], label=name, **line(index))
    axes.plot(*START, "o", color="white", markeredgecolor=INK, markersize=5, zorder=5)
    axes.plot(*torch.linalg.lstsq(x, t[:, None]).solution.flatten(), "+", color=INK, markersize=9, zorder=5)
    axes.set(title="Optimisers racing", xlim=(first[0], first[-1]), ylim=(second[0], second[-1]), xticks=[], yticks=[])
    axes.legend(loc="upper left", fontsize=8, handlelength=1.7, labelspacing=0.25, borderaxespad=0.2)


def _descend(loss: Callable[[Tensor], Tensor], name: OptimizerName, rate: float) -> np.ndarray:
    w = Parameter(torch.tensor(START, dtype=torch.double))
    optimizer = build_optimizer(name, {"w": w}, learning_rate=rate)
    path = []
    for _ in range(70):
        path.append(w.detach().clone())
        optimizer.zero_grad()
        loss(w).backward()
        optimizer.step()
    return torch.stack(path).numpy()


def _draw_function(axes: "Axes") -> None:
    f = Expression("sin(9*x) * (1 - x) + 1.4*x^2")
    net = UniversalApproximator(UniversalApproximatorConfig(hidden_size=24, steepness=14)).fit(f)
    x = torch.linspace(0, 1, 401, dtype=torch.double)
    with torch.no_grad():
        pieces = net.pieces(x) * f(net.centers())
        approximation = net(x)
    for index, piece in enumerate(pieces.T):
        seen = piece.abs() > 0.004
        axes.fill_between(x[seen], piece[seen], color=PALETTE[0], alpha=0.10 if index % 2 else 0.18, linewidth=0)
    axes.plot(x, f(x), color=INK, linewidth=1)
    axes.plot(x, approximation, color=PALETTE[1], linewidth=1.6)
    axes.set(title="A function from 24 sigmoids", xlim=(0, 1), xticks=[], yticks=[])


def _draw_gradients(axes: "Axes") -> None:
    depth = 15
    networks = {"sigmoid": {}, "with batch norm": {"batch_norm": True}, "residual": {"residual": True}}
    for index, (name, options) in enumerate(networks.items()):
        norms = np.array([norm for _, norm in _profile(depth, **options).flow()])
        axes.plot(range(1, depth + 2), norms / norms[-1], marker="o", markersize=2.6, label=name, **line(index))
    make_logarithmic(axes)
    axes.set(title="Why depth needs help", xticks=[1, depth + 1], xticklabels=["first layer", "last"])
    axes.set_ylabel("gradient that arrives", labelpad=1)
    axes.legend(loc="lower right", fontsize=7.5, handlelength=1.8)


def _profile(depth: int, **options: Any) -> GradientProfile:
    digits = load_digits()
    model = initialised(
        lambda: MLP(MLPConfig(hidden_sizes=(64,) * depth, activation="logistic", dropout=0.0, **options)), seed=0
    )
    model.standardize.fit(digits.inputs)
    batch = {"input": digits.inputs[:256], "target": digits.targets[:256]}
    return profile_gradients(model, lambda: Classification(model).loss(batch))


# --- the house --------------------------------------------------------------------------------------------------------

HOUSE = (
    {
        "errors": "one sentence: the rule, what came, the way out",
        "config": "an option is one line of a frozen configuration",
        "ranges": "what a search may set an option to",
        "files": "written whole or not at all",
        "randomness": "numbers that depend on a key",
        "metrics": "name, direction and format of each",
        "protocols": "what a learner, a phase and a batch are",
        "progress": "what one sees while waiting",
        "memory": "what does not fit is refused",
    },
    {
        "autodiff": "the expression graph from scratch, on NumPy alone",
        "parts": "pieces that two or more models use",
        "data": "bytes to batches; knows no model",
        "training": "the one loop; knows no model by name",
    },
    {"models": "one file per network, reading as its paper does: equation, configuration, forward, sizes"},
    {
        "sampling": "loops around a trained model",
        "adversarial": "inputs made to mislead it",
        "pretrained": "weights of others, both ways",
        "inspection": "views of its inside, and their pictures",
    },
    {"tasks": "what goes in and what comes out: experiment, predictor, scores and report of each task, over one base"},
    {"recipes": "one file for each system: model × task × defaults; the only place where choices are combined"},
    {"runs": "the life of a run folder: start, resume, load, open, compare, prune"},
    {
        "cli": "words to runs",
        "sklearn": "estimators over runs",
        "lab": "the same in a web page",
        "server": "the same by requests",
    },
)
MOST_ABREAST = 5
PLANNED = frozenset(("lab", "server"))


def house() -> str:
    """Eight rows of rooms, and between them the arrows of allowed imports."""
    width, left, gap = 940, 24, 30
    drawn = [
        f'\n<text x="{left}" y="32" font-size="13" fill="{MUTED}">'
        "A room may import from every row above its own.</text>"
    ]
    top = 48
    for row, rooms in enumerate(HOUSE):
        if row:
            drawn.append(_arrow(width / 2, top - 5, top - gap + 5))
        names = list(rooms)
        for begin in range(0, len(names), MOST_ABREAST):
            abreast = names[begin : begin + MOST_ABREAST]
            room_width = (width - 2 * left + 12) / len(abreast) - 12
            wrapped = {
                name: textwrap.wrap(rooms[name] + (" (planned)" if name in PLANNED else ""), int(room_width / 7.4))
                for name in abreast
            }
            height = 36 + 15 * max(map(len, wrapped.values()))
            for place, (name, lines) in enumerate(wrapped.items()):
                drawn.append(_room(left + place * (room_width + 12), top, room_width, height, name, lines))
            top += height + 12
        top += gap - 12
    return svg_file(width, top - gap + left, "\n".join(drawn) + "\n")


def _room(x: float, y: float, width: float, height: float, name: str, lines: Sequence[str]) -> str:
    fill, ink, dashes = ("#fff", MUTED, ' stroke-dasharray="5 4"') if name in PLANNED else ("#eef4fb", INK, "")
    texts = [
        f'<text x="{x + 12:g}" y="{y + 41 + 15 * index:g}" font-size="12" fill="{MUTED}">{escape(words)}</text>'
        for index, words in enumerate(lines)
    ]
    return "\n".join(
        [
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7" fill="{fill}" '
            f'stroke="{PALETTE[0]}"{dashes}/>',
            f'<text x="{x + 12:g}" y="{y + 23:g}" font-size="15" font-weight="600" fill="{ink}">{name}</text>',
            *texts,
        ]
    )


def _arrow(x: float, bottom: float, top: float) -> str:
    return (
        f'<path d="M{x:g} {bottom:g}V{top + 6:g}" stroke="{MUTED}" stroke-width="1.4"/>'
        f'<path d="M{x - 4.5:g} {top + 7:g}L{x:g} {top:g}L{x + 4.5:g} {top + 7:g}z" fill="{MUTED}"/>'
    )


PICTURES: dict[str, Callable[[], str]] = {
    "neuropil": neuropil,
    "house": house,
    "autodiff": autodiff,
    "trades": over_beta,
    "word2vec-speed": words_per_second,
    "dynamics-cost": time_by_neurons,
    # What some of these show needs no training, so the rest of their report is made short.
    "activations": from_report(
        "activations", "each activation with its derivative", epochs=1, hidden_sizes=(8,), repeats=1
    ),
    "losses": from_report("losses", "three losses", epochs=1, hidden_sizes=(8,)),
    "optimizers": from_report("optimizers", "paths of the update rules"),
    "optimizers-flow": from_report("optimizers", "flows and descents"),
    "optimizers-local-minimum": from_report("optimizers", "gradient descent and momentum on a surface"),
    "overfitting": from_report("overfitting", "training and validation loss"),
    "vanishing-gradients": from_report("vanishing_gradients", "gradient norm of each layer"),
    "signal": from_report("vanishing_gradients", "spread and saturation of each layer"),
    "large-weights": from_report("vanishing_gradients", "gradient kept and saturated units"),
    "batch-norm-scales": from_report("batch_norm", "validation loss against the learning rate"),
    "batch-norm-shift": from_report("batch_norm", "shift of the means"),
    "learning-rules": from_report("learning_rules", "validation accuracy of each learning rule"),
    "learning-rules-alignment": from_report("learning_rules", "cosine of each learning rule"),
    "universal-approximation": from_report("universal_approximation", "the function, its staircase", epochs=1),
    "universal-approximation-cube": from_report("universal_approximation", "a function of two variables", epochs=1),
    "mlp": from_report("mlp", "the weights of one unit"),
    "cnn": from_report("cnn", "confusion matrix"),
    "cnn-doubts": cnn_doubts,
    "cnn-activations": from_report("cnn", "activation maps of the most active"),
    "attention": from_report("attention", "pictures in patches"),
    "attention-looks": from_report("attention", "attention weights of each query patch"),
    "positions": from_report("positions", "sinusoidal encodings"),
    "positions-likeness": from_report("positions", "inner products"),
    "positions-learning": from_report("positions", "validation accuracy"),
    "heads": from_report("heads", "error and accuracy by the number of heads,"),
    "heads-pruned": from_report("heads", "error and accuracy by the number of heads left"),
    "gaussian-process": from_report("gaussian_process", "four curves"),
    "gaussian-process-projections": from_report("gaussian_process", "curves of attention"),
    "lstm": from_report("lstm", "gates of a recurrent cell"),
    "recurrence": from_report("recurrence", "gradient norm of each cell", updates=10),
    "recurrence-clipping": from_report("recurrence", "loss with and without clipping"),
    "recall-distance": from_report("recall_distance", "accuracy in the task copy"),
    "forecaster": from_report("forecaster", "forecasts from several origins"),
    "text-classifier": from_report("text_classifier", "probabilities of classes after"),
    "captioner": from_report("captioner", "attention over pictures"),
    "tracker": from_report("tracker", "film strips"),
    "tracker-hidden": from_report("tracker", "error against the frames"),
    "seq2seq": from_report("seq2seq", "attention of each output token"),
    "transformer": from_report("transformer", "attention of each output token"),
    "vit": from_report("vit", "pictures, and beside each"),
    "clip": from_report("clip", "similarities"),
    "autoencoder": from_report("autoencoder", "codes of the test examples"),
    "vae": from_report("vae", "decoded pictures over"),
    "vae-between": from_report("vae", "pictures between pairs"),
    "gan": samples_of("gan"),
    "diffusion": from_report("diffusion", "x_T to x_0"),
    "diffusion-samples": samples_of("diffusion"),
    "rbm": from_report("rbm", "weights of hidden units"),
    "rbm-samples": samples_of("rbm"),
    "hopfield": recalled,
    "hopfield-capacity": from_report("hopfield", "overlap against load"),
    "lif": from_report("lif", "voltages over time"),
    "lif-synapses": from_report("lif", "synaptic filters"),
    "lif-tuning": from_report("lif", "tuning curve"),
    "hodgkin-huxley": from_report("hodgkin_huxley", "an action potential"),
    "hodgkin-huxley-gates": from_report("hodgkin_huxley", "steady states"),
    "hodgkin-huxley-refractory": from_report("hodgkin_huxley", "answers to two pulses"),
    "hodgkin-huxley-pump": from_report("hodgkin_huxley", "concentrations, voltage", pump=True),
    "hodgkin-huxley-steps": from_report("hodgkin_huxley", "errors of spike times"),
    "spiking-network": from_report("spiking_network", "raster", duration=600.0),
    "balanced-network": from_report("balanced_network", "rasters and rates"),
    "population": from_report("population", "rates of the neurons"),
    "population-error": from_report("population", "error against"),
    "population-condition": from_report("population", "condition number"),
    "population-spikes": from_report("population", "spikes, and the value"),
    "dynamics-memory": from_report("dynamics", "values that two memories"),
    "dynamics-lorenz": from_report("dynamics", "the path of the network"),
    "dynamics-clocks": from_report("dynamics", "the oscillator with both clocks"),
    "predictive-coding": from_report("predictive_coding", "energy while"),
    "predictive-coding-error-nodes": from_report("predictive_coding", "gradient of the energy"),
    "predictive-coding-cosines": from_report("predictive_coding", "cosine between"),
    "predictive-coding-generated": from_report("predictive_coding", "a generated picture"),
    "predictive-coding-completed": from_report("predictive_coding", "covered pictures"),
    "spiking-classifier": from_report("spiking_classifier", "spikes of one input"),
    "spiking-classifier-rates": from_report("spiking_classifier", "firing rates"),
    "spiking-classifier-time": from_report("spiking_classifier", "accuracy against"),
}

if __name__ == "__main__":
    main(sys.argv[1:])
