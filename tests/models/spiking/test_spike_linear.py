"""A linear layer behind spikes: the dense product and its gradients, whatever the density and the number of threads."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.models.spiking import spike_linear
from neuropil.models.spiking.spike_linear import SpikeLinear, SpikeProduct, find_spikes
from neuropil.parts.threads.pytorch_threads import torch_threads


def spikes_of(density: float, shape: tuple[int, ...] = (25, 16, 70), value: float = 1.0) -> Tensor:
    """With a silent unit, and with rows without a spike."""
    spikes = value * (torch.rand(shape, generator=torch.Generator().manual_seed(0)) < density).float()
    spikes[..., 3] = 0
    spikes[0] = 0
    return spikes


def layer(inputs: int = 70, outputs: int = 100) -> SpikeLinear:
    torch.manual_seed(1)
    return SpikeLinear(inputs, outputs)


def gradients(y: Tensor, of: list[Tensor]) -> list[Tensor]:
    weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(2))
    return list(torch.autograd.grad((y * weight).sum(), of))


@pytest.mark.parametrize("density", [0.0, 0.05, 0.15, 0.6])
@pytest.mark.parametrize("value", [1.0, 1.25])  # of neurons that dropout leaves
def test_it_is_the_dense_product(density: float, value: float):
    linear, s = layer(), spikes_of(density, value=value).requires_grad_()
    of = [s, linear.weight, linear.bias]
    found, expected = linear(s), F.linear(s, linear.weight, linear.bias)
    torch.testing.assert_close(found, expected)
    for ours, dense in zip(gradients(found, of), gradients(expected, of), strict=True):
        torch.testing.assert_close(ours, dense, rtol=1e-4, atol=1e-4)
        assert ours.shape == dense.shape


def test_spikes_alone_are_multiplied_where_they_are_rare_and_rows_are_many(monkeypatch: pytest.MonkeyPatch):
    found = []
    usual = spike_linear.find_spikes
    monkeypatch.setattr(spike_linear, "has_kernel", lambda: True)
    monkeypatch.setattr(spike_linear, "find_spikes", lambda *given: found.append(usual(*given)) or found[-1])

    def sparse(linear: nn.Linear, s: Tensor) -> bool:
        found.clear()
        linear(s)
        return bool(found) and found[-1] is not None

    assert sparse(layer(), spikes_of(0.1))
    assert not sparse(layer(), spikes_of(0.3))
    assert not sparse(layer(), spikes_of(0.1, (25, 10, 70)))
    assert not sparse(layer(outputs=10), spikes_of(0.1))
    assert not sparse(layer().double(), spikes_of(0.1).double())


def test_the_result_does_not_depend_on_the_number_of_threads():
    linear, s = layer(), spikes_of(0.05).requires_grad_()

    def results(threads: int) -> list[Tensor]:
        with torch_threads(threads):
            y = SpikeProduct.apply(s, linear.weight, linear.bias, find_spikes(s, 1.0))
            return [y, gradients(y, [linear.weight])[0]]

    for alone, together in zip(results(1), results(3), strict=True):
        assert torch.equal(alone, together)


def test_places_of_spikes_are_those_of_nonzero():
    s = spikes_of(0.2)
    spikes = find_spikes(s, 0.5)
    assert spikes is not None
    rows, units = s.flatten(0, 1).nonzero(as_tuple=True)
    assert spikes.units.tolist() == units.tolist()
    assert spikes.starts.tolist() == [0, *torch.bincount(rows, minlength=400).cumsum(0).tolist()]
    assert find_spikes(s, 0.1) is None


def test_a_gradient_of_a_gradient_is_refused():
    linear, s = layer(), spikes_of(0.05).requires_grad_()
    y = SpikeProduct.apply(s, linear.weight, linear.bias, find_spikes(s, 1.0))
    with pytest.raises(InputError) as error:
        torch.autograd.grad(y.sum(), s, create_graph=True)
    assert str(error.value) == (
        "a product over spikes has no second gradient, but got create_graph=True: leave it out."
    )
