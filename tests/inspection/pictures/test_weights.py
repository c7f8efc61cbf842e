import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from neuropil.inspection.pictures.weights import weight_histograms


def heights(axes: Axes) -> list[float]:
    return [bar.get_height() for bar in axes.patches if isinstance(bar, Rectangle)]


def test_a_spread_counts_every_weight_and_has_one_bar_around_zero():
    figure = weight_histograms(
        {"sparse": torch.cat([torch.zeros(90), torch.linspace(-1, 1, 10)]), "dense": torch.randn(100)}
    )
    counts = [heights(axes) for axes in figure.axes]
    assert [sum(bars) for bars in counts] == [100, 100]
    middle = len(counts[0]) // 2
    assert counts[0][middle] >= 90
