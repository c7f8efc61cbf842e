"""Square attack: random search that needs logits only, and no gradients (Andriushchenko 2020).

    δ' = δ, but within a square window of share p of the picture
        L∞:  every channel ±ε                                  beginning with vertical stripes of ±ε
        L2:  a bump η, one half up and one half down, with the length that another window gives up
    δ ← δ' if the margin max_{k≠y} z_k − z_y is larger

p is halved on the way, after 10, 50, 200, 500, 1,000, 2,000, 4,000, 6,000 and 8,000 of each 10,000 queries, so that
windows shrink from nearly the whole picture to a pixel. Inputs that are no pictures count as a picture of one row.
"""

from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float, Num
from torch import Tensor

from neuropil.adversarial.classifier import Classifier, held, logits_of
from neuropil.adversarial.gradient_attack import attack_loss
from neuropil.adversarial.threat_model import (
    Ball,
    Inputs,
    Labels,
    ThreatModel,
    in_inputs,
    in_units,
    length,
    per_example,
)
from neuropil.config import Config, option

HALVED_AT = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
SMALLEST_BUMP = 3
TINY = 1e-12


class SquareConfig(Config):
    queries: int = option(5000, "queries: number of times that the classifier is asked", low=1)
    share: float = option(0.8, "share p of the picture that the first windows change", above=0, high=1)


class Window(NamedTuple):
    rows: slice
    columns: slice


def square_attack(
    classifier: Classifier,
    x: Num[Tensor, "batch *shape"],
    y: Labels,
    threat: ThreatModel,
    config: SquareConfig,
    *,
    generator: torch.Generator | None = None,
) -> Inputs:
    """All examples are tried with the same windows, so that what becomes of one does not depend on the others."""
    loss = attack_loss(threat, "margin")
    with held(classifier, channels_last=True), torch.no_grad():
        ball = threat.ball(x)
        propose = stripes_and_squares if threat.norm == "linf" else bumps
        found, left = ball.original.clone(), torch.arange(len(ball), device=ball.original.device)
        highest = ball.original.new_full((len(ball),), -torch.inf)
        best = ball.original.clone()
        for query in range(config.queries):
            if not len(left):
                break
            candidate = propose(ball, best, query, config, generator)
            value = loss(logits_of(classifier, candidate, len(candidate)), y)
            better = value > highest
            best = torch.where(per_example(better, best), candidate, best)
            highest = torch.where(better, value, highest)
            if (fooled := highest > 0).any():
                found[left[fooled]] = best[fooled]
                ball, best, highest = ball.select(~fooled), best[~fooled], highest[~fooled]
                y, left = y[~fooled], left[~fooled]
        found[left] = best
    return found


def share_at(query: int, config: SquareConfig) -> float:
    """p of this query."""
    of_ten_thousand = query / config.queries * 10_000
    return config.share / 2 ** sum(of_ten_thousand > each for each in HALVED_AT)


def picture_of(x: Inputs) -> Float[Tensor, "batch channel row column"]:
    """A view; of other inputs than pictures, all features are one row."""
    return x if x.ndim == 4 else rearrange(x.flatten(1), "batch feature -> batch 1 1 feature")


def random_window(height: int, width: int, p: float, smallest: int, generator: torch.Generator | None) -> Window:
    """A square, or of a picture of one row so many columns of it, of share p."""
    side = max(smallest, round((p * height * width) ** (0.5 if height > 1 else 1)))
    rows, columns = min(side, height), min(side, width)
    top = int(torch.randint(height - rows + 1, (), generator=generator))
    left = int(torch.randint(width - columns + 1, (), generator=generator))
    return Window(slice(top, top + rows), slice(left, left + columns))


def signs(shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randint(2, shape, generator=generator).mul(2).sub(1).to(like)


# --- L∞ ---------------------------------------------------------------------------------------------------------------


def stripes_and_squares(
    ball: Ball, best: Inputs, query: int, config: SquareConfig, generator: torch.Generator | None
) -> Inputs:
    lower, upper = picture_of(ball.lower), picture_of(ball.upper)
    channels, height, width = lower.shape[1:]
    if query == 0:
        up = signs((1, channels, 1, width), best, generator) > 0
        return torch.where(up, upper, lower).reshape(best.shape)
    candidate = best.clone(memory_format=torch.contiguous_format)
    window = random_window(height, width, share_at(query, config), 1, generator)
    up = signs((1, channels, 1, 1), best, generator) > 0
    inside = (..., *window)
    picture_of(candidate)[inside] = torch.where(up, upper[inside], lower[inside])
    return candidate


# --- L2 ---------------------------------------------------------------------------------------------------------------


def bumps(ball: Ball, best: Inputs, query: int, config: SquareConfig, generator: torch.Generator | None) -> Inputs:
    delta = picture_of(in_units(best - ball.original, ball.scale)).clone()
    channels, height, width = delta.shape[1:]
    if query == 0:
        for window in tiles(height, width):
            inside = (..., *window)
            delta[inside] = bump(window, delta, generator) * signs((1, channels, 1, 1), delta, generator)
    else:
        p = share_at(query, config)
        receiving = random_window(height, width, p, SMALLEST_BUMP, generator)
        giving = random_window(height, width, p, SMALLEST_BUMP, generator)
        inside, outside = (..., *receiving), (..., *giving)
        squares = delta.square()
        left_over = (ball.eps**2 - squares.sum((1, 2, 3), keepdim=True)).clamp(min=0) / channels
        given = squares.sum((2, 3), keepdim=True)
        squares[inside], squares[outside] = 0, 0
        given = given - squares.sum((2, 3), keepdim=True)  # of both windows, each feature once
        old = delta[inside]
        old = old / (old.square().sum((2, 3), keepdim=True).sqrt() + TINY)
        new = bump(receiving, delta, generator) * signs((1, channels, 1, 1), delta, generator) + old
        new = new / (new.square().sum((2, 3), keepdim=True).sqrt() + TINY)
        delta[outside] = 0
        delta[inside] = new * (left_over + given).clamp(min=0).sqrt()
    delta *= per_example(ball.eps / (length("l2", delta) + TINY), delta)
    return ball.project_(ball.original + in_inputs(delta.reshape(best.shape), ball.scale))


def tiles(height: int, width: int) -> list[Window]:
    """About five in a row and five in a column."""
    rows, columns = max(1, height // 5), max(1, width // 5)
    return [
        Window(slice(top, top + rows), slice(left, left + columns))
        for top in range(0, height - rows + 1, rows)
        for left in range(0, width - columns + 1, columns)
    ]


def bump(window: Window, like: Tensor, generator: torch.Generator | None) -> Float[Tensor, "row column"]:
    """η of length 1: a pyramid up in one half, and one down in the other; halves are above or beside one another."""
    rows, columns = (each.stop - each.start for each in window)
    beside = rows == 1 or (columns > 1 and bool(torch.randint(2, (), generator=generator)))
    if beside:
        eta = torch.cat([pyramid(rows, columns // 2), -pyramid(rows, columns - columns // 2)], 1)
    else:
        eta = torch.cat([pyramid(rows // 2, columns), -pyramid(rows - rows // 2, columns)], 0)
    return (eta / eta.norm()).to(like)


def pyramid(rows: int, columns: int) -> Float[Tensor, "row column"]:
    """Σ 1/(k+1)² over all k from the distance to the centre on, as rows and columns count it."""
    down, right = (torch.arange(rows) - rows // 2).abs(), (torch.arange(columns) - columns // 2).abs()
    distance = torch.maximum(down[:, None], right[None, :])
    terms = (torch.arange(max(rows, columns) // 2 + 1) + 1.0) ** -2
    return terms.flip(0).cumsum(0).flip(0)[distance]
