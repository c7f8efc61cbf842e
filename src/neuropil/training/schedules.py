"""How the learning rate moves: the share of the peak rate at an update, after a linear warm-up.

constant       1
cosine         ½ (1 + cos π p)          p = share of the run that is done since the warm-up
inverse_sqrt   √(warmup / step)
"""

import math
from collections.abc import Callable
from typing import Literal

ScheduleName = Literal["constant", "cosine", "inverse_sqrt"]

SCHEDULES: dict[ScheduleName, Callable[[float, float, float], float]] = {
    "constant": lambda step, total, warmup: 1.0,
    "cosine": lambda step, total, warmup: 0.5 * (1 + math.cos(math.pi * _share(step - warmup, total - warmup))),
    "inverse_sqrt": lambda step, total, warmup: math.sqrt(min(1.0, max(1.0, warmup) / (step + 1))),
}


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part) / max(1.0, whole))


def rate_share(name: ScheduleName, step: int, total: float, warmup: float) -> float:
    """The factor on the peak learning rate for update `step` (counted from 0) of `total`, `warmup` of them rising."""
    if step + 1 < warmup:
        return (step + 1) / warmup
    return SCHEDULES[name](step, total, warmup)
