"""Scenes of one to three hand-written digits, each with the sentence that says what is where. Nothing is downloaded.

    "a seven"      "a two left of a five"      "a three above an eight and a nine on the left"

The digits are real, and no two parts of the data share one: a scene of the test part is written by hands that training
has not seen. Nor do they share a combination: of the 200 ways to put one of ten digits left of or above another, some
occur in the test part alone, whether a third digit stands beside them or not. So a captioner that has learned its
sentences by heart has nothing to say there.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.examples.dataset import Examples
from neuropil.data.examples.embedded import load_digits
from neuropil.data.splits import PARTS, Splits, choose
from neuropil.errors import InputError
from neuropil.memory import require_room
from neuropil.randomness import mix, seeded

Digits: TypeAlias = Int64[Tensor, " digit"]
Places: TypeAlias = Int64[Tensor, " place"]

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
RELATIONS = ("left of", "above")
"""Of the first digit to the second."""
SIDES = {"left of": ("below", "above"), "above": ("on the right", "on the left")}
"""Where a third digit may stand, seen from such a pair."""
SIDE, DIGIT = 24, 8
"""Pixels a side, of a scene and of a digit."""
STEP = DIGIT + 1
"""From a digit to one beside it, at least."""
MOST_RASTER = 4
"""Pixels; with more, three digits would not find room."""
APART, CLEAR = 1, 4
"""Pixels by which two digits of a pair may be out of line, at most, and by which a third is out of line with both of
them, at least: so there is one way only to say what is where."""
SINGLES, PAIRS = 0.1, 0.4
"""Shares of the scenes that have one digit and two; the others have three."""
BYTES_OF_A_PLAN = 1_000
HELD_OUT = {"validation": 10, "test": 30}
"""Combinations of two digits that occur in this part only."""
DIGIT_SHARES = {"validation": 0.1, "test": 0.2}
"""Of the hand-written digits, held out of the training part."""
GROUPS = ("one digit", "two digits", "three digits")


class Combination(NamedTuple):
    relation: str
    first: int
    second: int


@dataclass(frozen=True)
class Plan:
    """What a scene holds: the classes of its digits, in the order in which the caption names them."""

    classes: tuple[int, ...]
    relation: str = ""
    side: str = ""

    @property
    def caption(self) -> str:
        named = [f"{'an' if name == 'eight' else 'a'} {name}" for name in (WORDS[number] for number in self.classes)]
        words = named[0] if len(named) == 1 else f"{named[0]} {self.relation} {named[1]}"
        return words if len(named) < 3 else f"{words} and {named[2]} {self.side}"


def make_scenes(
    num_train: int = 20_000, num_validation: int = 1_000, num_test: int = 2_000, seed: int = 0, *, raster: int = 1
) -> Splits[CaptionedPictures]:
    """Single digits occur in the training part alone. Every digit stands at multiples of `raster` pixels."""
    if min(num_train, num_test) < 1:
        raise InputError("scenes are needed to learn from and to score", got=f"{num_train:,} and {num_test:,}")
    require_room("the scenes", (SIDE**2 + BYTES_OF_A_PLAN) * (num_train + num_validation + num_test))
    combinations, digits = divide_combinations(seed), divide_digits(seed)
    counts = dict(zip(PARTS, (num_train, num_validation, num_test), strict=True))
    total = f"{sum(counts.values()):,} scenes of hand-written digits, {SIDE}×{SIDE} (scikit-learn)"
    parts = {}
    for part, count in counts.items():
        singles = SINGLES if part == "train" else 0.0
        plans = make_plans(combinations[part], count, mix(seed, part, "plans"), singles=singles)
        pictures = compose(plans, digits[part], mix(seed, part, "pictures"), raster)
        groups = [GROUPS[len(plan.classes) - 1] for plan in plans]
        parts[part] = CaptionedPictures(pictures, [[plan.caption] for plan in plans], groups, total)
    notes = (
        "No hand-written digit occurs in more than one of training, validation and test.",
        f"Of the {len(RELATIONS) * len(WORDS) ** 2} ways to put one digit left of or above another, {HELD_OUT['test']} "
        f"occur in the test part alone and {HELD_OUT['validation']} in the validation part alone: "
        "all that is scored there are unseen combinations.",
    )
    return Splits(**parts, notes=notes)


def divide_combinations(seed: int) -> dict[str, Sequence[Combination]]:
    """Those of each part."""
    everything = [Combination(*each) for each in itertools.product(RELATIONS, range(len(WORDS)), range(len(WORDS)))]
    shuffled = torch.randperm(len(everything), generator=seeded(seed, "combinations"))
    order = [everything[index] for index in shuffled.tolist()]
    test, validation = HELD_OUT["test"], HELD_OUT["validation"]
    return {"test": order[:test], "validation": order[test : test + validation], "train": order[test + validation :]}


@cache
def hand_written() -> Examples:
    """The digits that scenes are composed of, read once."""
    return load_digits()


def divide_digits(seed: int) -> dict[str, Digits]:
    """The numbers of the hand-written digits of each part, every class in its right proportion."""
    targets = hand_written().targets
    left = torch.arange(len(targets))
    parts = {}
    for part, share in DIGIT_SHARES.items():
        held = choose(targets[left], share * len(targets) / len(left), seeded(seed, part, "digits"))
        parts[part], left = left[held], left[~held]
    return {"train": left, **parts}


def make_plans(combinations: Sequence[Combination], count: int, seed: int, *, singles: float) -> list[Plan]:
    draw = torch.rand(count, generator=seeded(seed, "sizes")).tolist()
    picks = torch.randint(len(combinations), (count,), generator=seeded(seed, "combinations")).tolist()
    others = torch.randint(len(WORDS), (count,), generator=seeded(seed, "third")).tolist()
    sides = torch.randint(2, (count,), generator=seeded(seed, "side")).tolist()
    plans = []
    for share, pick, other, side in zip(draw, picks, others, sides, strict=True):
        relation, first, second = combinations[pick]
        if share < singles:
            plans.append(Plan((other,)))
        elif share < singles + PAIRS:
            plans.append(Plan((first, second), relation))
        else:
            plans.append(Plan((first, second, other), relation, SIDES[relation][side]))
    return plans


def compose(plans: Sequence[Plan], digits: Digits, seed: int, raster: int = 1) -> UInt8[Tensor, "scene 1 side side"]:
    """Draw the plans with some of the hand-written digits, anywhere where the caption holds; no two of them touch."""
    examples = hand_written().take(digits)
    canvas = torch.zeros(len(plans), SIDE, SIDE, dtype=torch.uint8)
    scene, classes, corners = _places(plans, seed, raster)
    ink = examples.inputs[_hands(examples.targets, classes, seed), 0]
    within = torch.arange(DIGIT)
    rows, columns = (corners[:, axis, None] + within for axis in range(2))
    canvas[scene[:, None, None], rows[:, :, None], columns[:, None, :]] = ink
    return canvas.unsqueeze(1)


def _hands(targets: Digits, classes: Places, seed: int) -> Places:
    """For each class that is asked for, one of the digits that are of it."""
    by_class, sizes = targets.argsort(stable=True), targets.bincount(minlength=len(WORDS))
    pick = torch.randint(2**31, (len(classes),), generator=seeded(seed, "hands")) % sizes[classes]
    return by_class[(sizes.cumsum(0) - sizes)[classes] + pick]


def _places(plans: Sequence[Plan], seed: int, raster: int) -> tuple[Places, Places, Int64[Tensor, "place 2"]]:
    """Scene, class and upper left corner (row, column) of every digit.

    A pair stands along one axis, in the order of its names; across, its digits are about in line. A third stands on one
    side of both, and along the axis between them. All of it is reckoned in steps of `raster` pixels.
    """
    draw = torch.rand(len(plans), 6, generator=seeded(seed, "corners"))
    last, step, clear, apart = (SIDE - DIGIT) // raster, -(-STEP // raster), -(-CLEAR // raster), APART // raster
    sizes = torch.tensor([len(plan.classes) for plan in plans], dtype=torch.int64)
    along = torch.empty(len(plans), 3, dtype=torch.int64)
    along[:, 0] = _between(0, torch.where(sizes == 1, last, last - step), draw[:, 0])
    along[:, 1] = _between(along[:, 0] + step, last, draw[:, 1])
    along[:, 2] = _between(along[:, 0] + clear, along[:, 1] - clear, draw[:, 2])
    across = torch.empty_like(along)
    room = torch.where(sizes == 3, last - step, last)
    across[:, 0] = _between(0, room, draw[:, 3])
    across[:, 1] = _between((across[:, 0] - apart).clamp(min=0), torch.minimum(across[:, 0] + apart, room), draw[:, 4])
    across[:, 2] = _between(across[:, :2].amax(1) + step, last, draw[:, 5])
    before = torch.tensor([plan.side in ("above", "on the left") for plan in plans], dtype=torch.bool)
    across = torch.where(before[:, None], last - across, across)
    in_a_row = torch.tensor([plan.relation != "above" for plan in plans], dtype=torch.bool)
    in_a_row = in_a_row[:, None]
    corners = torch.stack([torch.where(in_a_row, across, along), torch.where(in_a_row, along, across)], dim=-1)
    valid_mask = torch.arange(3) < sizes[:, None]
    classes = torch.tensor([number for plan in plans for number in plan.classes], dtype=torch.int64)
    return valid_mask.nonzero()[:, 0], classes, raster * corners[valid_mask]


def _between(low: int | Tensor, high: int | Tensor, draw: Tensor) -> Int64[Tensor, " scene"]:
    """Whole numbers from low to high, both included, for draws from 0 to 1; low where it is above high."""
    low, high = torch.as_tensor(low), torch.as_tensor(high)
    return low + (draw * (high - low + 1).clamp(min=1)).long()
