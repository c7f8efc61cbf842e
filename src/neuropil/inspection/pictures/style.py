"""The house style of every picture: colours that all eyes and a grey printer can tell apart, thin lines, little ink."""

import functools
import math
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
from torch import Tensor

from neuropil.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure as Figure
    from matplotlib.image import AxesImage
else:  # importing matplotlib takes a second, which only drawing needs
    Axes = AxesImage = Colorbar = Figure = Any

P = ParamSpec("P")
R = TypeVar("R")
Array: TypeAlias = np.ndarray | Tensor

WIDTH = 7.4
"""Inches: the measure of a report's column, so that letters in pictures are as large as they say."""

INK, MUTED, AXIS, GRID = "#1c2027", "#5a6270", "#aab0ba", "#e4e7eb"
PALETTE = ("#1667b7", "#d8570a", "#1f9e8a", "#7a2a78", "#30343c", "#dd66b8")
DASHES = ("-", (0, (5, 1.6)), (0, (1.4, 1.2)), (0, (7, 1.6, 1.4, 1.6)), (0, (3, 1)), (0, (9, 2)))
TRAIN, VALIDATION = PALETTE[0], PALETTE[1]

_SETTINGS: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": AXIS,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": AXIS,
    "ytick.color": AXIS,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.handlelength": 2.4,
    "figure.dpi": 150,
    "savefig.dpi": 150,
    # Names come from users: a dollar sign in them is money, not mathematics.
    "text.parse_math": False,
}


def house_style(picture: Callable[P, R]) -> Callable[P, R]:
    """Draw with the settings of this file, whatever the user's matplotlib is set to."""

    @functools.wraps(picture)
    def styled(*args: P.args, **kwargs: P.kwargs) -> R:
        import matplotlib.style

        with matplotlib.style.context(_SETTINGS, after_reset=True):
            return picture(*args, **kwargs)

    return styled


def require_some(values: Sized, what: str) -> None:
    """`what` is the whole rule: a picture of losses needs at least one."""
    if not len(values):
        raise InputError(what, got="none")


def new_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def one_panel(height: float, width: float = WIDTH) -> tuple[Figure, Axes]:
    figure = new_figure(width, height)
    return figure, figure.subplots()


def rows_of(count: int, columns: int) -> tuple[int, int]:
    """Rows and columns of a grid for this many panels, with at most `columns` side by side."""
    columns = min(columns, count)
    return math.ceil(count / columns), columns


def line(index: int) -> dict[str, Any]:
    """Colour and dashes of the line with this number."""
    return {"color": PALETTE[index % len(PALETTE)], "linestyle": DASHES[(index + index // len(PALETTE)) % len(DASHES)]}


def label_outer(panels: np.ndarray, count: int, *, xlabel: str = "", ylabel: str = "") -> None:
    """Label small multiples at the left and below the lowest of each column; panels beyond `count` are hidden."""
    columns = panels.shape[1]
    for index, axes in enumerate(panels.flat):
        axes.set_visible(index < count)
        lowest = index + columns >= count
        axes.tick_params(labelbottom=lowest)
        axes.set(xlabel=xlabel if lowest else "", ylabel=ylabel if index % columns == 0 else "")


def draw_matrix(axes: Axes, values: np.ndarray, **options: Any) -> AxesImage:
    """Each entry as a square of one colour, without a grid behind them."""
    axes.grid(visible=False)
    return axes.imshow(values, interpolation="none", **options)


def draw_colour_bar(figure: Figure, image: AxesImage, axes: Axes | Sequence[Axes], **options: Any) -> Colorbar:
    bar = figure.colorbar(image, ax=axes, **options)
    bar.outline.set_visible(False)
    return bar


def draw_axes_at_zero(axes: Axes) -> None:
    axes.axhline(0, color=AXIS, linewidth=0.8)
    axes.axvline(0, color=AXIS, linewidth=0.8)


def write_above(axes: Axes, text: str, x: float, y: float = -0.5, *, rise: float = 2.0, **style: Any) -> None:
    """A label centred over a picture that ends at y."""
    style = {"fontsize": 8, "ha": "center", "textcoords": "offset points"} | style
    axes.annotate(text, (x, y), (0, rise), **style)


def legend_entries(panels: Iterable[Axes]) -> tuple[list[Any], list[str]]:
    """Each label once, whichever panel has it."""
    pairs = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in panels]
    entries = {label: handle for panel in pairs for handle, label in panel}
    return list(entries.values()), list(entries)


def show_percent(axes: Axes) -> None:
    from matplotlib.ticker import PercentFormatter

    axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))


def show_whole_numbers(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def minus(text: str) -> str:
    """With the sign − where a hyphen stood for it."""
    return text.replace("-", "−")


def numbers(values: Array | Sequence[float] | Sequence[int]) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def spans_decades(values: Sequence[float] | np.ndarray) -> bool:
    """Whether a logarithmic axis suits: all positive, the largest more than 20 times the smallest."""
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    return finite.size > 0 and bool(finite.min() > 0) and bool(finite.max() > 20 * finite.min())


def make_logarithmic(axes: Axes, which: str = "y") -> None:
    """A logarithmic axis whose labels are plain text, which pages and readers of pages understand."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    axis = axes.yaxis if which == "y" else axes.xaxis
    axes.set_yscale("log") if which == "y" else axes.set_xscale("log")
    low, high = sorted(axis.get_view_interval())
    decades = math.log10(high / low)
    # Powers of ten alone would leave too few labels on a short axis.
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2.2 else (1,), numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
    axis.set_minor_formatter(NullFormatter())
    if decades > 4:
        axis.set_minor_locator(NullLocator())


def power_of_ten(value: float) -> str:
    """0.01, 5 or 200 where that is short, else 10⁻⁷."""
    if value > 0 and not 1e-3 <= value < 1e5:
        exponent = math.floor(math.log10(value) + 1e-9)
        factor = value / 10**exponent
        power = "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return power if math.isclose(factor, 1) else f"{factor:.2g}·{power}"
    return f"{value:.6g}"


def short(name: str, length: int = 18) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}…"
