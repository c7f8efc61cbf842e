"""A recurrence that is linear in its state, for all steps at once.

    h_t = a_t ⊙ h_{t−1} + b_t          t = 1 … T

Two steps in a row are again one such step, (a₂ a₁, a₂ b₁ + b₂). So the odd steps follow from T/2 steps of double
length, and the even ones from the odd: a doubling on the way down and a filling in on the way up, at most 2 ⌊log₂ T⌋
operations one after the other and O(T) in all (Brent and Kung 1982). Products of numbers between 0 and 1 may fade to
zero but never overflow, and nothing is divided, which is what makes the usual shortcut with running sums of log a lose
its digits on long sequences.

`depth` counts the operations that have to wait for one another. Few of them are worth having where one of them leaves
the hardware idle: by doubling there are three times as many multiplications. A processor of a few cores is busy with
one step of many numbers, and then takes them one after the other.

Backwards in time the gradient obeys a recurrence of the same kind,

    ∂h_t = ∂y_t + a_{t+1} ⊙ ∂h_{t+1},   ∂a_t = ∂h_t ⊙ h_{t−1},   ∂b_t = ∂h_t
"""

import math
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

Form: TypeAlias = Literal["steps", "doubling"]

WIDE = 1024
"""Numbers in one step from which on a processor is busy enough to take the steps one after the other."""


def scan(
    a: Float[Tensor, "batch time unit"],
    b: Float[Tensor, "batch time unit"],
    first: Float[Tensor, "batch unit"],
    *,
    form: Form | None = None,
) -> Float[Tensor, "batch time unit"]:
    """All h_t, from h_0 = `first`, in the form that suits the device unless one is given."""
    return _Scan.apply(a, b, first, form or choose_form(first.numel(), first.device))


def choose_form(width: int, device: torch.device) -> Form:
    """For steps of `width` numbers, those of all rows: one after the other on a processor, where they are many."""
    return "steps" if device.type == "cpu" and width >= WIDE else "doubling"


def depth(time: int, form: Form) -> int:
    """How many operations of a scan over `time` steps have to wait for one another."""
    if form == "steps" or time < 1:
        return time
    waiting = 1  # a_1 h_0 + b_1
    while time > 1:
        waiting += 2 if time > 2 else 1  # down and up again; of two steps there is none between that is filled in
        time //= 2
    return waiting


def log_scan(
    log_a: Float[Tensor, "batch time unit"], log_b: Float[Tensor, "batch time unit"], first: Float[Tensor, "batch unit"]
) -> Float[Tensor, "batch time unit"]:
    """The same of logarithms, for positive a of at most 1 and positive b that no floating-point number could hold; h_0
    may be anything.

    log h_t = logaddexp(log a_t + log h_{t−1}, log b_t), and h_0 adds itself times the product of all a so far.
    """
    return log_scan_of_logs(log_a, log_b).exp() + log_a.cumsum(1).exp() * first.unsqueeze(1)


def log_scan_of_logs(
    log_a: Float[Tensor, "batch time unit"], log_b: Float[Tensor, "batch time unit"]
) -> Float[Tensor, "batch time unit"]:
    """log h_t from h_0 = 0."""
    time = log_a.shape[1]
    if time <= 1:
        return log_b
    half = 2 * (time // 2)
    (even_a, odd_a), (even_b, odd_b) = ((x[:, 0:half:2], x[:, 1:half:2]) for x in (log_a, log_b))
    odd = log_scan_of_logs(even_a + odd_a, torch.logaddexp(odd_a + even_b, odd_b))
    later_even = torch.logaddexp(log_a[:, 2::2] + odd[:, : math.ceil(time / 2) - 1], log_b[:, 2::2])
    h = torch.stack([torch.cat([log_b[:, :1], later_even], 1)[:, : half // 2], odd], dim=2).flatten(1, 2)
    return torch.cat([h, later_even[:, -1:]], 1) if time % 2 else h


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, first: Tensor, form: Form) -> Tensor:
        h = b.clone(memory_format=torch.contiguous_format)
        h[:, :1].addcmul_(a[:, :1], first.unsqueeze(1))
        _step_in_place(a, h) if form == "steps" else _double_in_place(a, h)
        ctx.save_for_backward(a, first, h)
        ctx.form = form
        return h

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        a, first, h = ctx.saved_tensors
        next_a = torch.cat([a[:, 1:], torch.zeros_like(a[:, :1])], 1)
        db = scan(next_a.flip(1), gradients[0].flip(1), torch.zeros_like(first), form=ctx.form).flip(1)
        before = torch.cat([first.unsqueeze(1), h[:, :-1]], 1)
        return db * before, db, (a[:, :1] * db[:, :1]).sum(1), None


def _step_in_place(a: Float[Tensor, "batch time unit"], h: Float[Tensor, "batch time unit"]) -> None:
    """Turn the b_t that `h` holds into h_t, from h_0 = 0, one after the other."""
    steps = h.unbind(1)
    for factor, before, here in zip(a.unbind(1)[1:], steps, steps[1:], strict=False):
        here.addcmul_(factor, before)


def _double_in_place(a: Float[Tensor, "batch time unit"], h: Float[Tensor, "batch time unit"]) -> None:
    """The same, by steps of double length."""
    time = a.shape[1]
    if time <= 1:
        return
    half = 2 * (time // 2)
    even, odd = h[:, 0:half:2], h[:, 1:half:2]
    doubled = torch.addcmul(odd, a[:, 1:half:2], even)
    _double_in_place(a[:, 1:half:2] * a[:, 0:half:2], doubled)
    odd.copy_(doubled)
    h[:, 2::2].addcmul_(a[:, 2::2], doubled[:, : math.ceil(time / 2) - 1])
