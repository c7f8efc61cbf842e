"""Examples in memory, a batch at a time."""

from jaxtyping import Int64
from torch import Tensor

from neuropil.data.batches import SpreadBatches
from neuropil.data.examples.dataset import Examples
from neuropil.protocols import Batch


class ExampleBatches(SpreadBatches):
    """Passes over examples as ``{"input": …, "target": …}``."""

    examples: Examples

    def gather(self, order: Int64[Tensor, " example"], begin: int, end: int) -> Batch:
        if self.shuffle:
            return super().gather(order, begin, end)
        return {"input": self.examples.inputs[begin:end], "target": self.examples.targets[begin:end]}
