"""What a report shows of an autoencoder: reconstructions beside PCA's, and the codes in the plane."""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.data.examples.dataset import Examples
from neuropil.inspection.pictures.codes import code_map
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Gallery, Picture, Section, Table, Text, Thumbnail

SHOWN = 8


def chosen(test: Examples) -> Int64[Tensor, " chosen"]:
    """Examples to show, evenly spaced."""
    return torch.linspace(0, len(test) - 1, min(SHOWN, len(test))).round().long()


def reconstructions_section(shown: Examples, made: Mapping[str, Tensor]) -> Section:
    """`made` has what each method makes of the shown examples, as the data has them."""
    words = (
        "Examples of the test part, what is left of each after its code, and what as many principal components keep."
    )
    if shown.schema.kind != "image":
        header = ["", *(f"feature {number}" for number in range(shown.schema.shape[0]))]
        columns = {"original": shown.inputs, **made}
        rows = [[name, *values[i].tolist()] for i in range(len(shown)) for name, values in columns.items()]
        return Section("Reconstructions", [Text(words), Table(header, rows)])
    items = [
        Thumbnail(pixels(values[index]), name)
        for index in range(len(shown))
        for name, values in {"original": shown.inputs, **made}.items()
    ]
    return Section("Reconstructions", [Text(words), Gallery(items)])


def codes_section(codes: Float[Tensor, "example latent"], test: Examples) -> Section:
    """The codes themselves where they have two dimensions, otherwise their two largest principal components."""
    classes, latent = test.schema.classes, codes.shape[1]
    if latent > 2:
        _, _, directions = torch.linalg.svd(codes - codes.mean(0), full_matrices=False)
        points, axes = (codes - codes.mean(0)) @ directions[:2].mT, ["first component", "second component"]
        words = f"The {latent} dimensions of the codes of the test part, reduced to their two principal components."
    else:
        points = torch.cat([codes, torch.zeros(len(codes), 2 - latent)], 1)
        axes, words = ["z₁", "z₂"], "The codes of the test part."
    figure = code_map(points.numpy(), test.targets.numpy() if classes else None, classes, axes)
    return Section("Codes", [Text(words), Picture.of(figure, alt="codes of the test examples in the plane")])
