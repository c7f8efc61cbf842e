"""What a report shows of a convolutional network: the activation maps of a picture."""

from collections.abc import Sequence

from jaxtyping import Float, Num
from torch import Tensor, nn

from neuropil.inspection.activation_maps import Maps, activation_maps, activity, most_active
from neuropil.inspection.pictures.images import activation_rows
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Block, Gallery, Picture, Section, Table, Text, Thumbnail

SHOWN = 12
"""Channels of each layer."""
NAMED = 3
"""Most active channels that the table names."""


def activation_section(model: nn.Module, picture: Num[Tensor, "channel height width"], caption: str) -> Section:
    maps = activation_maps(model, picture[None].to(next(model.parameters()).device))
    return Section("Activation maps", activation_blocks(maps, picture, caption))


def activation_blocks(
    maps: Maps, picture: Num[Tensor, "channel height width"], caption: str, sub: str = ""
) -> list[Block]:
    """For the first picture of `maps`."""
    ours = {name: each[0].float().cpu() for name, each in maps.items()}
    shown = {name: most_active(each, SHOWN) for name, each in ours.items()}
    figure = activation_rows(
        {name: each[shown[name]] for name, each in ours.items()},
        {name: channels.tolist() for name, channels in shown.items()},
    )
    words = (
        "Each kernel of a convolution, at every place of the picture, makes one activation map; each row is a layer, "
        f"from the input down, with the {SHOWN} channels that are most active (by mean |activation|), the most active "
        "first. Red is positive, blue negative, white zero. Each map has a scale of its own, up to the number behind "
        "its channel. A convolution is shown before batch norm and activation, a block as it passes on."
    )
    header = ["layer", "channels", "places", "most active channels", "their mean |activation|", "largest"]
    table = Table(header, [_row(name, each, shown[name].tolist()) for name, each in ours.items()])
    alt = "activation maps of the most active channels of each layer"
    return [Text(words), Gallery([Thumbnail(pixels(picture), caption, sub)]), Picture.of(figure, alt), table]


def _row(name: str, maps: Float[Tensor, "channel row column"], channels: Sequence[int]) -> list[str | int]:
    first, sizes = channels[:NAMED], activity(maps)
    places = f"{maps.shape[1]} × {maps.shape[2]}"
    means = ", ".join(f"{sizes[channel]:.2g}" for channel in first)
    return [name, len(maps), places, ", ".join(map(str, first)), means, f"{maps.abs().max():.3g}"]
