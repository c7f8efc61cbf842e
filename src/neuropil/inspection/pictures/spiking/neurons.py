"""Hodgkin–Huxley neurons: action potentials and their phases, gates, thresholds, refractoriness (ms, mV, µA/cm²)."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Shaped

from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import Array, Axes, Figure, house_style, line, new_figure, numbers

Steps: TypeAlias = Shaped[Array, " step"]
Points: TypeAlias = Shaped[Array, " point"]
Voltages: TypeAlias = Shaped[Array, "step neuron"]
Traces: TypeAlias = Mapping[str, Steps]
Phases: TypeAlias = Sequence[tuple[str, float, float]]

PHASE_COLOURS = ("#eef0f3", "#fdecc8", "#f9d3bd", "#cfe3f6", "#d5ece6", "#eef0f3")
CURRENT_LABEL = "current (µA/cm²)"


@house_style
def action_potential(
    times: Steps, voltage: Steps, phases: Phases, gates: Traces, currents: Traces, levels: Mapping[str, float]
) -> Figure:
    """The voltage with its phases (name, begin, end), one below the other with the gates and with the currents through
    the membrane; `levels` are voltages to compare with."""
    style.require_some(phases, "a picture of an action potential needs its phases")
    t = numbers(times)
    figure = new_figure(style.WIDTH, 6.0)
    above, middle, below = figure.subplots(3, 1, sharex=True, height_ratios=(1.9, 1, 1.1))
    for panel in (above, middle, below):
        for index, (_, begin, end) in enumerate(phases):
            panel.axvspan(begin, end, color=PHASE_COLOURS[index % len(PHASE_COLOURS)], linewidth=0, zorder=0)
        panel.grid(visible=False)
    _write_phases(above, phases)
    above.plot(t, numbers(voltage), color=style.INK, linewidth=1.8)
    for name, level in levels.items():
        above.axhline(level, color=style.MUTED, linewidth=0.8, linestyle=(0, (4, 2)))
        _note(above, name, (1, level), (4, 0), xycoords=("axes fraction", "data"), va="center")
    for panel, lines in ((middle, gates), (below, currents)):
        for index, (name, values) in enumerate(lines.items()):
            panel.plot(t, numbers(values), label=name, **line(index))
        panel.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    above.set(ylabel="voltage (mV)", xlim=(phases[0][1], phases[-1][2]))
    middle.set(ylabel="open share", ylim=(-0.03, 1.03))
    below.set(ylabel=f"outward {CURRENT_LABEL}", xlabel="time (ms)")
    return figure


def _write_phases(axes: Axes, phases: Phases) -> None:
    """A number in every phase, however narrow, and the names beside the curve."""
    for number, (name, begin, end) in enumerate(phases, 1):
        _note(axes, str(number), ((begin + end) / 2, 1), (0, 3), xycoords=("data", "axes fraction"), ha="center")
        _note(axes, f"{number}  {name}", (0.6, 0.9 - 0.085 * number), xycoords="axes fraction", va="top")


def _note(axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float] = (0, 0), **how: Any) -> None:
    axes.annotate(text, at, xytext=offset, textcoords="offset points", fontsize=8, **how)


@house_style
def gate_curves(v: Steps, steady: Traces, constants: Traces, *, rest: float) -> Figure:
    """Where each gate goes at a voltage that is held, and how long it takes."""
    figure = new_figure(style.WIDTH, 2.9)
    left, right = figure.subplots(1, 2)
    for axes, curves in ((left, steady), (right, constants)):
        axes.axvline(rest, color=style.MUTED, linewidth=0.8, linestyle=(0, (4, 2)))
        for index, (name, values) in enumerate(curves.items()):
            axes.plot(numbers(v), numbers(values), label=name, **line(index))
        axes.set(xlabel="voltage (mV)", xlim=(float(numbers(v)[0]), float(numbers(v)[-1])))
        axes.legend(loc="center right")
    left.set(title="where they go", ylabel="open share, after long", ylim=(-0.03, 1.03))
    right.set(title="how long they take", ylabel="time constant (ms)", ylim=(0, None))
    _note(left, "rest", (rest, 1.0), (-4, -2), ha="right", va="top", color=style.MUTED)
    return figure


@house_style
def ions_over_time(seconds: Steps, panels: Mapping[str, Traces], *, stimulus: float) -> Figure:
    """Panels one below the other, over seconds, a line for each axon; a current flows for `stimulus` s (shaded). Names
    that several panels share have one colour."""
    style.require_some(panels, "a picture of ions needs at least one panel")
    figure = new_figure(style.WIDTH, 1.4 * len(panels) + 0.5)
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    entries = {}
    for axes, (label, lines) in zip(rows, panels.items(), strict=True):
        axes.axvspan(0, stimulus, color=PHASE_COLOURS[1], linewidth=0, zorder=0)
        for name, values in lines.items():
            (entries[name],) = axes.plot(*_extremes(seconds, values), **(line(names.index(name)) | {"linewidth": 1.0}))
        axes.set(title=label)
        axes.margins(x=0)
    rows[-1].set_xlabel("time (s)")
    figure.legend(list(entries.values()), list(entries), loc="outside upper right", ncols=len(entries))
    return figure


def _extremes(x: Steps, y: Steps, most: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Few enough points for a drawing, of which none stands out higher or lower than what is left out."""
    across, up = numbers(x), numbers(y)
    if len(across) <= most:
        return across, up
    pieces = np.array_split(np.arange(len(across)), most // 2)
    kept = np.unique([place[pick(up[place])] for place in pieces for pick in (np.argmin, np.argmax)])
    return across[kept], up[kept]


@house_style
def all_or_none(
    times: Steps,
    voltages: Voltages,
    amplitudes: Sequence[float],
    widths: Points,
    thresholds: Points,
    *,
    rheobase: float,
    chronaxie: float,
) -> Figure:
    """Answers to pulses a little below and above the threshold, and the threshold for pulses of every width."""
    t, v = numbers(times), numbers(voltages)
    figure = new_figure(style.WIDTH, 3.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    for index, amplitude in enumerate(amplitudes):
        left.plot(t, v[:, index], label=f"{amplitude:.3g} µA/cm²", **line(index))
    left.set(title="all or none", xlabel="time (ms)", ylabel="voltage (mV)", xlim=(float(t[0]), float(t[-1])))
    left.legend(loc="upper right", fontsize=7.5)
    right.plot(numbers(widths), numbers(thresholds), color=style.PALETTE[0], marker="o", markersize=3.5)
    right.axhline(rheobase, color=style.MUTED, linewidth=0.9, linestyle=(0, (4, 2)))
    right.set(title="strength and duration", xlabel="width of the pulse (ms)", ylabel="least current (µA/cm²)")
    style.make_logarithmic(right, "x")
    style.make_logarithmic(right)
    _note(right, f"rheobase {rheobase:.2f}", (float(numbers(widths)[0]), rheobase), (0, 3), color=style.MUTED)
    if np.isfinite(chronaxie):
        right.plot(chronaxie, 2 * rheobase, "o", color=style.PALETTE[1], markersize=6)
        _note(right, f"chronaxie {chronaxie:.2g} ms", (chronaxie, 2 * rheobase), (7, 2))
    return figure


@house_style
def refractoriness(
    times: Steps, voltages: Voltages, shown: Sequence[float], delays: Points, ratios: Points, *, first_pulse: float
) -> Figure:
    """Two equal pulses, the second after each of the `shown` delays; and how strong the second must be, as a multiple
    of the threshold at rest, for delays of every length (no number: no strength that was tried is enough)."""
    t, v = numbers(times), numbers(voltages)
    figure = new_figure(style.WIDTH, 4.3)
    grid = figure.add_gridspec(len(shown), 2, width_ratios=(1.15, 1))
    panels = [figure.add_subplot(grid[row, 0]) for row in range(len(shown))]
    for index, (panel, delay) in enumerate(zip(panels, shown, strict=True)):
        panel.plot(t, v[:, index], color=style.PALETTE[0], linewidth=1.4)
        for pulse in (first_pulse, first_pulse + delay):
            _note(panel, "", (pulse, -75), (0, -9), arrowprops={"arrowstyle": "-|>", "color": style.PALETTE[1]})
        panel.set(xlim=(float(t[0]), float(t[-1])), ylim=(-105, 60), yticks=(-65, 0))
        panel.set_title(f"{delay:g} ms apart", fontsize=8.5, fontweight="normal", pad=2)
        panel.tick_params(labelbottom=index == len(shown) - 1)
    panels[-1].set_xlabel("time (ms)")
    panels[len(panels) // 2].set_ylabel("voltage (mV)")
    _draw_recovery(figure.add_subplot(grid[:, 1]), numbers(delays), numbers(ratios))
    return figure


def _draw_recovery(axes: Axes, delays: np.ndarray, ratios: np.ndarray) -> None:
    possible = np.isfinite(ratios)
    if not possible.all():
        last = delays[~possible].max()
        axes.axvspan(float(delays[0]), float(last), color=PHASE_COLOURS[2], linewidth=0)
        middle = (delays[0] + last) / 2, 0.5
        _note(axes, "absolutely\nrefractory", middle, xycoords=("data", "axes fraction"), ha="center")
    axes.axhline(1, color=style.MUTED, linewidth=0.9, linestyle=(0, (4, 2)))
    axes.plot(delays, ratios, color=style.PALETTE[0])
    axes.set(xlabel="delay of the second pulse (ms)", ylabel="least strength / threshold at rest", ylim=(0, None))
    axes.set(title="how strong it must be", xlim=(float(delays[0]), float(delays[-1])))


@house_style
def firing_rates(currents: Points, rates: Points) -> Figure:
    """The rate (Hz) over the constant current, with a gap where a neuron goes from silence to firing."""
    x, y = numbers(currents), numbers(rates).astype(float)
    figure, axes = style.one_panel(2.9)
    leaps = np.flatnonzero((y[1:] > 0) != (y[:-1] > 0)) + 1
    axes.plot(np.insert(x, leaps, x[leaps]), np.insert(y, leaps, np.nan), color=style.PALETTE[0])
    for leap in leaps:
        axes.plot(x[leap - 1 : leap + 1], y[leap - 1 : leap + 1], color=style.MUTED, linewidth=0.9, linestyle=":")
    axes.set(xlabel=f"constant {CURRENT_LABEL}", ylabel="rate (Hz)", xlim=(float(x[0]), float(x[-1])), ylim=(-3, None))
    return figure


@house_style
def voltages_and_currents(times: Steps, voltages: Voltages, currents: Voltages, names: Sequence[str]) -> Figure:
    """The voltage of each neuron over time, and in the same panel the current into it, against the right axis."""
    style.require_some(names, "a picture of voltages needs at least one neuron")
    t, v, i = numbers(times), numbers(voltages), numbers(currents)
    figure = new_figure(style.WIDTH, 1.15 * len(names) + 0.7)
    panels = figure.subplots(len(names), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    low, high = min(0.0, float(i.min())), max(float(i.max()), 1.0)
    for index, axes in enumerate(panels):
        own = axes.twinx()
        own.stairs(*_pieces(t, i[:, index]), fill=True, color="#f9d3bd")
        own.set(ylim=(low, low + 3 * (high - low)), yticks=(0, round(high, 1)))
        own.grid(visible=False)
        own.tick_params(labelsize=7)
        axes.set_zorder(own.get_zorder() + 1)
        axes.patch.set_visible(False)
        axes.plot(t, v[:, index], color=style.PALETTE[0], linewidth=1.2)
        axes.set_title(names[index], fontsize=9, fontweight="normal", pad=3)
    panels[0].set(xlim=(0, float(t[-1])), yticks=(-80, -40, 0, 40))
    panels[-1].set_xlabel("time (ms)")
    figure.supylabel("voltage (mV)", fontsize=9, color=style.MUTED)
    return figure


def _pieces(t: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Heights and borders of stretches of constant values, which are lighter to draw than every step."""
    changes = np.flatnonzero(np.diff(values)) + 1
    begins = np.concatenate([[0], changes])
    # t are the ends of steps: a value holds from the end of the step before its first
    borders = np.concatenate([[0.0], t[changes - 1], t[-1:]])
    return values[begins], borders


@house_style
def step_errors(dts: Sequence[float], errors: Mapping[str, Sequence[float]]) -> Figure:
    """How far spikes are from where they should be, for steps of every length; the slope is the order of a method."""
    figure, axes = style.one_panel(3.0)
    for index, (name, values) in enumerate(errors.items()):
        positive = np.where(numbers(values) > 0, numbers(values), np.nan)
        axes.plot(numbers(dts), positive, marker="o", markersize=4, label=name, **line(index))
    style.make_logarithmic(axes, "x")
    style.make_logarithmic(axes)
    axes.set(xlabel="step (ms)", ylabel="largest error of a spike time (ms)")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
