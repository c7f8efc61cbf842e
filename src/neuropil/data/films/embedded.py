"""Films of a hand-written digit that moves through noisy frames and is hidden in some of them. Nothing is downloaded.

    p_t = fold(p_0 + v t)          a straight line, folded at the walls, where the digit bounces off

Every frame has noise of its own, and scraps of other digits that are somewhere else in the next one. For some frames in
a row nothing of the digit is drawn: where it is then follows only from where it was, how fast it went, and which wall
it meets. No two parts of the data share a hand-written digit.
"""

import math
from typing import TypeAlias

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor

from neuropil.data.captions.embedded import divide_digits, hand_written
from neuropil.data.films.dataset import Films
from neuropil.data.splits import PARTS, Splits
from neuropil.errors import InputError
from neuropil.memory import require_room
from neuropil.progress import tracked
from neuropil.randomness import mix, seeded

Ink: TypeAlias = UInt8[Tensor, "digit 8 8"]
Canvas: TypeAlias = Float[Tensor, "frame high wide"]

SIDE, DIGIT, SCRAP = 28, 8, 4
"""Pixels a side: of a frame, of a digit, and of a scrap of one."""
NUM_FRAMES = 24
SPEED = (0.6, 1.6)
"""Pixels from frame to frame, the slowest and the fastest."""
NOISE, NUM_SCRAPS = 40.0, 3
"""Standard deviation of the noise, in steps of grey; scraps in a frame."""
FIRST_SEEN = 5
"""Frames that a film begins with before anything is hidden."""
HIDDEN, SEEN_BETWEEN = (3, 6), (3, 5)
"""Frames in a row without the digit, and with it in between: the fewest and the most."""
FILMS_AT_ONCE = 200


def make_films(num_train: int = 2_000, num_validation: int = 100, num_test: int = 400, seed: int = 0) -> Splits[Films]:
    if min(num_train, num_test) < 1:
        raise InputError("films are needed to learn from and to score", got=f"{num_train:,} and {num_test:,}")
    require_room("the films", NUM_FRAMES * SIDE**2 * (num_train + num_validation + num_test))
    digits = divide_digits(seed)
    counts = dict(zip(PARTS, (num_train, num_validation, num_test), strict=True))
    total = f"{sum(counts.values()):,} films of {NUM_FRAMES} frames of {SIDE}×{SIDE} with a moving digit (scikit-learn)"
    parts = {part: film(digits[part], count, mix(seed, part, "films"), total) for part, count in counts.items()}
    hidden = f"Each film hides its digit twice, for {HIDDEN[0]} to {HIDDEN[1]} frames in a row."
    apart = "No hand-written digit occurs in more than one of training, validation and test."
    return Splits(**parts, notes=(apart, hidden))


def film(digits: Int64[Tensor, " digit"], count: int, seed: int, source: str) -> Films:
    """Films of one digit each, and scraps of any of them."""
    ink = hand_written().inputs[digits, 0]
    corners, hidden = paths(count, seed), hidings(count, seed)
    whose = torch.randint(len(ink), (count,), generator=seeded(seed, "whose"))
    frames = torch.empty(count, NUM_FRAMES, 1, SIDE, SIDE, dtype=torch.uint8)
    for start in tracked(range(0, count, FILMS_AT_ONCE), "Filming digits"):
        here = slice(start, start + FILMS_AT_ONCE)
        moving = repeat(ink[whose[here]], "film height width -> (film time) height width", time=NUM_FRAMES)
        places = rearrange(corners[here], "film time side -> (film time) side")
        seen = ~rearrange(hidden[here], "film time -> (film time)")
        drawn = draw(moving, places, seen, ink, mix(seed, "frames", start))
        frames[here] = rearrange(drawn, "(film time) height width -> film time 1 height width", time=NUM_FRAMES)
    middle = corners.flip(-1) + (DIGIT - 1) / 2  # (row, column) of the corner to (x, y) of the middle
    frames, positions, lengths = frames.flatten(0, 1), middle.flatten(0, 1).float(), torch.full((count,), NUM_FRAMES)
    names = [f"film {number}" for number in range(1, count + 1)]
    return Films(frames, lengths, positions, hidden.flatten(), names, (SIDE, SIDE), source)


def paths(count: int, seed: int) -> Float[Tensor, "film time 2"]:
    """Row and column of the digit's upper left corner in every frame."""
    room = SIDE - DIGIT
    generator = seeded(seed, "paths")
    first = room * torch.rand(count, 1, 2, generator=generator)
    speed = SPEED[0] + (SPEED[1] - SPEED[0]) * torch.rand(count, generator=generator)
    angle = 2 * math.pi * torch.rand(count, generator=generator)
    velocity = torch.stack([speed * angle.sin(), speed * angle.cos()], -1)[:, None]
    straight = first + velocity * torch.arange(NUM_FRAMES)[:, None]
    # fold(p) goes up from 0 to the wall and down again: p mod 2r, or 2r minus it
    folded = straight % (2 * room)
    return torch.minimum(folded, 2 * room - folded)


def hidings(count: int, seed: int) -> Bool[Tensor, "film time"]:
    """Two runs of hidden frames in each film, after a beginning that shows where the digit goes."""
    generator = seeded(seed, "hidings")

    def between(low: int, high: int) -> Int64[Tensor, "film 1"]:
        return torch.randint(low, high + 1, (count, 1), generator=generator)

    time = torch.arange(NUM_FRAMES)
    first = between(FIRST_SEEN, FIRST_SEEN + 4)
    first_end = first + between(*HIDDEN)
    second = first_end + between(*SEEN_BETWEEN)
    second_end = second + between(*HIDDEN)
    return ((time >= first) & (time < first_end)) | ((time >= second) & (time < second_end))


def draw(
    digit: UInt8[Tensor, "frame 8 8"],
    corners: Float[Tensor, "frame 2"],
    seen: Bool[Tensor, " frame"],
    ink: Ink,
    seed: int,
) -> UInt8[Tensor, "frame side side"]:
    """Frames with noise, scraps, and the digit at a corner between pixels, where it is seen."""
    canvas = NOISE * torch.randn(len(digit), SIDE + 1, SIDE + 1, generator=seeded(seed, "noise"))
    _lay_scraps(canvas, ink, seeded(seed, "scraps"))
    whole = corners.floor().clamp(max=SIDE - DIGIT)
    # A digit between pixels lies on all four that it touches, by how much it lies on each.
    share_down, share_right = (rearrange(part, "frame -> frame 1 1") for part in (corners - whole).unbind(-1))
    patch = digit.new_zeros(len(digit), DIGIT + 1, DIGIT + 1, dtype=torch.float32)
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight = (share_down if down else 1 - share_down) * (share_right if right else 1 - share_right)
        patch[:, down : down + DIGIT, right : right + DIGIT] += weight * digit
    _lay(canvas, patch * rearrange(seen, "frame -> frame 1 1"), whole.long())
    return canvas[:, :SIDE, :SIDE].round().clamp(0, 255).to(torch.uint8)


def _lay_scraps(canvas: Canvas, ink: Ink, generator: torch.Generator) -> None:
    for _ in range(NUM_SCRAPS):
        whose = torch.randint(len(ink), (len(canvas),), generator=generator)
        row, column = torch.randint(DIGIT - SCRAP + 1, (2, len(canvas)), generator=generator)
        within = torch.arange(SCRAP)
        scrap = ink[whose[:, None, None], (row[:, None] + within)[:, :, None], (column[:, None] + within)[:, None, :]]
        _lay(canvas, scrap.float(), torch.randint(SIDE - SCRAP + 1, (len(canvas), 2), generator=generator))


def _lay(canvas: Canvas, patch: Float[Tensor, "frame a b"], corners: Int64[Tensor, "frame 2"]) -> None:
    """Add a patch to each frame, its upper left pixel at (row, column)."""
    frame = torch.arange(len(canvas))[:, None, None]
    rows = (corners[:, :1] + torch.arange(patch.shape[1]))[:, :, None]
    columns = (corners[:, 1:] + torch.arange(patch.shape[2]))[:, None, :]
    canvas[frame, rows, columns] += patch
