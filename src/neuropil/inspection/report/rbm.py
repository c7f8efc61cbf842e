"""Sections on a restricted Boltzmann machine: its filters, reconstructions, and how its likelihood was found."""

from torch import Tensor

from neuropil.data.examples.dataset import Examples
from neuropil.inspection.pictures.weights import weight_grid
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Gallery, Picture, Section, Text, Thumbnail
from neuropil.models.rbm import RBM

FILTERS, SHOWN = 48, 12


def rbm_sections(model: RBM, test: Examples, reconstructed: Tensor, likelihood: str) -> list[Section]:
    """`reconstructed` are the first examples of the test part after the hidden units; `likelihood` says how it was
    measured."""
    sections = [Section("Likelihood", [Text(likelihood)])]
    if test.schema.kind != "image":
        return sections
    strongest = model.weight.detach().norm(dim=0).argsort(descending=True)[:FILTERS]
    filters = model.weight.detach()[:, strongest].T.cpu().unflatten(1, test.schema.shape).mean(1)
    words = "Each square has the weights of one hidden unit, the strongest first: blue is negative, red positive."
    figure = Picture.of(weight_grid(filters.numpy()), alt="weights of hidden units")
    pairs = zip(test.inputs, reconstructed, strict=False)
    shown = [
        Thumbnail(pixels(image), caption)
        for pair in pairs
        for image, caption in zip(pair, ("original", "reconstruction"), strict=True)
    ]
    return [
        Section("Filters", [Text(words), figure]),
        Section("Reconstructions", [Text("Test examples, after the hidden units and back."), Gallery(shown)]),
        *sections,
    ]
