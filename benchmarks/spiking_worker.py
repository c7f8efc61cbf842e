"""One library's side of `benchmarks.spiking_peers`: a process in an environment of its own that trains the network when
it is told to, a JSON object a line. It needs PyTorch, NumPy and that library alone.

The peers are written as their users write them, a loop over the steps, with what helps them: the first layer's product
is made once for all steps. Where a library counts inputs in other units, its weights W' = c W are learned at the rate
c η and with ε/c, which for Adam is the same network after every update."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.workers import answer_requests

RATE, EPSILON = 1e-3, 1e-8


class Peer(nn.Module):
    """Layers that are loops over the steps. `exact`: a neuron that fires loses the input of that step, and a spike
    arrives a step later, as in neuropil; it is what costs the peers two more operations, and is not timed."""

    scales: tuple[float, float, float]
    """Of the first weights for currents, of weights behind spikes, of the readout's."""
    dice: Tensor

    def __init__(self, sizes: list[int], classes: int, decay: float, slope: float, steps: int, coding: str):
        super().__init__()
        self.sizes, self.decay, self.slope, self.steps, self.coding = sizes, decay, slope, steps, coding
        self.hidden = nn.ModuleList(nn.Linear(n, m) for n, m in pairwise(sizes))
        self.output = nn.Linear(sizes[-1], classes, bias=False)
        self.bias = nn.Parameter(torch.zeros(classes))
        self.neurons = [self.neuron() for _ in self.hidden]
        self.readout = self.leak()
        self.register_buffer("dice", torch.empty(steps, 1, sizes[0]))

    def neuron(self) -> Callable[..., tuple[Tensor, Any]]:
        raise NotImplementedError

    def leak(self) -> Callable[..., tuple[Tensor, Any]]:
        raise NotImplementedError

    def forward(self, x: Tensor, exact: bool = False) -> Tensor:
        entering = x
        if self.coding != "current":
            dice = torch.rand(self.steps, *x.shape) if self.training else self.dice
            entering = (x > dice).to(x.dtype)
        first = self.hidden[0](entering)
        drives = [first] * self.steps if self.coding == "current" else first.unbind(0)
        states: list[Any] = [None] * len(self.hidden)
        spikes: list[Any] = [None] * len(self.hidden)
        readout, total = None, 0.0
        for k in range(self.steps):
            before = list(spikes)
            for i, neuron in enumerate(self.neurons):
                kicked = i > 0 or self.coding != "current"
                if not exact or not kicked:
                    drive = self.hidden[i](spikes[i - 1]) if i else drives[k]
                elif k == 0:
                    drive = torch.zeros(len(x), self.sizes[i + 1])
                else:
                    drive = self.hidden[i](before[i - 1]) if i else drives[k - 1]
                    drive = self.decay * (1 - before[i].detach()) * drive
                spikes[i], states[i] = neuron(drive, states[i])
            u, readout = self.readout(self.output(spikes[-1]), readout)
            total = total + u
        return self.bias + total / self.steps

    def scale(self, name: str) -> float:
        currents, kicks, reads = self.scales
        if name.startswith("hidden.0"):
            return currents if self.coding == "current" else kicks
        return reads if name.startswith("output") else kicks if name.startswith("hidden") else 1.0


def snntorch_classes() -> type[Peer]:
    import snntorch  # pyright: ignore[reportMissingImports]
    from snntorch import surrogate  # pyright: ignore[reportMissingImports]

    class SnnTorch(Peer):
        """v ← λ v + input."""

        @property
        def scales(self) -> tuple[float, float, float]:  # pyright: ignore[reportIncompatibleVariableOverride]
            return 1 - self.decay, 1.0, 1.0

        def neuron(self) -> Callable[..., tuple[Tensor, Any]]:
            return self.stepped(spike_grad=surrogate.atan(alpha=self.slope), reset_mechanism="zero")

        def leak(self) -> Callable[..., tuple[Tensor, Any]]:
            stepped = self.stepped(reset_mechanism="none")

            def step(drive: Tensor, state: Any) -> tuple[Tensor, Any]:
                _, state = stepped(drive, state)
                return state, state

            return step

        def stepped(self, **options: Any) -> Callable[..., tuple[Tensor, Any]]:
            cell = snntorch.Leaky(beta=self.decay, **options)
            return lambda drive, state: cell(drive, torch.zeros_like(drive) if state is None else state)

    return SnnTorch


def norse_classes() -> type[Peer]:
    from norse.torch.functional import lif_box  # pyright: ignore[reportMissingImports]
    from norse.torch.functional.leaky_integrator_box import LIBoxParameters  # pyright: ignore[reportMissingImports]
    from norse.torch.functional.lif_box import LIFBoxParameters  # pyright: ignore[reportMissingImports]
    from norse.torch.module.leaky_integrator_box import LIBoxCell  # pyright: ignore[reportMissingImports]
    from norse.torch.module.lif_box import LIFBoxCell  # pyright: ignore[reportMissingImports]

    class Arctan(torch.autograd.Function):
        """Norse has none, and this is as its others are."""

        @staticmethod
        def forward(ctx: Any, x: Tensor, alpha: float) -> Tensor:
            ctx.save_for_backward(x)
            ctx.alpha = alpha
            return (x > 0).to(x.dtype)

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
            (x,) = ctx.saved_tensors
            return ctx.alpha / 2 / (1 + (math.pi / 2 * ctx.alpha * x).pow_(2)) * gradients[0], None

    lif_box.threshold = lambda x, method, alpha: Arctan.apply(x, alpha)

    def detached_reset(z: Tensor, v: Tensor, reset: Tensor, threshold: Tensor) -> Tensor:
        return (1 - z.detach()) * v

    class Norse(Peer):
        """v ← v + (1 − λ) (input − v)."""

        @property
        def scales(self) -> tuple[float, float, float]:  # pyright: ignore[reportIncompatibleVariableOverride]
            return 1.0, 1 / (1 - self.decay), 1 / (1 - self.decay)

        def neuron(self) -> Callable[..., tuple[Tensor, Any]]:
            share = torch.as_tensor(1 - self.decay)
            return LIFBoxCell(
                LIFBoxParameters(tau_mem_inv=share, alpha=self.slope, reset_method=detached_reset), dt=1.0
            )

        def leak(self) -> Callable[..., tuple[Tensor, Any]]:
            return LIBoxCell(LIBoxParameters(tau_mem_inv=torch.as_tensor(1 - self.decay)), dt=1.0)

    return Norse


def ours(sizes: list[int], classes: int, decay: float, slope: float, steps: int, coding: str) -> nn.Module:
    from neuropil.models.lif import LIFConfig
    from neuropil.models.spiking.classifier import SpikingClassifier, SpikingClassifierConfig

    neuron = LIFConfig(tau_m=-2.0 / math.log(decay), tau_ref=0.0)
    options: Any = {"neuron": neuron, "dt": 2.0, "steps": steps, "slope": slope, "coding": coding, "dropout": 0.0}
    config = SpikingClassifierConfig(hidden_sizes=tuple(sizes[1:]), shape=(sizes[0],), classes=classes, **options)
    return SpikingClassifier(config)


BUILD: dict[str, Callable[[], Callable[..., nn.Module]]] = {
    "neuropil": lambda: ours,
    "snnTorch": snntorch_classes,
    "Norse": norse_classes,
}


@contextmanager
def as_it_trains(model: nn.Module) -> Iterator[None]:
    """neuropil's `fit` chooses who multiplies matrices, and keeps freed memory."""
    if isinstance(model, Peer):
        yield
        return
    from neuropil.training.cpu.allocation import reused_memory
    from neuropil.training.cpu.products import products_by_onednn

    with reused_memory(), products_by_onednn(model):
        yield


class Worker:
    def __init__(self, library: str):
        self.build = BUILD[library]()

    def start(self, data: str, weights: str, network: dict[str, Any], batch: int) -> None:
        """A new network with these weights, before the first epoch."""
        with np.load(data) as arrays:
            self.x, self.y, self.test_x, self.test_y = (torch.from_numpy(arrays[f"arr_{i}"]) for i in range(4))
        self.model, self.batch = self.build(**network), batch
        scale = self.model.scale if isinstance(self.model, Peer) else lambda name: 1.0
        groups = []
        with np.load(weights) as given, torch.no_grad():
            for name, parameter in self.model.named_parameters():
                c = scale(name)
                parameter.copy_(c * torch.from_numpy(given["output.bias" if name == "bias" else name]))
                groups.append({"params": [parameter], "lr": RATE * c, "eps": EPSILON / c})
            if isinstance(self.model, Peer) and "encode.dice" in given:
                self.model.dice = torch.from_numpy(given["encode.dice"])
        self.optimizer = torch.optim.Adam(groups, fused=True)
        self.order, self.place, self.epoch = torch.empty(0, dtype=torch.long), 0, 0

    def train(self, updates: int) -> float:
        """Seconds of the processor."""
        self.model.train()
        start = time.process_time()
        with as_it_trains(self.model):
            self._train(updates)
        return time.process_time() - start

    def _train(self, updates: int) -> None:
        for _ in range(updates):
            if self.place + self.batch > len(self.order):
                generator = torch.Generator().manual_seed(self.epoch)
                self.order, self.place, self.epoch = torch.randperm(len(self.x), generator=generator), 0, self.epoch + 1
                torch.manual_seed(self.epoch)
            index = self.order[self.place : self.place + self.batch]
            self.place += self.batch
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(self.x[index]), self.y[index]).backward()
            self.optimizer.step()

    @torch.no_grad()
    def accuracy(self) -> float:
        self.model.eval()  # random spikes of all three are drawn by the same dice
        parts = zip(self.test_x.split(500), self.test_y.split(500), strict=True)
        return sum(int((self.model(x).argmax(-1) == y).sum()) for x, y in parts) / len(self.test_y)

    def logits(self, count: int) -> dict[str, list]:
        """And the gradients of each parameter in neuropil's units, as norms."""
        exact = {"exact": True} if isinstance(self.model, Peer) else {}
        logits = self.model.eval()(self.test_x[:count], **exact)
        self.model.zero_grad()
        F.cross_entropy(logits, self.test_y[:count]).backward()
        scale = self.model.scale if isinstance(self.model, Peer) else lambda name: 1.0
        named = sorted(("output.bias" if name == "bias" else name, name) for name, _ in self.model.named_parameters())
        norms = []
        for _, name in named:
            gradient: Any = self.model.get_parameter(name).grad
            norms.append(float(scale(name) * gradient.norm()))
        self.model.zero_grad()
        return {"logits": logits.tolist(), "norms": norms}


if __name__ == "__main__":
    answer_requests(lambda: Worker(sys.argv[1]))
