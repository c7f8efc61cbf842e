"""Positions: what attention does not know unless it is told, measured and drawn.

The sinusoids first: 20 positions × 512 dimensions, and how alike two positions are. Then one small attention network learns the same
pictures three times, with learned, with sinusoidal and without positions, and is asked again about pictures whose patches were shuffled:
the one without positions cannot tell the difference. Last, what the learned positions have found out about the places of the picture.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.examples.dataset import Examples
from neuropil.data.examples.files import DataConfig
from neuropil.data.splits import Splits
from neuropil.inspection.pictures.attention import position_encodings, position_likeness, position_maps
from neuropil.inspection.pictures.comparisons import learning_curves
from neuropil.inspection.report.page import Gallery, Picture, Section, Table, Text, Thumbnail
from neuropil.models.attention import PatchAttention, PatchAttentionConfig
from neuropil.parts.objectives import Classification
from neuropil.parts.positions import PositionName, sinusoidal
from neuropil.randomness import seeded
from neuropil.recipes.attention import new_patch_attention, require_pictures
from neuropil.tasks.classification.experiment import EVALUATION_BATCH
from neuropil.tasks.classification.report import pixels
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.recipe import Recipe, Result
from neuropil.tasks.study import Findings, Study
from neuropil.tasks.trial import in_order, prepare_classes, score, shuffled, train_trial
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig
from neuropil.training.progress import Display

NAMES: dict[PositionName, str] = {
    "learned": "learned positions",
    "none": "no positions",
    "sinusoidal": "sinusoidal positions",
}
FARTHEST = 100
SHOWN = 3


class PositionsOptions(Config):
    data: DataConfig = DataConfig()
    encoded: int = option(20, "positions in the picture of the encodings", low=2)
    dimensions: int = option(512, "dimensions of the encodings in the picture", low=2)
    patch: int | None = option(
        None, "height and width of a patch in pixels; without it 2, or more where a side would have over 8", low=1
    )
    width: int = option(64, "numbers that stand for a patch in each network", low=1)
    layers: int = option(2, "layers of attention in each network", low=1)
    updates: int = option(1500, "updates of each network", low=1)
    learning_rate: float = option(2e-3, "peak learning rate of each network", low=0)


@dataclass(frozen=True)
class Outcome:
    """A trained network, its scores on the test part, and its answers to the same pictures as they are and with shuffled patches."""

    model: PatchAttention
    history: list[Row]
    test: Mapping[str, float]
    answers: Float[Tensor, "example class"]
    answers_to_shuffled: Float[Tensor, "example class"]

    def accuracy_on_shuffled(self, test: Examples) -> float:
        return (self.answers_to_shuffled.argmax(-1) == test.targets).double().mean().item()

    @property
    def changed(self) -> float:
        """Share of the pictures to which shuffling changes the answer."""
        return (self.answers.argmax(-1) != self.answers_to_shuffled.argmax(-1)).double().mean().item()

    @property
    def largest_change(self) -> float:
        return (self.answers - self.answers_to_shuffled).abs().max().item()


def build(options: PositionsOptions, seed: int) -> Study:
    splits = prepare_classes(options.data, seed)
    require_pictures(splits)
    return Study(
        "positions",
        lambda folder, display: _compute(options, splits, seed, folder, display),
        {"source": splits.train.source},
    )


def _compute(
    options: PositionsOptions, splits: Splits[Examples], seed: int, folder: Path, display: Display
) -> Findings:
    outcomes: dict[PositionName, Outcome] = {}
    for index, (kind, name) in enumerate(NAMES.items()):
        outcomes[kind] = _learn(kind, options, splits, seed, folder)
        display.update((index + 1) / len(NAMES), f"{name}: test accuracy {100 * outcomes[kind].test['accuracy']:.1f} %")
    shuffled_results = [
        Result(f"{NAMES[kind]}, patches shuffled", {"accuracy": o.accuracy_on_shuffled(splits.test)})
        for kind, o in outcomes.items()
    ]
    results = [
        *(Result(NAMES[kind], outcome.test) for kind, outcome in outcomes.items()),
        *shuffled_results,
        *baselines(splits),
    ]
    sections = [
        _encodings_section(options),
        _learning_section(outcomes),
        _shuffling_section(outcomes, splits.test, seed),
    ]
    return Findings(results, [*sections, _places_section(outcomes)])


def _learn(kind: PositionName, options: PositionsOptions, splits: Splits[Examples], seed: int, folder: Path) -> Outcome:
    config = PatchAttentionConfig(
        patch=options.patch, width=options.width, key_width=options.width, layers=options.layers, positions=kind
    )
    training = TrainingConfig(updates=options.updates, learning_rate=options.learning_rate, clip=1.0, keep="last")
    model = new_patch_attention(config, splits.train, seed)
    learner = Classification(model)
    batches = shuffled(splits.train, training.batch_size, seed, Augment(shift=0.5, rotate=10, zoom=0.1))
    history = train_trial(folder, NAMES[kind], learner, batches, in_order(splits.validation), training, seed=seed)
    model.eval()
    answers, answers_to_shuffled = [], []
    with torch.no_grad():
        for number, inputs in enumerate(splits.test.inputs.split(EVALUATION_BATCH)):
            patches = model.patches(inputs)
            answers.append(model.classify(patches))
            answers_to_shuffled.append(model.classify(shuffle_patches(patches, seed, number)))
    return Outcome(model, history, score(learner, splits.test), torch.cat(answers), torch.cat(answers_to_shuffled))


def shuffle_patches(
    patches: Float[Tensor, "batch patch pixel"], seed: int, number: int
) -> Float[Tensor, "batch patch pixel"]:
    """Those of every picture in an order of their own; batch `number` is shuffled in the same way each time."""
    order = torch.rand(patches.shape[:2], generator=seeded(seed, "patches", number)).argsort(-1)
    return patches.gather(1, order[..., None].expand_as(patches))


# --- the report ------------------------------------------------------------------------------------------------------------------


def _encodings_section(options: PositionsOptions) -> Section:
    encodings = sinusoidal(options.encoded, options.dimensions)
    far = sinusoidal(FARTHEST + 1, options.dimensions)
    widths = sorted({options.dimensions, 64, 16}, reverse=True)
    words = (
        "PE(i, 2j) = sin(i / 10000^(2j/d)) and PE(i, 2j + 1) = cos(i / 10000^(2j/d)): every pair of dimensions is the hand of a clock, and "
        "every pair turns more slowly than the one before. The first tell neighbours apart, the last tell the beginning of a long text "
        "from its end. No two positions are alike, and no table has to be learned, so a text may be of any length."
    )
    likeness = (
        "The inner product of two encodings is Σ cos((i − k) / 10000^(2j/d)): it depends on their distance alone, which is what attention, "
        "made of inner products, can use. Likeness falls with the distance, and with more dimensions it does so more smoothly."
    )
    return Section(
        "Sinusoidal positions",
        [
            Text(words),
            Picture.of(position_encodings(encodings), alt="sinusoidal encodings, a row for each position"),
            Text(likeness),
            Picture.of(
                position_likeness(far, {f"d = {width}": likeness_by_distance(FARTHEST, width) for width in widths}),
                alt="inner products of the encodings of all pairs of positions, and by distance",
            ),
        ],
    )


def likeness_by_distance(farthest: int, width: int) -> Float[Tensor, " distance"]:
    """Of position 0 with those at distances 0, 1, … `farthest`; 1 for itself."""
    encodings = sinusoidal(farthest + 1, width)
    return encodings @ encodings[0] / encodings[0].square().sum()


def _learning_section(outcomes: Mapping[PositionName, Outcome]) -> Section:
    words = (
        "The same network on the same pictures in the same order. Without positions it sees a bag of patches: which pieces there are, and "
        "not where. That is enough for part of the task, and only for part."
    )
    figure = learning_curves({NAMES[kind]: outcome.history for kind, outcome in outcomes.items()}, "accuracy")
    return Section(
        "Learning with and without",
        [Text(words), Picture.of(figure, alt="validation accuracy with each kind of positions")],
    )


def _shuffling_section(outcomes: Mapping[PositionName, Outcome], test: Examples, seed: int) -> Section:
    words = (
        "The test pictures again, the patches of each in a random order of their own. Without positions, attention shuffles its output as "
        "its input was shuffled, and the mean over the patches is the same: no answer changes, and the outputs differ by rounding alone. "
        "With positions the pictures have become other pictures. Below, what the networks with learned and without positions say."
    )
    rows = [
        [
            kind,
            f"{100 * outcome.test['accuracy']:.2f} %",
            f"{100 * outcome.accuracy_on_shuffled(test):.2f} %",
            f"{100 * outcome.changed:.1f} %",
            f"{outcome.largest_change:.2g}",
        ]
        for kind, outcome in outcomes.items()
    ]
    header = ["positions", "test accuracy", "on shuffled patches", "answers changed", "largest change"]
    return Section(
        "Shuffled patches", [Text(words), Table(header, rows), Gallery(_shuffled_pairs(outcomes, test, seed))]
    )


def _shuffled_pairs(outcomes: Mapping[PositionName, Outcome], test: Examples, seed: int) -> list[Thumbnail]:
    """Some test pictures, each followed by its shuffled self, with the answers of the networks with learned and without positions."""
    model, classes = outcomes["learned"].model, test.schema.classes
    first = test.inputs[:EVALUATION_BATCH]  # the batch that they were shuffled with
    mixed = picture_of(model, shuffle_patches(model.patches(first), seed, 0))
    found = []
    for index in range(min(SHOWN, len(test))):
        for image, what in ((first, "answers"), (mixed, "answers_to_shuffled")):
            said = {kind: classes[int(getattr(outcomes[kind], what)[index].argmax())] for kind in ("learned", "none")}
            shown = Examples(image[index : index + 1], test.targets[index : index + 1], test.schema, test.source)
            caption = classes[int(test.targets[index])] if what == "answers" else "shuffled"
            found.append(Thumbnail(pixels(shown, 0), caption, f"learned {said['learned']}, none {said['none']}"))
    return found


def picture_of(model: PatchAttention, patches: Float[Tensor, "batch patch pixel"]) -> Tensor:
    """Patches laid out as a picture again, in bytes; with its filling, where the patches do not divide it."""
    rows, _ = model.config.grid
    side = model.config.patch_side
    z = rearrange(
        patches, "batch (row column) (channel a b) -> batch channel (row a) (column b)", row=rows, a=side, b=side
    )
    return model.standardize.inverse(z).round().clamp(0, 255).to(torch.uint8)


def _places_section(outcomes: Mapping[PositionName, Outcome]) -> Section:
    """Likeness of the position vectors of every two patches."""
    grid = outcomes["learned"].model.config.grid
    kinds = [kind for kind in get_args(PositionName) if kind != "none"]
    tables = {NAMES[kind]: outcomes[kind].model.positions.table.detach() for kind in kinds}
    likeness = {name: F.cosine_similarity(table[:, None], table[None], dim=-1) for name, table in tables.items()}
    words = (
        f"A small map for each of the {grid[0]} × {grid[1]} patches, in the place of that patch: red where another patch has a position "
        "vector like its own, blue where it has an opposite one. The sinusoids number the patches row by row, and know nothing of columns. "
        "The learned vectors began at random; a name for every place would be enough, and what more there is was found by training."
    )
    rows = [
        [name, *(f"{value:.2f}" for value in _neighbours_and_others(each, grid))] for name, each in likeness.items()
    ]
    return Section(
        "What was learned about places",
        [
            Text(words),
            Picture.of(position_maps(likeness, grid), alt="likeness of the positions of the patches"),
            Table(["", "mean likeness of neighbours", "of patches farther apart"], rows),
        ],
    )


def _neighbours_and_others(likeness: Float[Tensor, "patch patch"], grid: tuple[int, int]) -> tuple[float, float]:
    """Neighbours share an edge."""
    places = torch.cartesian_prod(torch.arange(grid[0]), torch.arange(grid[1]))
    distance = (places[:, None] - places[None]).abs().sum(-1)
    return likeness[distance == 1].mean().item(), likeness[distance > 1].mean().item()


RECIPE = Recipe(PositionsOptions(), build)
