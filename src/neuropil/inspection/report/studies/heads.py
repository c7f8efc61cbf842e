"""Report of one head and several at equal width: scores, what heads attend to, and how many can be removed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor

from neuropil.inspection.pictures.attention import HeadScores, head_shares, scores_by_heads
from neuropil.inspection.report.page import Section, Table, percent

GATHERING, PICTURES = "gathering", "pictures"
BY_IMPORTANCE, AT_RANDOM = "least important first", "in random order"
POINT = 0.01

PruningCurves: TypeAlias = Mapping[str, Mapping[int, Sequence[float]]]
"""By the order of removal and the number of heads left, the scores of all networks."""


@dataclass(frozen=True)
class HeadComparison:
    """By task and number of heads: what networks of equal width came to."""

    scores: Mapping[str, Mapping[int, Sequence[float]]]
    """On the test part, one for each network."""
    best: Mapping[str, int]
    """The number of heads with the best mean score on validation data."""
    least: Mapping[int, float]
    """The least possible error of gathering."""
    parameters: Mapping[str, Collection[int]]
    width: int
    asked: int
    slots: int
    layers: int

    @property
    def numbers(self) -> int:
        """Of the contents of a slot."""
        return self.width // self.asked


def comparison_section(found: HeadComparison) -> Section:
    gathering, pictures = found.scores[GATHERING], found.scores[PICTURES]
    few, best = min(gathering), found.best[GATHERING]
    fewest, seen = min(pictures), found.best[PICTURES]
    words = (
        f"On the left a query asks for {found.asked} of {found.slots} slots with {found.numbers} numbers each. A "
        "head returns one weighted mean of the slots, so that the error cannot be smaller than the dotted line, 1 − "
        f"H/{found.asked} for H heads. It is {mean(gathering[few]):.3f} with {heads_in_words(few)} of width "
        f"{found.width // few}, where {found.least[few]:.3f} is the least possible, "
        f"and {mean(gathering[best]):.3f} with {heads_in_words(best)} of width {found.width // best}, the best on "
        f"validation data. {_narrow(found.width, gathering)}\n\nOn the right a Vision Transformer of {found.layers} "
        f"layers classifies pictures: {percent(mean(pictures[fewest]))} with {heads_in_words(fewest)} a layer, "
        f"{percent(mean(pictures[seen]))} with {heads_in_words(seen)}, the best on validation data. "
        f"{difference(pictures[seen], pictures[fewest])}"
    )
    panels = [
        HeadScores(
            "gathering", "mean squared error", {"": gathering}, {heads: found.least[heads] for heads in gathering}
        ),
        HeadScores("pictures", "accuracy", {"": pictures}),
    ]
    rows = [
        [
            heads,
            found.width // heads,
            f"{found.least[heads]:.3f}",
            *_spread(gathering.get(heads, ()), "{:.3f}", 1),
            *_spread(pictures.get(heads, ()), "{:.1f} %", 100),
        ]
        for heads in sorted({*gathering, *pictures})
    ]
    parameters = ", ".join(f"{task} {_range(numbers)}" for task, numbers in found.parameters.items())
    table = Table(
        ["heads", "width of each", "least possible error", "error of gathering", "of", "accuracy on pictures", "of"],
        rows,
        f"Means of {len(gathering[few])} networks on the test part, and their lowest and highest. Parameters whatever "
        f"the number of heads: {parameters}.",
    )
    figure, alt = (
        scores_by_heads(panels, "heads", logarithmic=True),
        "error and accuracy by the number of heads, at equal width",
    )
    return Section.illustrated("One head and several, at equal width", words, figure, alt, table)


def _narrow(width: int, scores: Mapping[int, Sequence[float]]) -> str:
    """Keys of one number stand on a line."""
    if width not in scores:
        return ""
    return (
        f"{width} heads have keys of a single number each, and a softmax along a line singles out its two ends "
        f"alone: their error is {mean(scores[width]):.3f}."
    )


def difference(one: Sequence[float], other: Sequence[float]) -> str:
    """Whether it is larger than what chance makes."""
    if len(one) == 1:
        return ""
    points, spread = 100 * (mean(one) - mean(other)), 100 * max(map(_width, (one, other)))
    verdict = "more than" if abs(points) > spread else "no more than"
    return (
        f"The difference of {points:.1f} points is {verdict} what networks differ by that differ in their first "
        f"weights and batches alone, {spread:.1f} points."
    ).replace("-", "−")


def shares_section(shown: Mapping[int, Float[Tensor, "head asked"]], asked: int) -> Section:
    """Of attention weights on what was asked for, by the number of heads."""
    few, many = min(shown), max(shown)
    words = (
        f"Attention weight of each head (row) on the slots that the query asked for, first to {asked}th (columns), in "
        "one network of each size, means over queries. The largest weight of a head on one of them is "
        f"{shown[few].amax(1).mean():.2f} on average with {heads_in_words(few)}, and "
        f"{shown[many].amax(1).mean():.2f} with {heads_in_words(many)}."
    )
    figure = head_shares({heads_in_words(heads): values for heads, values in shown.items()})
    return Section.illustrated(
        "What the heads attend to", words, figure, "attention of each head on each slot asked for"
    )


def pruning_section(curves: Mapping[str, PruningCurves], least: Mapping[int, float]) -> Section:
    """By task; `least` is the least possible error of gathering with so many heads left, the last with all of them."""
    pruned = max(least)
    gathering, pictures = curves[GATHERING], curves[PICTURES]
    first = [mean(gathering[BY_IMPORTANCE][pruned - gone]) for gone in (0, 1)]
    total = max(pictures[BY_IMPORTANCE])
    spare = {way: needless(curve) for way, curve in pictures.items()}
    words = (
        f"Heads are removed for good from networks with {pruned} in each layer, the least important first: "
        "that whose factor the loss pulls on least, measured on validation data anew before each removal. Nothing is "
        "trained afterwards. Beside it, heads are removed in random order.\n\nWhat is asked for fills the width, so "
        f"that every head is needed there: without one of {pruned} the error goes from {first[0]:.3f} to "
        f"{first[1]:.3f}, where {least[pruned - 1]:.3f} is the least possible. On the pictures "
        f"{spare[BY_IMPORTANCE]} of {total} heads can go before the mean accuracy has fallen by more than a point, and "
        f"{spare[AT_RANDOM]} in random order."
    )
    panels = [
        HeadScores("gathering", "mean squared error", gathering, least),
        HeadScores("pictures", "accuracy", pictures),
    ]
    chosen = sorted({*range(0, total + 1, max(1, total // 8)), total}, reverse=True)
    rows = [[left, *(percent(mean(curve[left])) for curve in pictures.values())] for left in chosen]
    figure, alt = scores_by_heads(panels, "heads left"), "error and accuracy by the number of heads left"
    table = Table(["heads left", *(f"accuracy, {way}" for way in pictures)], rows)
    return Section.illustrated("Do we need all?", words, figure, alt, table)


def needless(curve: Mapping[int, Sequence[float]]) -> int:
    """How many heads go before the mean accuracy has fallen by more than a point."""
    total = max(curve)
    whole = mean(curve[total])
    fallen = [total - left for left, scores in curve.items() if mean(scores) < whole - POINT]
    return min(fallen, default=total + 1) - 1


def _width(scores: Sequence[float]) -> float:
    return max(scores) - min(scores)


def _range(numbers: Collection[int]) -> str:
    """One number, where all are the same."""
    return " to ".join(f"{number:,}" for number in sorted({min(numbers), max(numbers)}))


def _spread(scores: Sequence[float], form: str, factor: float) -> list[str]:
    if not scores:
        return ["", ""]
    scores = [factor * score for score in scores]
    return [form.format(mean(scores)), f"{form.format(min(scores))} to {form.format(max(scores))}"]


def heads_in_words(count: int) -> str:
    return "one head" if count == 1 else f"{count} heads"
