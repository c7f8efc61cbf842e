"""The latent space of an autoencoder under the pointer: codes of examples, and what is decoded between them."""

from typing import Any, Literal

import torch
from einops import rearrange
from torch import Tensor

from neuropil.config import option
from neuropil.errors import InputError
from neuropil.lab.pictures import OFFERED, PictureRequest, chosen_picture, held_out, offered, rounded, rows_of
from neuropil.models.vae import VAE
from neuropil.parts.coders import latents
from neuropil.runs.run import Run
from neuropil.tasks.generation.predictor import CodeSampler
from neuropil.tasks.predictor import device_of
from neuropil.tasks.reconstruction.predictor import Reconstructor

MOST_DIMENSIONS = 64
LEAST_REACH, ROOM = 3.0, 1.1
"""Of an axis: three standard deviations of the prior, or as far as codes go, and a little more."""
STEPS = 9
MOST_TILES, MOST_PIXELS = 13, 400
"""In a row of the plane, and pixels of that row."""


class PlaneRequest(PictureRequest):
    horizontal: int = option(0, "latent dimension of the horizontal axis", low=0, high=1_000_000)
    vertical: int = option(1, "latent dimension of the vertical axis", low=0, high=1_000_000)
    x: float = option(0.0, "place on the horizontal axis", low=-1e4, high=1e4)
    y: float = option(0.0, "place on the vertical axis", low=-1e4, high=1e4)
    others: Literal["code", "zero"] = option("code", "the other dimensions: those of the picture's code, or 0")


class WayRequest(PictureRequest):
    last: int = option(0, "number of the held-out example at the end", low=0, high=OFFERED - 1)


def coder(run: Run) -> Reconstructor:
    predictor = run.predictor
    return predictor.reconstructor if isinstance(predictor, CodeSampler) else predictor


def open_view(run: Run) -> dict[str, Any]:
    held = held_out(run)
    codes = coder(run).encode(held.examples.inputs)
    if codes.shape[1] < 2 or codes.shape[1] > MOST_DIMENSIONS:
        rule = f"the latent plane is that of a code of 2 to {MOST_DIMENSIONS} dimensions"
        raise InputError(rule, got=f"{codes.shape[1]}", fix="train with --latent-size 8")
    widest = codes.std(0).argsort(descending=True).tolist()
    first = PlaneRequest(horizontal=widest[0], vertical=widest[1])
    return {
        "system": run.name,
        **offered(run),
        "classes": list(held.examples.schema.classes),
        "codes": rounded(codes, 3),
        "labels": held.names,
        "reach": rounded(reach_of(codes), 3),
        "horizontal": widest[0],
        "vertical": widest[1],
        "shown": encode(run, first),
        "plane": plane(run, first),
    }


def encode(run: Run, request: PictureRequest) -> dict[str, Any]:
    """The code of a picture, for a VAE with its deviation and its KL divergence from the prior, and what it decodes
    to."""
    picture = chosen_picture(run, request)
    reconstructor = coder(run)
    model, code = run.model, reconstructor.encode(picture)
    spread = {"deviation": None, "kl": None}
    if isinstance(model, VAE):
        with torch.no_grad():
            posterior = model.posterior(picture.to(device_of(model)))
        spread = {
            "deviation": rounded((0.5 * posterior.log_variance[0]).exp()),
            "kl": rounded(posterior.kl[0]),
        }
    return {
        "picture": rows_of(picture[0]),
        "reconstruction": rows_of(reconstructor.as_data(reconstructor.decode(code))[0]),
        "code": rounded(code[0]),
        **spread,
    }


def decode(run: Run, request: PlaneRequest) -> dict[str, Any]:
    reconstructor = coder(run)
    point = on_plane(run, request, torch.tensor([request.x]), torch.tensor([request.y]))
    return {"picture": rows_of(reconstructor.as_data(reconstructor.decode(point))[0])}


def plane(run: Run, request: PlaneRequest) -> dict[str, Any]:
    """Decoded pictures over the whole plane, as one, its first row that of the largest y."""
    reconstructor = coder(run)
    _, height, width = reconstructor.schema.shape
    tiles = max(2, min(MOST_TILES, MOST_PIXELS // max(height, width)))
    reach = reach_of(reconstructor.encode(held_out(run).examples.inputs))
    middles = 2 * (torch.arange(tiles) + 0.5) / tiles - 1
    ends = reach[[min(axis, len(reach) - 1) for axis in (request.horizontal, request.vertical)]]
    points = on_plane(run, request, ends[0] * middles, ends[1] * middles.flip(0))
    pictures = reconstructor.as_data(reconstructor.decode(points))
    whole = rearrange(pictures, "(row column) channel y x -> channel (row y) (column x)", row=tiles)
    return {"tiles": tiles, "picture": rows_of(whole)}


def on_plane(run: Run, request: PlaneRequest, across: Tensor, along: Tensor) -> Tensor:
    code = coder(run).encode(chosen_picture(run, request))[0]
    code = code if request.others == "code" else torch.zeros_like(code)
    return latents.plane(code, (request.horizontal, request.vertical), across, along)


def reach_of(codes: Tensor) -> Tensor:
    """Half the length of each axis."""
    return (ROOM * codes.abs().amax(0)).clamp(min=LEAST_REACH)


def interpolate(run: Run, request: WayRequest) -> dict[str, Any]:
    """From the chosen picture to an example, by codes at equal distances."""
    reconstructor = coder(run)
    first, last = chosen_picture(run, request), chosen_picture(run, PictureRequest(example=request.last))
    made = reconstructor.interpolate(first, last, STEPS).values
    codes = latents.interpolate(
        reconstructor.encode(first)[0], reconstructor.encode(last)[0], STEPS, reconstructor.path
    )
    return {"pictures": [rows_of(each) for each in made], "codes": rounded(codes)}


ACTIONS = {"open": open_view, "encode": encode, "decode": decode, "plane": plane, "interpolate": interpolate}
