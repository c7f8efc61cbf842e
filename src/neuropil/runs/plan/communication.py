"""What a device sends in an update, and how long it waits for that.

    DDP      all-reduce of the gradients                       2 (n − 1)/n · 4 P
    FSDP     all-gather of the weights, forward and backward     (n − 1)/n · bytes · (P + P of the blocks)
             reduce-scatter of the gradients                     (n − 1)/n · 4 P
    tensor   all-reduce of the stream, twice in each block     2 (t − 1)/t · bytes · tokens · width,
             forward and backward, and where it is recomputed

These are the bytes of a ring, which sends the fewest. DDP sends while the backward pass goes on, FSDP while other
blocks are computed; tensor parallelism waits.
"""

from dataclasses import asdict, dataclass
from typing import Any

from neuropil.errors import InputError
from neuropil.runs.plan.memory import HALF, Way
from neuropil.runs.plan.shapes import SINGLE, MeasuredShape, TransformerShape

BUCKET_BYTES = 8 * 2**20
"""Of gradients that DDP sends at once."""
BACKWARD_SHARE = 2 / 3
"""Of the computation."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that a device sends in an update, by what for."""

    all_reduce: float = 0.0
    all_gather: float = 0.0
    reduce_scatter: float = 0.0
    tensor: float = 0.0
    unhidden: float = 0.0
    """Of the others, what is sent when there is nothing yet, or nothing more, to compute."""

    @property
    def data(self) -> float:
        return self.all_reduce + self.all_gather + self.reduce_scatter

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "total": self.data + self.tensor}


@dataclass(frozen=True)
class Hardware:
    """`peak` is in operations a second, `utilisation` the share of it that matrix products reach; the bandwidths are
    what a device sends in a second to another on its host, and on another host."""

    devices: int
    devices_per_host: int
    memory: float
    peak: float
    utilisation: float
    bandwidth: float
    network: float

    def __post_init__(self):
        devices, each = self.devices, self.devices_per_host
        if devices > each and devices % each:  # torchrun starts as many processes on every host
            below = devices - devices % each
            equal = max(size for size in range(1, each) if devices % size == 0)
            fix = f"choose --gpus {below} or {below + each}, or --gpus-per-host {equal}"
            rule = "--gpus above --gpus-per-host must be a multiple of it"
            raise InputError(rule, got=f"{devices} devices of which a host has {each}", fix=fix)

    @property
    def hosts(self) -> int:
        return -(-self.devices // self.devices_per_host)


def traffic(model: TransformerShape | MeasuredShape, way: Way, batch: int, *, half: bool) -> Traffic:
    """For so many sequences on a device at once."""
    ring, number = (way.data - 1) / way.data, HALF if half else SINGLE
    if isinstance(model, MeasuredShape):
        every = 2 * ring * SINGLE * model.parameters
        return Traffic(all_reduce=every, unhidden=min(every, 2 * ring * BUCKET_BYTES))
    blocks = model.layers * (model.block - model.divided + model.divided / way.tensor)
    own = model.outside + blocks
    passes = 6 if way.recompute else 4
    stream = number * batch * model.context * model.width
    tensor = way.accumulate * passes * model.layers * 2 * (way.tensor - 1) / way.tensor * stream
    if way.shards == 1:  # the gradients of the embeddings are the last
        return Traffic(all_reduce=2 * ring * SINGLE * own, tensor=tensor, unhidden=2 * ring * SINGLE * model.outside)
    gathered, scattered = way.accumulate * ring * number * (own + blocks), way.accumulate * ring * SINGLE * own
    first, last = number * (model.outside + blocks / model.layers), SINGLE * model.outside
    unhidden = way.accumulate * ring * (first + last)
    return Traffic(all_gather=gathered, reduce_scatter=scattered, tensor=tensor, unhidden=unhidden)


def waiting_seconds(sent: Traffic, way: Way, hardware: Hardware, computing: float) -> float:
    """Of an update that computes for so many seconds: what is sent while nothing is left to compute. Neighbours divide
    layers, and so are on one host."""
    between = hardware.network if hardware.hosts > 1 else hardware.bandwidth
    behind = computing if way.shards > 1 else BACKWARD_SHARE * computing / way.accumulate
    return max(sent.unhidden / between, sent.data / between - behind) + sent.tensor / hardware.bandwidth
