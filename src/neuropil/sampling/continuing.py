"""Going on with a text: a token is drawn from what the model expects next, read, and so on without end.

p(x) ∝ exp(z_x / τ)          τ → 0 the likeliest token only,   τ = 1 as the model believes,   above it more daring
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.errors import InputError
from neuropil.parts.recurrence import Recurred, State

Stream: TypeAlias = Callable[[Tensor, Sequence[State] | None], Recurred]
"""From tokens [batch time] and states to the logits of the token after each, and the states that the next piece begins with."""


def continued(
    stream: Stream,
    prompt: Int64[Tensor, " time"],
    *,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
    never: Sequence[int] = (),
) -> Iterator[int]:
    """The tokens after the prompt, one at a time and without end; those in `never` are not drawn. A seed always draws the same text."""
    if len(prompt) == 0:
        raise InputError("a text is continued from its beginning", got="an empty one", fix="give at least one token")
    if not temperature >= 0:
        raise InputError("temperature must be 0 or more", got=f"{temperature:g}")
    entering, states = prompt.unsqueeze(0), None
    while True:
        with torch.no_grad():
            outputs, states = stream(entering, states)
        token = draw(outputs[0, -1], temperature, generator, never)
        yield token
        entering = prompt.new_tensor([[token]])


def draw(logits: Float[Tensor, " token"], temperature: float, generator: torch.Generator | None, never: Sequence[int] = ()) -> int:
    """Drawn on the processor, so that a seed means the same on every device."""
    z = logits.detach().double().cpu()
    z[list(never)] = -torch.inf
    if temperature == 0:
        return int(z.argmax())
    return int(torch.multinomial((z / temperature).softmax(-1), 1, generator=generator))
