"""The spiking classifier's compiled loops beside autograd through the plain loop over the steps: the same network,
spikes and gradients. Goals: a training step at least 2 times as fast, and the layers of neurons alone 5 times."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.nn import functional as F

from benchmarks.timing import alternate, ratio
from neuropil.models.lif import constants
from neuropil.models.spiking import layer
from neuropil.models.spiking.classifier import SpikingClassifier, SpikingClassifierConfig
from neuropil.models.spiking.layer import SpikingLayerConfig, fire

ROUNDS = 5
NETWORKS = {
    "digits, 64-128-128-10, batches of 64": (SpikingClassifierConfig(), 64),
    "MNIST, 784-512-512-10, batches of 128": (SpikingClassifierConfig(hidden_sizes=(512, 512), shape=(1, 28, 28)), 128),
}


def main(rounds: int = ROUNDS, repeats: int = 5) -> None:
    for name, (config, batch) in NETWORKS.items():
        firing = SpikingLayerConfig(constants(config.neuron, config.dt), config.steps, config.slope)
        alone = alternate(
            {way: layers(compiled, firing, config, batch, repeats) for way, compiled in WAYS.items()}, rounds
        )
        print(f"{name}, neurons alone, plain loop / neuropil: {ratio(alone['plain loop'], alone['neuropil'])}")
        whole = alternate({way: training(compiled, config, batch, repeats) for way, compiled in WAYS.items()}, rounds)
        print(f"{name}, training step, plain loop / neuropil: {ratio(whole['plain loop'], whole['neuropil'])}")
        print(
            f"    {1000 * min(whole['neuropil']) / repeats:.1f} ms, plain loop "
            f"{1000 * min(whole['plain loop']) / repeats:.1f} ms"
        )


WAYS = {"neuropil": True, "plain loop": False}
"""Whether its loops are compiled."""


def layers(
    compiled: bool,
    firing: SpikingLayerConfig,
    config: SpikingClassifierConfig,
    batch: int,
    repeats: int,
) -> Callable[[], None]:
    """Forwards and backwards through the neurons of one layer, without its weights."""
    torch.manual_seed(0)
    drive = (0.3 * torch.randn(config.steps, batch, config.hidden_sizes[0])).requires_grad_()
    gradient = torch.randn(config.steps, batch, config.hidden_sizes[0])

    def work() -> None:
        with loops(compiled):
            for _ in range(repeats):
                fire(drive, firing).backward(gradient)

    return work


def training(compiled: bool, config: SpikingClassifierConfig, batch: int, repeats: int) -> Callable[[], None]:
    torch.manual_seed(0)
    model = SpikingClassifier(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    x, target = torch.randn(batch, *config.shape), torch.randint(0, config.classes, (batch,))

    def work() -> None:
        with loops(compiled):
            for _ in range(repeats):
                optimizer.zero_grad()
                F.cross_entropy(model(x), target).backward()
                optimizer.step()

    return work


@contextmanager
def loops(compiled: bool) -> Iterator[None]:
    usual = layer.compiles
    layer.compiles = usual if compiled else lambda drive: False
    try:
        yield
    finally:
        layer.compiles = usual


if __name__ == "__main__":
    main()
