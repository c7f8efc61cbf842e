"""Memory of one device while a model is trained, by formula; a benchmark compares it with what an allocator gave out.

    weights 4 P + gradients 4 P + moments 8 P (Adam)        P / data with FSDP, what tensor parallelism divides / tensor
    activations: layers · tokens · bytes of a block          with recomputation of each block its input, and one block
    logits of some tokens, the gradient of their matrix      as the loss makes them
    communication: a copy of the gradients (DDP), gathered weights (FSDP)

The most is needed at one of three moments: at the end of the forward pass, when the gradients of the update before are
still there; where the backward pass begins; and at its end, when the last gradients are added up.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any

from neuropil.protocols import OptimizerName
from neuropil.runs.plan.shapes import SINGLE, MeasuredShape, TransformerShape

HALF = 2


@dataclass(frozen=True)
class Way:
    """`parallel` data on so many devices, each of which has its share of the batch, or its share of the weights too
    (fsdp), and layers divided over `tensor` devices. A batch is divided into `accumulate` that are computed one after
    the other."""

    parallel: str = "none"
    data: int = 1
    tensor: int = 1
    recompute: bool = False
    accumulate: int = 1

    @property
    def shards(self) -> int:
        return self.data if self.parallel == "fsdp" else 1


@dataclass(frozen=True)
class Memory:
    """Bytes of one device at the `moment` when it needs the most."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float = 0.0
    communication: float = 0.0
    moment: str = ""

    @property
    def total(self) -> float:
        return sum(getattr(self, each.name) for each in fields(self) if each.name != "moment")

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "total": self.total}


def transformer_memory(
    model: TransformerShape, way: Way, batch: int, *, half: bool, optimizer: OptimizerName, average: bool = False
) -> Memory:
    """For so many sequences on this device at once. In `half` precision matrices and activations are bfloat16, weights,
    sums and moments float32; `average` is a running average of the weights."""
    tokens, number = batch * model.context, HALF if half else SINGLE
    block = model.block - model.divided + model.divided / way.tensor
    own = (model.outside + model.layers * block) / way.shards
    weights = SINGLE * own * (2 if average else 1)
    gradients, optimizer_states = SINGLE * own, SINGLE * model.moments(optimizer, way.tensor) / way.shards
    every = tokens * model.block_bytes(number, way.tensor)
    kept = model.layers * (tokens * SINGLE * model.width if way.recompute else every)
    ends, stream = tokens * model.ends_bytes(), tokens * SINGLE * model.width
    # The matrices in half precision are made once in an update, and kept for its backward pass
    casts = HALF * model.layers * model.matrices / way.tensor if half and way.shards == 1 else 0.0
    sent = SINGLE * own if way.parallel == "ddp" and way.data > 1 else 0.0
    # What belongs to no block is gathered for the whole update, and of the blocks the one that is computed and the next
    gathered = number * (model.outside + 2 * block) if way.shards > 1 else 0.0
    table = model.tables * (number if way.shards > 1 else SINGLE)
    logits = model.logits_bytes(tokens, number, gathered=way.shards > 1)
    passing = 2 * stream + tokens * number * model.feed_forward / way.tensor  # gradients on their way through a block
    again = every if way.recompute else 0.0
    unshared = 2 * SINGLE * block if way.shards > 1 else 0.0
    earlier = gradients if way.accumulate > 1 else 0.0  # of the batches before
    moments = {
        "end of the forward pass": (gradients, kept + ends + stream + casts, logits + table, sent + gathered),
        "start of the backward pass": (
            earlier,
            kept + ends + casts + again + passing,
            table,
            sent + gathered + unshared,
        ),
        "end of the backward pass": (gradients, stream, table, sent + gathered + unshared),
    }
    found = [
        Memory(weights, gradient, optimizer_states, activations, temporary, communication, moment)
        for moment, (gradient, activations, temporary, communication) in moments.items()
    ]
    return max(found, key=lambda each: each.total)


def measured_memory(model: MeasuredShape, way: Way, batch: int, *, average: bool = False) -> Memory:
    weights = SINGLE * model.parameters
    sent = weights if way.data > 1 else 0
    kept, activations = weights * (2 if average else 1), batch * model.example_bytes
    return Memory(kept, weights, model.moments, activations, communication=sent, moment="peak of a measured update")
