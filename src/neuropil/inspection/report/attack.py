"""Sections on a classifier under attack, from plain data."""

from collections.abc import Mapping, Sequence

from jaxtyping import UInt8
from torch import Tensor

from neuropil.inspection.pictures.robustness import accuracy_over_eps
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Gallery, Section, Table, Text, Thumbnail, percent

CLEAN = "no attack"


def accuracy_section(
    accuracy: Mapping[str, float], curves: Mapping[str, Sequence[float]], radii: Sequence[float], eps: float, unit: str
) -> Section:
    """`accuracy` under each attack at `eps`; `curves` over the radii."""
    weakest = min(accuracy, key=lambda name: accuracy[name])
    words = f"Without an attack {percent(accuracy[CLEAN])} of the examples are classified rightly. "
    if weakest == CLEAN:
        words += f"No attack with ε = {eps:g} lowers that."
    else:
        words += f"Of perturbations by at most ε = {eps:g}, {weakest} leaves {percent(accuracy[weakest])}."
    rows = [[name, percent(share), percent(1 - share)] for name, share in accuracy.items()]
    table = Table(["attack", "accuracy", "risk"], rows)
    figure, alt = accuracy_over_eps(curves, radii, eps, unit), "accuracy over the radius of the perturbations"
    return Section.illustrated("Accuracy under attack", words, figure, alt, table)


def pictures_section(
    title: str,
    words: str,
    triples: UInt8[Tensor, "picture channel height width"],
    classes: Sequence[tuple[str, str]],
    distances: Sequence[str],
    amplification: Sequence[float],
) -> Section:
    """`triples` are originals, perturbations and results in turn; `classes` what was predicted before and after."""
    shown = []
    for index, ((before, after), distance, factor) in enumerate(zip(classes, distances, amplification, strict=True)):
        original, change, result = (pixels(image) for image in triples[3 * index : 3 * index + 3])
        shown += [
            Thumbnail(original, f"“{before}”"),
            Thumbnail(change, distance, f"drawn {factor:.3g} times as strong"),
            Thumbnail(result, f"“{after}”"),
        ]
    return Section(title, [Text(words), Gallery(shown)])


def signs_section(signs: Sequence[tuple[str, bool, str]]) -> Section:
    """`signs` are names, whether they were found, and sentences with their numbers."""
    found = [name for name, present, _ in signs if present]
    words = (
        "Signs that a model seems safer than it is, because the attack fails and not because the model is robust. "
        + (f"Found: {', '.join(found)}." if found else "None of them was found.")
    )
    rows = [[name, "found" if present else "no", sentence] for name, present, sentence in signs]
    return Section("Signs of false safety", [Text(words), Table(["sign", "", "measured"], rows)])
