"""What a report shows of a classifier or a regressor: how it learned, where it errs, what is inside it, what it learned from."""

from collections.abc import Sequence

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from neuropil.data.augmentation import Augment
from neuropil.data.examples.dataset import Examples
from neuropil.data.splits import Splits
from neuropil.inspection import mistakes, pictures
from neuropil.inspection.report.page import Block, Gallery, Picture, Section, Table, Text, Thumbnail
from neuropil.inspection.summary import parameter_table
from neuropil.parts.parameters import ParameterRow, count_parameters
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig

WORST = 12
MOST_IN_MATRIX = 40
"""With more classes the cells of a confusion matrix become too small for numbers, and its commonest confusions are listed too."""


def learning_section(history: Sequence[Row], training: TrainingConfig) -> Section:
    curve = Picture.of(pictures.learning_curve(history), alt="loss and metrics against training steps")
    seconds = max((row["seconds"] for row in history), default=0.0)
    words = f"Training took {seconds:,.1f} seconds."
    if any(row["kind"] == "validation" for row in history):
        kept = (
            "of the last step"
            if training.keep == "last"
            else f"with the best validation {training.monitor.replace('_', ' ')}"
        )
        words += f" The weights {kept} are kept; the ring marks the lowest validation loss."
    return Section("How it learned", [Text(words), curve])


def mistakes_section(test: Examples, scores: Float[Tensor, "example output"]) -> Section:
    classes = test.schema.classes
    if not classes:
        figure = pictures.predicted_against_actual(scores[:, 0].numpy(), test.targets[:, 0].numpy())
        return Section(
            "Where it errs",
            [Picture.of(figure, alt="predicted against actual values of the test part, and the residuals")],
        )
    counts = mistakes.confusion_counts(scores.argmax(-1), test.targets, len(classes))
    blocks: list[Block] = [
        Picture.of(pictures.confusion_matrix(counts, classes), alt="confusion matrix of the test part")
    ]
    worst = mistakes.worst_mistakes(scores, test.targets, WORST).tolist()
    if not worst:
        blocks.append(Text("No mistake was made on the test part."))
    elif test.schema.kind == "image":
        blocks += [Text("The most confident mistakes:"), Gallery([_thumbnail(test, scores, index) for index in worst])]
    if len(classes) > MOST_IN_MATRIX:
        blocks.append(mistakes.confused_pairs(counts, classes, WORST))
    blocks.append(mistakes.per_class_table(counts, classes))
    return Section("Where it errs", blocks)


def inside_section(model: nn.Module, test: Examples) -> Section:
    """The weights that touch the picture, drawn as pictures."""
    first = next(module for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear))
    weight = first.weight.detach().cpu()
    if isinstance(first, nn.Conv2d):
        images, what = weight.mean(1), "a kernel of the first convolution"
    elif test.schema.kind == "image":
        images = rearrange(weight, "unit (channel height width) -> unit channel height width", **_axes(test)).mean(1)
        what = "what one unit of the first layer adds up"
    else:
        strength = weight.abs().mean(0)
        rows = [[name, float(value)] for name, value in zip(_feature_names(test), strength.tolist(), strict=True)]
        rows.sort(key=lambda row: -float(row[1]))
        return Section("What is inside", [Table(["feature", "mean |weight| in the first layer"], rows[:40])])
    figure = pictures.weight_grid(images[:48].numpy())
    return Section(
        "What is inside",
        [Text(f"Each square is {what}: blue pulls down, red pushes up."), Picture.of(figure, alt=what)],
    )


def model_section(rows: Sequence[ParameterRow], model: nn.Module) -> Section:
    words = f"The model learns {count_parameters(model):,} numbers, counted by formula and in the model itself."
    return Section("Parameters", [Text(words), parameter_table(model, rows)])


def data_section(splits: Splits[Examples], augment: Augment | None) -> Section:
    rows = [[name, len(part)] for name, part in vars(splits).items()]
    blocks: list[Block] = [Text(f"{splits.train.source}."), Table(["part", "examples"], rows)]
    if splits.train.schema.kind == "image":
        shown = torch.arange(min(12, len(splits.train)))
        blocks.append(
            Gallery(
                [Thumbnail(pixels(splits.train, index), _class_of(splits.train, index)) for index in shown.tolist()]
            )
        )
    if augment is not None:
        changes = ", ".join(f"{name} {value:g}" for name, value in augment.to_dict().items() if value)
        blocks.append(
            Text(
                f"Training pictures are changed at random, anew in each epoch: {changes}."
                if changes
                else "No augmentation."
            )
        )
    return Section("Data", blocks)


def _thumbnail(test: Examples, scores: Tensor, index: int) -> Thumbnail:
    share, guess = scores[index].max(-1)
    said = f"said {test.schema.classes[int(guess)]} ({100 * float(share):.0f} %)"
    return Thumbnail(pixels(test, index), f"{_class_of(test, index)}", said)


def pixels(examples: Examples, index: int) -> UInt8[np.ndarray, "height width"] | UInt8[np.ndarray, "height width 3"]:
    """One picture as a report shows it: grey, or colour with the channels last."""
    image = rearrange(examples.inputs[index], "channel height width -> height width channel").numpy()
    return image[..., 0] if image.shape[-1] == 1 else image


def _class_of(examples: Examples, index: int) -> str:
    return (
        examples.schema.classes[int(examples.targets[index])]
        if examples.schema.classes
        else f"{float(examples.targets[index]):g}"
    )


def _axes(test: Examples) -> dict[str, int]:
    return dict(zip(("channel", "height", "width"), test.schema.shape, strict=True))


def _feature_names(test: Examples) -> list[str]:
    columns = test.schema.columns
    names = [
        f"{column.name} = {value}" if column.values else column.name
        for column in columns
        for value in (column.values or ("",))
    ]
    return names or [f"feature {index}" for index in range(test.schema.shape[0])]
