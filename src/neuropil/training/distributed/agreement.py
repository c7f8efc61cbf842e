"""What all processes of a run decide by: the clock of rank 0, and whether any of them was asked to stop.

Both travel with the loss of each batch, which all must know anyhow. So all come to the same decision after the same
update: to validate, to write a checkpoint, to stop.
"""

import time

from neuropil.training.distributed.processes import World
from neuropil.training.interruption import StopRequest


class Agreement:
    def __init__(self, world: World, stop: StopRequest, copies: int = 1):
        """`copies` is how many processes have each share of a batch."""
        self.world, self.stop, self.stopped, self.copies = world, stop, False, copies
        self.begin(0.0)

    def begin(self, elapsed: float) -> None:
        """A run that has taken so many seconds before."""
        self.started, self.agreed = time.monotonic() - elapsed, elapsed

    def total(self, loss: float) -> float:
        """The sum of the losses of all processes, each of which counts for its share."""
        if self.world.alone:
            return loss
        clock = self._clock() if self.world.first else 0.0
        total, self.agreed, stopped = self.world.sum([loss, clock, float(self.stop.requested)])
        self.stopped = stopped > 0
        return total / self.copies

    def refresh(self) -> None:
        """After something that has taken long in rank 0."""
        if not self.world.alone:
            self.agreed = self.world.broadcast(self._clock())

    @property
    def elapsed(self) -> float:
        """Seconds of the run."""
        return self._clock() if self.world.alone else self.agreed

    @property
    def stop_requested(self) -> bool:
        return self.stop.requested if self.world.alone else self.stopped

    def _clock(self) -> float:
        return time.monotonic() - self.started
