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

from neuropil import recipes
from neuropil.autodiff import Var, graph, ops
from neuropil.files import write_text
from neuropil.inspection.pictures.images import image_grid
from neuropil.inspection.pictures.robustness import accuracy_over_beta
from neuropil.inspection.pictures.style import INK, MUTED, PALETTE, house_style, line, make_logarithmic, new_figure
from neuropil.inspection.report.page import Picture
from neuropil.inspection.report.svg import figure_svg
from neuropil.tasks.classification.experiment import ClassificationExperiment
from neuropil.tasks.generation.experiment import GenerationExperiment
from neuropil.tasks.recall.experiment import RecallExperiment
from neuropil.tasks.recipe import Experiment
from neuropil.training.history import read_history

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = Path(__file__).parent / "pictures"
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
LARGEST = 150_000
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


# --- the house --------------------------------------------------------------------------------------------------------

HOUSE = (
    {
        "errors": "one sentence: the rule, what came, the way out",
        "extras": "packages that only some need",
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
    {
        "runs": "the life of a run folder: start, resume, load, open, compare, prune",
        "http": "who may ask, and where to listen",
    },
    {
        "sklearn": "estimators over runs",
        "lab": "a page in the browser over runs",
        "server": "trained models by requests",
    },
    {"cli": "words to runs, and what opens the lab"},
)
MOST_ABREAST = 5


def house() -> str:
    """Rows of rooms, and between them the arrows of allowed imports."""
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
            wrapped = {name: textwrap.wrap(rooms[name], int(room_width / 7.4)) for name in abreast}
            height = 36 + 15 * max(map(len, wrapped.values()))
            for place, (name, lines) in enumerate(wrapped.items()):
                drawn.append(_room(left + place * (room_width + 12), top, room_width, height, name, lines))
            top += height + 12
        top += gap - 12
    return svg_file(width, top - gap + left, "\n".join(drawn) + "\n")


def _room(x: float, y: float, width: float, height: float, name: str, lines: Sequence[str]) -> str:
    texts = [
        f'<text x="{x + 12:g}" y="{y + 41 + 15 * index:g}" font-size="12" fill="{MUTED}">{escape(words)}</text>'
        for index, words in enumerate(lines)
    ]
    return "\n".join(
        [
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7" fill="#eef4fb" '
            f'stroke="{PALETTE[0]}"/>',
            f'<text x="{x + 12:g}" y="{y + 23:g}" font-size="15" font-weight="600" fill="{INK}">{name}</text>',
            *texts,
        ]
    )


def _arrow(x: float, bottom: float, top: float) -> str:
    return (
        f'<path d="M{x:g} {bottom:g}V{top + 6:g}" stroke="{MUTED}" stroke-width="1.4"/>'
        f'<path d="M{x - 4.5:g} {top + 7:g}L{x:g} {top:g}L{x + 4.5:g} {top + 7:g}z" fill="{MUTED}"/>'
    )


PICTURES: dict[str, Callable[[], str]] = {
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
