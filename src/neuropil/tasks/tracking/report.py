"""What a report shows of a tracker: how it learned, where it says things are, how long it remembers, what it learned from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from einops import rearrange

from neuropil.inspection.pictures.tracks import Track, error_since_hidden, film_paths, film_strips
from neuropil.inspection.report.page import Picture, Section, Table, Text
from neuropil.tasks.classification.report import learning_section, model_section
from neuropil.tasks.tracking.scores import distances, frames_hidden
from neuropil.training.history import Row

if TYPE_CHECKING:
    from neuropil.tasks.tracking.experiment import FollowingFilms

SHOWN = 3


def sections(experiment: "FollowingFilms", history: Sequence[Row]) -> list[Section]:
    found = [learning_section(history, experiment.training), following_section(experiment)]
    if bool(experiment.splits.test.hidden.any()):
        found.append(hiding_section(experiment))
    return [*found, model_section(experiment.model.parameter_table(), experiment.model), data_section(experiment)]


def following_section(experiment: "FollowingFilms") -> Section:
    films = tracks(experiment)
    words = (
        "Films of the test part. A ring is where the object is, a cross where the tracker says that it is; a frame with a thick border "
        "does not show the object."
    )
    return Section(
        "What it follows",
        [
            Text(words),
            Picture.of(film_strips(films), alt="film strips with true and told positions"),
            Text("The same films as paths:"),
            Picture.of(film_paths(films), alt="true and told paths"),
        ],
    )


def tracks(experiment: "FollowingFilms") -> list[Track]:
    """Of the first films of the test part, with positions in pixels of the frames that the model sees."""
    test = experiment.splits.test
    some = test.take(torch.arange(min(SHOWN, len(test))))
    lengths = some.lengths.tolist()
    scale = torch.tensor([test.shape[2] / test.size[1], test.shape[1] / test.size[0]])
    images = rearrange(some.frames, "frame channel height width -> frame height width channel")
    images = images.squeeze(-1) if images.shape[-1] == 1 else images
    told = next(iter(experiment.told.values()))[: len(some.frames)]
    parts = (images, some.positions * scale, told * scale, some.hidden)
    return [Track(*pieces) for pieces in zip(*(part.split(lengths) for part in parts), strict=True)]


def hiding_section(experiment: "FollowingFilms") -> Section:
    test = experiment.splits.test
    since = frames_hidden(test)
    steps = range(int(since.max()) + 1)
    errors = {name: distances(told, test) for name, told in experiment.told.items()}
    counts = [int((test.known & (since == step)).sum()) for step in steps]
    means = {
        name: torch.stack([error[test.known & (since == step)].mean() for step in steps if counts[step]])
        for name, error in errors.items()
    }
    kept = [count for count in counts if count]
    words = (
        "While the object is hidden, a network that answers frame by frame knows nothing of where it is, and a straight line goes through "
        "the walls. What has a memory can know both: where the object was going, and that it bounces off."
    )
    rows = [["seen" if step == 0 else str(step), counts[step]] for step in steps if counts[step]]
    for place, row in enumerate(rows):
        row += [f"{means[name][place]:.2f}" for name in means]
    return Section(
        "How long it remembers",
        [
            Text(words),
            Picture.of(error_since_hidden(means, kept), alt="error against the frames since the object was seen"),
            Table(["frames since it was seen last", "frames", *means], rows, "Mean distance in pixels."),
        ],
    )


def data_section(experiment: "FollowingFilms") -> Section:
    splits = experiment.splits
    rows = []
    for part in ("train", "validation", "test"):
        films = getattr(splits, part)
        rows.append([part, len(films), len(films.frames), int(films.known.sum()), int(films.hidden.sum())])
    return Section(
        "Data",
        [
            Text(f"{splits.train.source}."),
            Table(["part", "films", "frames", "of known position", "hidden"], rows),
            *map(Text, splits.notes),
        ],
    )
