"""Sections on self-attention over patches: the weights of each layer over the pictures, and their entropy."""

import math

import torch
from einops import reduce
from jaxtyping import Float
from torch import Tensor

from neuropil.data.examples.dataset import Examples
from neuropil.inspection.attention_spread import entropy
from neuropil.inspection.pictures.attention import patch_attention
from neuropil.inspection.pictures.images import patch_overlays, received_attention
from neuropil.inspection.recording import record
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Picture, Section, Table, Text
from neuropil.models.attention import PatchAttention

SHOWN, MOST_CLASSES, MOST_EXAMPLES = 4, 20, 512


def weights_of(model: PatchAttention, examples: Examples) -> dict[str, Float[Tensor, "example patch patch"]]:
    """sim(Q, K) of every layer, as the trained model computes it."""
    was_training = model.training
    model.eval()
    with torch.no_grad(), record(model) as tape:
        model(examples.inputs.to(next(model.parameters()).device))
    model.train(was_training)
    return {f"layer {index + 1}": weights[:, 0].cpu() for index, weights in enumerate(tape.attention.values())}


def weights_section(model: PatchAttention, test: Examples) -> Section:
    shown = test.take(_one_of_each_class(test)[:SHOWN])
    weights, grid = weights_of(model, shown), model.config.grid
    images = torch.stack([torch.from_numpy(pixels(shown.inputs[index])) for index in range(len(shown))])
    titles = [shown.schema.classes[int(target)] for target in shown.targets]
    last, matrices = list(weights.items())[-1]
    words = (
        f"Each picture is cut into {math.prod(grid)} patches of {model.config.patch_side} × {model.config.patch_side} "
        "pixels. Below it are its matrices of attention weights, sim(Q, K), the darker the larger: row i has the "
        "weights of query patch i over all key patches, and sums to one. A column that is dark all the way down is a "
        "patch that all others attend to."
    )
    again = (
        f"The attention weights of {last} overlaid on the first picture, once for every query patch, which is framed: "
        "the brighter a patch, the larger its weight. Weights show where information may flow from; they do not by "
        "themselves explain a prediction."
    )
    figure, alt = patch_attention(images, weights, grid, titles), "pictures in patches and their attention matrices"
    overlays = patch_overlays(images[0], matrices[0], grid)
    overlay = Picture.of(overlays, alt=f"attention weights of each query patch of a {titles[0]}")
    return Section.illustrated("Attention weights", words, figure, alt, Text(again), overlay)


def entropy_section(model: PatchAttention, test: Examples) -> Section:
    """Averages over (at most so many) examples of the test part."""
    some = test.take(torch.arange(min(MOST_EXAMPLES, len(test))))
    weights = weights_of(model, some)
    last, matrices = list(weights.items())[-1]
    num_patches = matrices.shape[-1]
    received = reduce(matrices, "example query key -> example key", "mean")
    classes = some.targets.unique()[:MOST_CLASSES]
    means = torch.stack([some.inputs[some.targets == target].float().mean(0) for target in classes]).movedim(1, -1)
    figure = received_attention(
        means.squeeze(-1) if means.shape[-1] == 1 else means / 255,
        torch.stack([received[some.targets == target].mean(0) for target in classes]),
        model.config.grid,
        [some.schema.classes[int(target)] for target in classes],
    )
    rows = [[name, *_spread(each)] for name, each in weights.items()]
    words = f"The attention that each patch receives in {last}: its mean weight over all query patches and the test "
    words += "pictures of a class, overlaid on the mean of those pictures."
    caption = (
        f"Means over queries and pictures. The entropy is {math.log2(num_patches):.2f} bits for equal weights on all "
        f"{num_patches} patches, and 0 for all weight on one; 2 to its power is the effective number of patches."
    )
    header = ["", "entropy in bits", "effective patches", "largest weight", "weight on itself"]
    alt = "attention received by each patch, for each class"
    return Section.illustrated("Attention received", words, figure, alt, Table(header, rows, caption))


def _spread(weights: Float[Tensor, "example patch patch"]) -> list[str]:
    bits = entropy(weights).mean().item()
    largest, itself = weights.amax(-1).mean().item(), weights.diagonal(dim1=-2, dim2=-1).mean().item()
    return [f"{bits:.2f}", f"{2**bits:.1f}", f"{100 * largest:.0f} %", f"{100 * itself:.0f} %"]


def _one_of_each_class(examples: Examples) -> Tensor:
    """The first example of each class that there is."""
    return torch.stack([(examples.targets == target).nonzero()[0, 0] for target in examples.targets.unique()])
