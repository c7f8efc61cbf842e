"""Position encodings: what attention cannot know without them, measured and drawn.

Sinusoidal encodings first, and how similar two positions are. Then one small attention network learns the same images
three times, with learned, with sinusoidal and without positions, and is tested on images whose patches were shuffled:
the one without positions cannot tell the difference. Last, what the learned positions have found out about the places
of the image.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

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
from neuropil.inspection.pictures.positions import position_encodings, position_maps, position_similarity
from neuropil.inspection.pictures.training import learning_curves
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Gallery, Picture, Section, Table, Thumbnail, percent
from neuropil.models.attention import PatchAttention, PatchAttentionConfig
from neuropil.parts.objectives import Classification
from neuropil.parts.positions import PositionName, sinusoidal
from neuropil.progress import Display
from neuropil.randomness import seeded
from neuropil.recipes.attention import new_patch_attention
from neuropil.tasks import study
from neuropil.tasks.classification.experiment import require_pictures
from neuropil.tasks.classification.predictor import EVALUATION_BATCH
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.config import TrainingConfig
from neuropil.training.history import Row

LEARNED, NONE = "learned positions", "no positions"
NAMES: dict[str, PositionName] = {LEARNED: "learned", NONE: "none", "sinusoidal positions": "sinusoidal"}
FARTHEST = 100
SHOWN = 3


class PositionsOptions(Config):
    data: DataConfig = DataConfig()
    encoded: int = option(20, "positions in the picture of the encodings", low=2)
    dimensions: int = option(512, "dimensions of the encodings in the picture", low=2)
    patch: int | None = option(None, "patch size in pixels; default 2, or more where a side would have over 8", low=1)
    width: int = option(64, "embedding width (d_model) of each network", low=1)
    layers: int = option(2, "attention layers of each network", low=1)
    updates: int = option(1500, "updates of each network", low=1)
    learning_rate: float = option(2e-3, "peak learning rate of each network", low=0)


Patches: TypeAlias = Float[Tensor, "batch patch pixel"]


@dataclass(frozen=True)
class PositionTrial:
    """A trained network, its test scores, and its logits for the same images whole and with shuffled patches."""

    model: PatchAttention
    history: list[Row]
    test: Mapping[str, float]
    whole: Float[Tensor, "example class"]
    shuffled: Float[Tensor, "example class"]
    shuffled_accuracy: float

    @property
    def changed(self) -> float:
        """Share of the images whose predicted class changes with shuffling."""
        return (self.whole.argmax(-1) != self.shuffled.argmax(-1)).double().mean().item()

    @property
    def largest_change(self) -> float:
        return (self.whole - self.shuffled).abs().max().item()


def build(options: PositionsOptions, seed: int) -> Study:
    splits = study.prepare_classes(options.data, seed)
    require_pictures("attention over patches", splits)

    def compute(folder: Path, display: Display) -> Findings:
        def run(name: str, kind: PositionName) -> PositionTrial:
            return _train(name, kind, options, splits, seed, folder)

        trials = study.compare(NAMES, run, display, lambda trial: f"test accuracy {percent(trial.test['accuracy'])}")
        results = [Result(name, trial.test) for name, trial in trials.items()]
        for name, trial in trials.items():
            results.append(Result(f"{name}, patches shuffled", {"accuracy": trial.shuffled_accuracy}))
        sections = [_encodings_section(options), _learning_section(trials)]
        sections += [_shuffling_section(trials, splits.test, seed), _places_section(trials)]
        return Findings([*results, *baselines(splits)], sections)

    return Study("positions", compute, {"source": splits.train.source})


def _train(
    name: str, kind: PositionName, options: PositionsOptions, splits: Splits, seed: int, folder: Path
) -> PositionTrial:
    sizes = {"patch": options.patch, "width": options.width, "key_width": options.width, "layers": options.layers}
    config = PatchAttentionConfig(**sizes, positions=kind)
    training = TrainingConfig(updates=options.updates, learning_rate=options.learning_rate, clip=1.0, keep="last")
    model = new_patch_attention(config, splits.train, seed)
    learner = Classification(model)
    batches = study.shuffled(splits.train, training.batch_size, seed, Augment(shift=0.5, rotate=10, zoom=0.1))
    history = study.train_trial(folder, name, learner, batches, study.in_order(splits.validation), training, seed=seed)
    model.eval()
    whole, mixed = [], []
    with torch.no_grad():
        for number, inputs in enumerate(splits.test.inputs.split(EVALUATION_BATCH)):
            patches = model.patches(inputs)
            whole.append(model.classify(patches))
            mixed.append(model.classify(shuffle_patches(patches, seed, number)))
    logits = torch.cat(mixed)
    accuracy = (logits.argmax(-1) == splits.test.targets).double().mean().item()
    return PositionTrial(model, history, study.score(learner, splits.test), torch.cat(whole), logits, accuracy)


def shuffle_patches(patches: Patches, seed: int, number: int) -> Patches:
    """Those of every image in an order of their own; batch `number` is shuffled in the same way each time."""
    order = torch.rand(patches.shape[:2], generator=seeded(seed, "patches", number)).argsort(-1)
    return patches.gather(1, order[..., None].expand_as(patches))


# --- the report -------------------------------------------------------------------------------------------------------


def _encodings_section(options: PositionsOptions) -> Section:
    encodings = sinusoidal(options.encoded, options.dimensions)
    far = sinusoidal(FARTHEST + 1, options.dimensions)
    widths = sorted({options.dimensions, 64, 16}, reverse=True)
    words = (
        "PE(i, 2j) = sin(i / 10000^(2j/d)) and PE(i, 2j + 1) = cos(i / 10000^(2j/d)): every pair of dimensions is a "
        "rotation, each slower than the one before. The first tell neighbours apart, the last tell the beginning of a "
        "long text from its end. No two positions are the same, and nothing has to be learned, so that a text may have "
        "any length."
    )
    products = (
        "The inner product of two encodings is Σ cos((i − k) / 10000^(2j/d)): it depends on their distance alone, "
        "which is what attention, made of inner products, can use."
    )
    by_distance = {f"d = {width}": similarity_by_distance(FARTHEST, width) for width in widths}
    alt = "inner products of the encodings of all pairs of positions, and by distance"
    similarity = Picture.of(position_similarity(far, by_distance), alt, products)
    figure, alt = position_encodings(encodings), "sinusoidal encodings, a row for each position"
    return Section.illustrated("Sinusoidal positions", words, figure, alt, similarity)


def similarity_by_distance(farthest: int, width: int) -> Float[Tensor, " distance"]:
    """Inner products of position 0 with those at distances 0, 1, … `farthest`, relative to itself."""
    encodings = sinusoidal(farthest + 1, width)
    return encodings @ encodings[0] / encodings[0].square().sum()


def _learning_section(trials: Mapping[str, PositionTrial]) -> Section:
    reached = ", ".join(f"{percent(trial.test['accuracy'])} with {name}" for name, trial in trials.items())
    words = "The same network on the same images in the same order. Without positions it sees a bag of patches: which "
    words += f"there are, and not where. Test accuracy: {reached}."
    figure = learning_curves({name: trial.history for name, trial in trials.items()}, "accuracy")
    alt = "validation accuracy with each kind of positions"
    return Section.illustrated("Learning with and without", words, figure, alt)


def _shuffling_section(trials: Mapping[str, PositionTrial], test: Examples, seed: int) -> Section:
    words = (
        "The test images again, the patches of each in a random order of its own. Without positions, attention is "
        "equivariant to permutations and the mean over the patches invariant: a logit changes by "
        f"{trials[NONE].largest_change:.2g} at most, with learned positions by {trials[LEARNED].largest_change:.2g}. "
        "Below, the predictions of these two networks."
    )
    rows = []
    for name, trial in trials.items():
        accuracies = percent(trial.test["accuracy"], 2), percent(trial.shuffled_accuracy, 2)
        rows.append([NAMES[name], *accuracies, percent(trial.changed), f"{trial.largest_change:.2g}"])
    header = ["positions", "test accuracy", "on shuffled patches", "predictions changed", "largest change of a logit"]
    gallery = Gallery(_shuffled_pairs(trials, test, seed))
    return Section.of("Shuffled patches", words, Table(header, rows), gallery)


def _shuffled_pairs(trials: Mapping[str, PositionTrial], test: Examples, seed: int) -> list[Thumbnail]:
    """Some test images, each followed by its shuffled self, with the predictions with learned and without positions."""
    model, classes = trials[LEARNED].model, test.schema.classes
    first = test.inputs[:EVALUATION_BATCH]  # the batch that they were shuffled with
    mixed = image_of(model, shuffle_patches(model.patches(first), seed, 0))
    found = []
    for index in range(min(SHOWN, len(test))):
        truth = classes[int(test.targets[index])]
        for images, logits, caption in ((first, "whole", truth), (mixed, "shuffled", "shuffled")):
            learned, none = (classes[int(getattr(trials[name], logits)[index].argmax())] for name in (LEARNED, NONE))
            shown = Examples(images[index : index + 1], test.targets[index : index + 1], test.schema, test.source)
            found.append(Thumbnail(pixels(shown.inputs[0]), caption, f"learned {learned}, none {none}"))
    return found


def image_of(model: PatchAttention, patches: Patches) -> Tensor:
    """Patches laid out as an image again, in bytes; with its padding, where the patches do not divide it."""
    sizes = {"row": model.config.grid[0], "a": model.config.patch_side, "b": model.config.patch_side}
    z = rearrange(patches, "batch (row column) (channel a b) -> batch channel (row a) (column b)", **sizes)
    return model.standardize.inverse(z).round().clamp(0, 255).to(torch.uint8)


def _places_section(trials: Mapping[str, PositionTrial]) -> Section:
    """Cosine similarity of the position vectors of every two patches."""
    grid = trials[LEARNED].model.config.grid
    tables = {name: trials[name].model.positions.table.detach() for name in sorted(NAMES, reverse=True) if name != NONE}
    similarity = {name: F.cosine_similarity(table[:, None], table[None], dim=-1) for name, table in tables.items()}
    words = (
        f"A small map for each of the {grid[0]} × {grid[1]} patches, in the place of that patch: red where another "
        "patch has a similar position vector, blue where it has an opposite one. The sinusoids number the patches row "
        "by row, and know nothing of columns. The learned vectors were initialised at random; any structure in them "
        "was found by training."
    )
    rows = [[name, *(f"{value:.2f}" for value in _near_and_far(each, grid))] for name, each in similarity.items()]
    picture = Picture.of(position_maps(similarity, grid), "similarity of the positions of the patches")
    table = Table(["", "mean similarity of neighbours", "of patches farther apart"], rows)
    return Section.of("What was learned about places", words, picture, table)


def _near_and_far(similarity: Float[Tensor, "patch patch"], grid: tuple[int, int]) -> tuple[float, float]:
    """Neighbours share an edge."""
    places = torch.cartesian_prod(torch.arange(grid[0]), torch.arange(grid[1]))
    distance = (places[:, None] - places[None]).abs().sum(-1)
    return similarity[distance == 1].mean().item(), similarity[distance > 1].mean().item()


RECIPE = Recipe(PositionsOptions(), build, about="parts.positions")
