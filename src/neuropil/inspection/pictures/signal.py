"""The forward signal: its spread and saturation layer by layer, and over time steps."""

from collections.abc import Mapping, Sequence

import numpy as np

from neuropil.errors import InputError
from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.gradients import name_layers
from neuropil.inspection.pictures.style import MUTED, WIDTH, Axes, Figure
from neuropil.inspection.signal import SignalProfile


@style.house_style
def signal_flow(profiles: Mapping[str, SignalProfile]) -> Figure:
    """The spread of each layer's outputs, from the input to the output, and below it the share of saturated units,
    where there are activations that saturate."""
    flows = {name: profile.flow() for name, profile in profiles.items()}
    deepest = max((len(flow) for flow in flows.values()), default=0)
    if deepest < 2:
        raise InputError("a picture of the signal needs a network of at least two layers", got=f"{deepest}")
    saturated = {name: _saturated(profile) for name, profile in profiles.items()}
    both = any(np.isfinite(shares).any() for shares in saturated.values())
    figure = style.new_figure(WIDTH, 4.6 if both else 3.3)
    panels = figure.subplots(1 + both, 1, sharex=True, squeeze=False, height_ratios=[2, 1][: 1 + both])[:, 0]
    for index, (name, flow) in enumerate(flows.items()):
        spreads = np.array([spread for _, spread in flow])
        _draw_layers(panels[0], np.where(spreads > 0, spreads, np.nan), index, name)
        if both:
            _draw_layers(panels[1], saturated[name], index, name)
    low, high = panels[0].dataLim.intervaly
    panels[0].set_ylim(min(low / 2, 0.1), max(high * 2, 10))  # at least two decades: what differs little should look so
    style.make_logarithmic(panels[0])
    panels[0].set_ylabel("spread between examples")
    if both:
        panels[1].set(ylabel="saturated", ylim=(-0.03, 1.03))
        style.show_percent(panels[1])
    name_layers(panels[-1], list(flows.values()), deepest)
    if len(flows) > 1:
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


@style.house_style
def signal_over_steps(steps: Mapping[str, Sequence[float]]) -> Figure:
    """The spread of recurrent layers at each time step."""
    style.require_some(steps, "a picture of the signal over time needs at least one recurrent layer")
    figure, axes = style.one_panel(2.8)
    for index, (name, spreads) in enumerate(steps.items()):
        axes.plot(np.arange(1, len(spreads) + 1), spreads, label=name, **style.line(index))
    if style.spans_decades(np.concatenate([np.asarray(spreads) for spreads in steps.values()])):
        style.make_logarithmic(axes)
    style.show_whole_numbers(axes)
    axes.set(xlabel="time step", ylabel="spread between examples")
    axes.legend(loc="best")
    return figure


@style.house_style
def large_weights(found: Mapping[str, Mapping[int, tuple[float, float]]]) -> Figure:
    """By the factor on the weights: the share of the gradient that is kept, and the share of saturated units."""
    figure = style.new_figure(WIDTH, 3.2)
    kept, saturated = figure.subplots(1, 2)
    for index, (name, by_factor) in enumerate(found.items()):
        points = np.array([(factor, *values) for factor, values in by_factor.items()])
        kept.plot(points[:, 0], np.where(points[:, 1] > 0, points[:, 1], np.nan), label=name, **style.line(index))
        saturated.plot(points[:, 0], points[:, 2], **style.line(index))
    kept.axhline(1, color=MUTED, linewidth=0.8, linestyle=":")
    kept.set(ylabel="gradient at the first layer\nrelative to the last")
    saturated.set(ylabel="saturated units", ylim=(-0.03, 1.03))
    style.make_logarithmic(kept)
    style.show_percent(saturated)
    for axes in (kept, saturated):
        axes.set_xlabel("factor on the weights")
        style.make_logarithmic(axes, "x")
    figure.legend(*kept.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def _saturated(profile: SignalProfile) -> np.ndarray:
    """For each layer with weights, of the activation that follows it; a normalisation may stand between them."""
    shares: list[float] = []
    for layer in profile.layers:
        share = np.nan if layer.saturated_share is None else layer.saturated_share
        if layer.has_weights:
            shares.append(share)
        elif shares and np.isnan(shares[-1]):
            shares[-1] = share
    return np.array(shares)


def _draw_layers(axes: Axes, values: np.ndarray, index: int, name: str) -> None:
    axes.plot(np.arange(1, len(values) + 1), values, marker="o", markersize=4, label=name, **style.line(index))
