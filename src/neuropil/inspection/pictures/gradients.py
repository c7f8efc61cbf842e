"""Gradient norms layer by layer and back through time, and how learning rules lie to the gradient."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from neuropil.errors import InputError
from neuropil.inspection.gradients import GradientProfile, TimeProfile
from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import MUTED, WIDTH, Array, Axes, Figure, short


@style.house_style
def gradient_flow(profiles: Mapping[str, GradientProfile], *, bound: float | None = None) -> Figure:
    """The gradient norm at each layer relative to the last layer's; `bound` draws bound^distance from the output."""
    flows = {name: profile.flow() for name, profile in profiles.items()}
    deepest = max((len(flow) for flow in flows.values()), default=0)
    if deepest < 2:
        raise InputError("a picture of gradient flow needs a network of at least two layers", got=f"{deepest}")
    figure, axes = style.one_panel(3.3)
    for index, (name, flow) in enumerate(flows.items()):
        shares = np.array([norm for _, norm in flow]) / (flow[-1][1] or 1)
        shares[shares == 0] = np.nan
        layers = np.arange(len(flow)) + deepest - len(flow) + 1
        axes.plot(layers, shares, marker="o", markersize=4, label=name, **style.line(index))
    if bound is not None:
        layers, limit = np.arange(1, deepest + 1), bound ** np.arange(deepest - 1, -1, -1)
        axes.plot(layers, limit, color=MUTED, linewidth=1, linestyle=":", label=f"{bound:g} per layer")
    low, high = axes.dataLim.intervaly
    axes.set_ylim(min(low / 2, 0.1), max(high * 2, 10))  # at least two decades: what differs little should look so
    style.make_logarithmic(axes)
    name_layers(axes, list(flows.values()), deepest)
    axes.set_ylabel("gradient norm\nrelative to the last layer")
    axes.legend(loc="best")
    return figure


@style.house_style
def gradient_through_time(profiles: Mapping[str, TimeProfile]) -> Figure:
    """The gradient norm at the input of each earlier step, relative to the last step's."""
    figure, axes = style.one_panel(3.0)
    shares = {name: np.array(profile.norms) / (profile.norms[0] or 1) for name, profile in profiles.items()}
    for index, (name, share) in enumerate(shares.items()):
        axes.plot(np.where(share == 0, np.nan, share), label=name, **style.line(index))
    if any(style.spans_decades(share) for share in shares.values()):
        style.make_logarithmic(axes)
    axes.set(xlabel="steps back in time", ylabel="gradient norm\nrelative to the last step")
    axes.invert_xaxis()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")  # lines fan out over the whole panel
    return figure


@style.house_style
def alignment_over_updates(rules: Mapping[str, Mapping[str, Float[Array, "measured 2"]]]) -> Figure:
    """For each learning rule and layer a row (examples seen, cosine) for each update that was measured; a panel for
    each layer. A rule that has no gradient to be compared with has no layers, but keeps its line for others."""
    layers = list(dict.fromkeys(layer for cosines in rules.values() for layer in cosines))
    style.require_some(layers, "a picture of alignment needs at least one layer with a gradient")
    figure = style.new_figure(WIDTH, 3.6)
    panels = figure.subplots(1, len(layers), sharey=True, squeeze=False)
    for axes, layer in zip(panels.flat, layers, strict=True):
        axes.axhline(0, color=MUTED, linewidth=0.8)
        for index, (name, cosines) in enumerate(rules.items()):
            if layer in cosines:
                axes.plot(*style.numbers(cosines[layer]).T, label=name, **style.line(index))
        axes.set(title=layer, xlabel="examples seen", ylim=(-0.35, 1.05))
        style.make_logarithmic(axes, "x")
    panels[0, 0].set_ylabel("cosine to the gradient")
    figure.legend(*style.legend_entries(panels.flat), loc="outside upper center", ncols=4)
    return figure


def name_layers(axes: Axes, flows: Sequence[Sequence[tuple[str, float]]], deepest: int) -> None:
    """By name where all networks have the same layers and there is room, else by number."""
    names = [[name for name, _ in flow] for flow in flows]
    if all(layers == names[0] for layers in names) and deepest <= 24:
        shown = [short(name, 22) for name in names[0]]
        crowded = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if sum(map(len, shown)) > 70 else {}
        axes.set_xticks(range(1, deepest + 1), shown, **crowded)
    else:
        style.show_whole_numbers(axes)
        axes.set_xlabel("layer, from the input to the output")
