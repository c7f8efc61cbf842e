"""Accuracy of a classifier under attack."""

from collections.abc import Mapping, Sequence

from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import MUTED, WIDTH, Figure


@style.house_style
def accuracy_over_eps(curves: Mapping[str, Sequence[float]], eps: Sequence[float], chosen: float, unit: str) -> Figure:
    """A line for each curve over the radii `eps`, the first of which is 0; `chosen` is marked."""
    style.require_some(curves, "a picture of accuracy over ε needs at least one curve")
    figure = style.new_figure(WIDTH, 3.0)
    axes = figure.subplots()
    axes.axvline(chosen, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    for index, (name, accuracy) in enumerate(curves.items()):
        axes.plot(eps, [100 * share for share in accuracy], label=name, marker="o", markersize=3.5, **style.line(index))
    axes.set(xlabel=f"ε ({unit})", ylabel="accuracy (%)", ylim=(-3, 103), xlim=(min(eps), max(eps)))
    figure.legend(loc="outside upper left", ncols=3)
    return figure


@style.house_style
def accuracy_over_beta(clean: Sequence[float], robust: Sequence[float], beta: Sequence[float]) -> Figure:
    """What TRADES trades: a point for each β."""
    style.require_some(beta, "a picture of accuracy over β needs at least one β")
    figure = style.new_figure(WIDTH, 3.0)
    axes = figure.subplots()
    for index, (name, accuracy) in enumerate({"clean examples": clean, "attacked examples": robust}.items()):
        axes.plot(
            beta, [100 * share for share in accuracy], label=name, marker="o", markersize=3.5, **style.line(index)
        )
    axes.set(xlabel="β of TRADES", ylabel="accuracy (%)")
    figure.legend(loc="outside upper left", ncols=2)
    return figure
