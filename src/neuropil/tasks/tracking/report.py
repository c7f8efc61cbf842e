"""What a report shows of a tracker: its tracks, the error while the object is hidden, what it learned from."""

from collections.abc import Mapping, Sequence

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from neuropil.data.films.dataset import Films
from neuropil.inspection.pictures.tracks import Track, error_since_hidden, film_paths, film_strips
from neuropil.inspection.report.page import Picture, Section, Table, Text
from neuropil.tasks import report
from neuropil.tasks.tracking.scores import distances, frames_hidden

SHOWN = 3


def tracks_section(test: Films, predictions: Float[Tensor, "frame 2"]) -> Section:
    """Of the first films, with positions in pixels of the frames that the model sees."""
    some = test.take(torch.arange(min(SHOWN, len(test))))
    scale = torch.tensor([test.shape[2] / test.size[1], test.shape[1] / test.size[0]])
    images = rearrange(some.frames, "frame channel height width -> frame height width channel")
    images = images.squeeze(-1) if images.shape[-1] == 1 else images
    parts = (images, some.positions * scale, predictions[: len(some.frames)] * scale, some.hidden)
    split = (part.split(some.lengths.tolist()) for part in parts)
    tracks = [Track(*pieces) for pieces in zip(*split, strict=True)]
    words = (
        "Films of the test part. A ring is the true position, a cross the predicted one; a frame with a thick border "
        "does not show the object."
    )
    strips = Picture.of(film_strips(tracks), alt="film strips with true and predicted positions")
    paths = Picture.of(film_paths(tracks), alt="true and predicted paths")
    return Section("Tracks", [Text(words), strips, Text("The same films as paths:"), paths])


def occlusion_section(test: Films, predictions: Mapping[str, Float[Tensor, "frame 2"]]) -> Section:
    since = frames_hidden(test)
    counts = {step: int((test.known & (since == step)).sum()) for step in range(int(since.max()) + 1)}
    counts = {step: count for step, count in counts.items() if count}
    means = {}
    for name, positions in predictions.items():
        error = distances(positions, test)
        means[name] = torch.stack([error[test.known & (since == step)].mean() for step in counts])
    words = (
        "While the object is hidden, a network that sees each frame alone cannot know where it is, and a straight line "
        "goes through the walls. A recurrent network can know both: where the object was going, and that it bounces "
        f"off. {_hidden_words(means, list(counts))}"
    )
    rows = [
        ["seen" if step == 0 else str(step), count, *(f"{each[place]:.2f}" for each in means.values())]
        for place, (step, count) in enumerate(counts.items())
    ]
    figure = error_since_hidden(means, list(counts.values()))
    table = Table(["frames since it was seen last", "frames", *means], rows, "Mean distance in pixels.")
    alt = "error against the frames since the object was seen"
    return Section("Occlusion", [Text(words), Picture.of(figure, alt=alt), table])


def _hidden_words(means: Mapping[str, Tensor], steps: Sequence[int]) -> str:
    """Which is nearest in the frames that have been hidden longest."""
    last = {name: each[-1].item() for name, each in means.items()}
    best = min(last, key=last.__getitem__)
    return f"After {steps[-1]} hidden frames the nearest is {best}, {last[best]:.2f} pixels away."


def data_section(parts: Mapping[str, Films], notes: Sequence[str]) -> Section:
    rows = [
        [name, len(films), len(films.frames), int(films.known.sum()), int(films.hidden.sum())]
        for name, films in parts.items()
    ]
    header = ["part", "films", "frames", "of known position", "hidden"]
    return report.data_section(parts["train"].source, header, rows, notes)
