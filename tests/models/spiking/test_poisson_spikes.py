"""Random spikes: at the rates that are asked for, independent of each other, and the same for a seed."""

import torch

from neuropil.models.spiking.poisson_spikes import poisson_spikes
from neuropil.parts.threads.pytorch_threads import torch_threads


def test_spikes_come_at_their_rates():
    """The deviations from the probabilities are as large as chance makes them, and no larger."""
    torch.manual_seed(0)
    p = torch.rand(20, 300)
    p[:, :5], p[:, 5:10] = 0, 1
    rates = poisson_spikes(p, 2000).mean(0)
    assert torch.equal(rates[:, :10], p[:, :10])
    deviations = ((rates - p) / (p * (1 - p) / 2000).sqrt())[:, 10:]
    assert abs(deviations.std() - 1) < 0.04
    assert abs(deviations.mean()) < 0.05


def test_neighbours_in_time_inputs_and_examples_are_independent():
    torch.manual_seed(0)
    x = poisson_spikes(torch.full((64, 200), 0.5), 100) - 0.5
    for near in (x[:-1] * x[1:], x[:, :-1] * x[:, 1:], x[..., :-1] * x[..., 1:]):
        assert abs(4 * near.mean()) < 5 / x.numel() ** 0.5


def test_the_generator_of_pytorch_decides_and_threads_do_not():
    p = torch.rand(3, 100)

    def drawn(threads: int) -> torch.Tensor:
        torch.manual_seed(0)
        with torch_threads(threads):
            return poisson_spikes(p, 10)

    assert torch.equal(drawn(1), drawn(3))
    assert not torch.equal(drawn(1), poisson_spikes(p, 10))
