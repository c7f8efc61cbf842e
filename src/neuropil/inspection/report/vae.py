"""Sections on a variational autoencoder: what its latent dimensions say, the plane of codes, and a way between two
examples."""

import torch
from torch import Tensor

from neuropil.data.examples.dataset import Examples
from neuropil.inspection.pictures.codes import code_map
from neuropil.inspection.pictures.images import image_grid
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Picture, Section, Table, Text
from neuropil.models.vae import VAE, collapsed_dimensions, kl_of_dimensions
from neuropil.parts.coders.latents import interpolate, latent_grid

SIDE, STEPS, WAYS = 9, 8, 3
MOST_CODES = 2_000


@torch.no_grad()
def vae_sections(model: VAE, test: Examples) -> list[Section]:
    was_training = model.training
    model.eval()
    inputs = test.inputs[:MOST_CODES].to(model.mean.weight.device)
    kl = kl_of_dimensions(model, inputs).cpu()
    first, second = (kl.argsort(descending=True)[:2].tolist() * 2)[:2]
    sections = [_dimensions_section(kl), _plane_section(model, test, inputs, (first, second))]
    if test.schema.kind == "image":
        sections += [_grid_section(model, (first, second)), _ways_section(model, inputs)]
    model.train(was_training)
    return sections


def _dimensions_section(kl: Tensor) -> Section:
    collapsed = collapsed_dimensions(kl)
    used = len(kl) - len(collapsed)
    words = (
        f"The code of a test example says {kl.sum():.1f} nats about it on average, in {used} of {len(kl)} dimensions."
    )
    if collapsed:
        numbers = ", ".join(str(number + 1) for number in collapsed)
        words += f" Collapsed, so that the decoder ignores them: {numbers}."
    order = kl.argsort(descending=True).tolist()
    rows = [[number + 1, float(kl[number]), "collapsed" if number in collapsed else ""] for number in order]
    return Section("Latent dimensions", [Text(words), Table(["dimension", "mean KL (nats)", ""], rows)])


def _plane_section(model: VAE, test: Examples, inputs: Tensor, shown: tuple[int, int]) -> Section:
    codes = model.encode(inputs).cpu()[:, shown]
    classes = test.schema.classes
    names = [f"z{number + 1}" for number in shown]
    figure = code_map(codes.numpy(), test.targets[: len(codes)].numpy() if classes else None, classes, names)
    words = "Codes of test examples in the two dimensions that say most. The prior is a Gaussian of unit variance."
    return Section("Codes", [Text(words), Picture.of(figure, alt="codes of test examples in the plane")])


def _grid_section(model: VAE, shown: tuple[int, int]) -> Section:
    codes = torch.zeros(SIDE**2, model.config.latent_size)
    codes[:, list(shown)] = latent_grid(SIDE)
    words = "What is decoded over the plane of these two dimensions, from −1.6 to 1.6 standard deviations, others at 0."
    return Section(
        "Latent grid", [Text(words), _pictures(model, codes, SIDE, "decoded pictures over a plane of codes")]
    )


def _ways_section(model: VAE, inputs: Tensor) -> Section:
    ends = model.encode(inputs[: 2 * WAYS]).cpu()
    pairs = zip(ends[0::2], ends[1::2], strict=False)
    codes = torch.cat([interpolate(a, b, STEPS) for a, b in pairs])
    words = "Interpolation: each row goes from the code of one test example to that of another."
    return Section("Interpolation", [Text(words), _pictures(model, codes, STEPS, "pictures between pairs of examples")])


def _pictures(model: VAE, codes: Tensor, columns: int, alt: str) -> Picture:
    unit = model.decode(codes.to(model.mean.weight.device))
    images = model.unit_range.inverse(unit).round().clamp(0, 255).to(torch.uint8).cpu()
    arrays = torch.stack([torch.from_numpy(pixels(image)) for image in images])
    return Picture.of(image_grid(arrays, columns=columns), alt=alt)
