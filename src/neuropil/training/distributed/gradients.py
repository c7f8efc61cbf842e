"""The gradient of a whole update: the sum of what the processes find for their shares.

    ∇L = Σ_r (d_r / D) ∇L_r

Gradients are added in buckets of some megabytes, each as soon as the backward pass has made the last of its gradients,
while it goes on with others. Buckets are sent in one order, from the last parameters to the first, in which backward
reaches them. What a loss is and how its gradient is made does not matter: hooks on the parameters notice both
back-propagation and rules of a learner's own. A parameter without a gradient in every process stays without one.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import Parameter

from neuropil.protocols import Phase
from neuropil.training.distributed.dtensor import local
from neuropil.training.distributed.processes import World

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

BUCKET_BYTES = 8 * 2**20


class _Bucket:
    """Parameters whose gradients are sent together, in one tensor: all gradients, then for each whether there is
    one."""

    def __init__(self, parameters: Sequence[Parameter], world: World):
        self.parameters, self.world, self.waiting = parameters, world, 0
        self.sent = torch.empty(0)
        self.work: Any = None

    def begin(self) -> None:
        self.waiting = len(self.parameters)

    def send(self) -> None:
        import torch.distributed as dist

        found = [torch.zeros_like(local(each)) if each.grad is None else local(each.grad) for each in self.parameters]
        there = found[0].new_tensor([each.grad is not None for each in self.parameters])
        self.sent = torch.cat([*(gradient.reshape(-1) for gradient in found), there])
        self.work = dist.all_reduce(self.sent, group=self.world.group, async_op=True)

    def receive(self) -> None:
        self.work.wait()
        sizes = [local(each).numel() for each in self.parameters]
        *gradients, there = self.sent.split([*sizes, len(self.parameters)])
        for parameter, gradient, count in zip(self.parameters, gradients, there.tolist(), strict=True):
            if not count:
                continue
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            local(parameter.grad).copy_(gradient.view_as(local(parameter)))


class GradientSum:
    """For the phases of a learner; `close` takes the hooks off their parameters."""

    def __init__(self, phases: Sequence[Phase], world: World):
        self.world, self.hooks, self.active = world, list["RemovableHandle"](), list[_Bucket]()
        self.buckets = {phase.name: _buckets(list(phase.parameters.values()), world) for phase in phases}
        self.next = 0
        """The bucket that is sent next: in every process the same."""
        if not world.alone:
            self._listen()

    def close(self) -> None:
        for hook in self.hooks:
            hook.remove()

    @contextmanager
    def of(self, phase: Phase, *, last: bool) -> Iterator[None]:
        """Around the backward pass of a share. After that of the `last` batch of an update, the gradients are those of
        all processes and batches."""
        if self.world.alone or not last:
            yield
            return
        self.active, self.next = self.buckets[phase.name], 0
        for bucket in self.active:
            bucket.begin()
        yield
        self._send(len(self.active))
        for bucket in self.active:
            bucket.receive()
        self.active = []

    def _listen(self) -> None:
        for buckets in self.buckets.values():
            for bucket in buckets:
                for parameter in bucket.parameters:
                    if parameter.requires_grad:
                        hook = parameter.register_post_accumulate_grad_hook(lambda _, b=bucket: self._arrived(b))
                        self.hooks.append(hook)

    def _arrived(self, bucket: _Bucket) -> None:
        if bucket not in self.active:  # of another phase, whose parameters this loss reaches too
            return
        bucket.waiting -= 1
        complete = next((place for place, each in enumerate(self.active) if each.waiting > 0), len(self.active))
        self._send(complete)

    def _send(self, end: int) -> None:
        for bucket in self.active[self.next : end]:
            bucket.send()
        self.next = max(self.next, end)


def _buckets(parameters: Sequence[Parameter], world: World) -> list[_Bucket]:
    """From the last parameter to the first; those of one bucket are of one type, on one device."""
    groups: list[list[Parameter]] = []
    size, kind = 0, None
    for parameter in reversed(parameters):
        if not groups or (parameter.dtype, parameter.device) != kind or size >= BUCKET_BYTES:
            groups.append([])
            size, kind = 0, (parameter.dtype, parameter.device)
        groups[-1].append(parameter)
        size += parameter.numel() * parameter.element_size()
    return [_Bucket(group, world) for group in groups]
