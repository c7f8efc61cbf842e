"""What depends on all examples of a batch, where each process has a share of them.

    batch normalisation     μ = Σ x / N,   σ² = Σ (x − μ)² / N          sums over all processes
    contrastive losses      the rows of all processes, to compare this one's with

Both are differentiated through: with L = Σ_r L_r, the gradient of what was sent is the sum of the gradients that all
processes have for it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from neuropil.protocols import Learner, WholeBatchLearner
from neuropil.training.distributed.processes import World


class WholeBatch:
    """Use `joined` as a context around training, and `divided` around each loss."""

    def __init__(self, world: World):
        self.world, self.is_divided = world, False

    @contextmanager
    def joined(self, learner: Learner) -> Iterator[None]:
        """Normalisations and losses of this learner see whole batches."""
        norms = [module for module in learner.model.modules() if isinstance(module, _BatchNorm)]
        if self.world.alone:
            norms = []
        for norm in norms:
            cast(Any, norm).forward = partial(self._normalise, norm, norm.forward)
        compares = isinstance(learner, WholeBatchLearner) and not self.world.alone
        if compares:
            cast(WholeBatchLearner, learner).whole = self.gather
        try:
            yield
        finally:
            for norm in norms:
                del norm.forward  # that of its class is there again
            if compares:
                cast(WholeBatchLearner, learner).whole = None

    @contextmanager
    def divided(self, is_divided: bool) -> Iterator[None]:
        """Whether the other processes have other rows of the batch, and send what this one asks for."""
        self.is_divided = is_divided
        try:
            yield
        finally:
            self.is_divided = False

    def gather(self, rows: Tensor) -> Tensor:
        return cast(Tensor, _Gathered.apply(rows, self.world)) if self.is_divided else rows

    def _normalise(self, norm: _BatchNorm, usual: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        if not (norm.training and self.is_divided):
            return usual(x)
        axes, values, number = [0, *range(2, x.ndim)], x.float(), x.new_tensor([x.numel() / x.shape[1]]).float()
        shape = (1, -1, *[1] * (x.ndim - 2))
        sums = cast(Tensor, _Sum.apply(torch.cat([values.sum(axes), number]), self.world))
        count = float(sums[-1].detach())
        mean = sums[:-1] / count
        centred = values - mean.view(shape)
        variance = cast(Tensor, _Sum.apply(centred.square().sum(axes), self.world)) / count
        _follow(norm, mean.detach(), variance.detach() * count / max(count - 1, 1))
        y = centred * (variance + norm.eps).rsqrt().view(shape)
        if norm.affine:
            y = y * norm.weight.view(shape) + norm.bias.view(shape)
        return y.to(x.dtype)


@torch.no_grad()
def _follow(norm: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    """The running statistics, as `nn.BatchNorm` keeps them."""
    if norm.running_mean is None or norm.running_var is None or norm.num_batches_tracked is None:
        return
    norm.num_batches_tracked += 1
    share = 1 / float(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
    norm.running_mean.lerp_(mean.to(norm.running_mean), share)
    norm.running_var.lerp_(variance.to(norm.running_var), share)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, world: World) -> Tensor:
        ctx.world = world
        return _all_reduced(x, world)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _all_reduced(gradients[0], ctx.world), None


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, world: World) -> Tensor:
        begin, end, _ = world.places_of(len(rows))
        ctx.rows, ctx.world = slice(begin, end), world
        return world.gather_rows(rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _all_reduced(gradients[0], ctx.world)[ctx.rows], None


def _all_reduced(x: Tensor, world: World) -> Tensor:
    import torch.distributed as dist

    total = x.contiguous().clone()
    dist.all_reduce(total, group=world.group)
    return total
