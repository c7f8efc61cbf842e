"""What a network that writes is fed with: at each step the right answer of the step before, its own, or now one and now
the other.

Teacher forcing (`probability=0`) is the fastest to learn from, but never shows the network its own mistakes; free
running (`probability=1`) is how it is used; scheduled sampling (Bengio et al. 2015) goes from one to the other, a coin
for each step.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from neuropil.errors import InputError

S = TypeVar("S")


def scheduled_sampling(
    step: Callable[[Tensor, S], tuple[Tensor, S]],
    state: S,
    fed: Shaped[Tensor, "batch step *any"],
    probability: float,
    answer: Callable[[Tensor], Tensor],
) -> tuple[Float[Tensor, "batch step output"], S]:
    """Run `step(entering, state) -> (output, state)` once for each of `fed`, which holds what a teacher would feed.

    The first of `fed` always enters; from then on, for each row, with probability `probability`, `answer(output)` of
    the step before.
    """
    if fed.shape[1] == 0:
        raise InputError("a sequence that is written begins with what is fed at its first step", got="no steps")
    outputs: list[Tensor] = []
    entering = fed[:, 0]
    for following in [*fed.unbind(1)[1:], None]:
        output, state = step(entering, state)
        outputs.append(output)
        if following is not None:
            own = torch.rand(len(fed), device=fed.device) < probability
            entering = torch.where(
                own.reshape(-1, *[1] * (following.ndim - 1)), answer(output).detach().to(following.dtype), following
            )
    return torch.stack(outputs, 1), state
