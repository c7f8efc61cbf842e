"""Sections on a restricted Boltzmann machine: its filters, reconstructions, how its likelihood was found, and what
noise does for its updates."""

from jaxtyping import Float
from torch import Tensor

from neuropil.data.examples.dataset import Examples
from neuropil.inspection.pictures.memories import energies_above
from neuropil.inspection.pictures.weights import weight_grid
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Gallery, Picture, Section, Text, Thumbnail, percent
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


def updates_section(
    deterministic: Float[Tensor, "sweep start"],
    stochastic: Float[Tensor, "longer start"],
    *,
    lowest: float,
    stuck: tuple[float, float],
    temperatures: tuple[float, float, int],
) -> Section:
    """Energies of the same random states by both kinds of updates. `stuck` are the shares of them that end above the
    `lowest` energy, `temperatures` the first, the last, and the number of sweeps between them."""
    (stopped, cooled), (hot, cold, sweeps) = stuck, temperatures
    words = (
        f"{deterministic.shape[1]} random states, whose units are updated one at a time by their energy gaps. "
        f"Deterministic updates do what lowers the energy; after {len(deterministic) - 1} sweeps no unit can lower it "
        f"further, and {percent(stopped, 0)} of the states are stuck above the lowest energy that was found. Of "
        f"stochastic updates of the same states, at a temperature that falls from {hot:g} to {cold:g} in {sweeps:,} "
        f"sweeps, it is {percent(cooled, 0)}. {_compared(stopped, cooled)}"
    )
    panels = {
        f"Deterministic: {percent(stopped, 0)} stuck": deterministic,
        f"Stochastic, T from {hot:g} to {cold:g}: {percent(cooled, 0)} stuck": stochastic,
    }
    alt = "energies over sweeps of deterministic and of stochastic updates"
    return Section.illustrated("Deterministic and stochastic updates", words, energies_above(panels, lowest), alt)


def _compared(stopped: float, cooled: float) -> str:
    if stopped == 0 and cooled == 0:
        return "All reach the same energy: no other minimum was met."
    if cooled < stopped:
        return "Noise leaves minima in which deterministic updates get stuck."
    return "Noise did not help here: the temperature may fall too fast."
