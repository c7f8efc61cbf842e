"""What enters at each step: the teacher's, the network's own, or one of the two for each row by itself."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.parts.scheduled_sampling import scheduled_sampling


class Counting:
    """Its output is 1000 more than what enters, its answer is its output, and it notes what entered."""

    def __init__(self) -> None:
        self.entered: list[Tensor] = []

    def __call__(self, entering: Tensor, state: int) -> tuple[Tensor, int]:
        self.entered.append(entering)
        output = (entering + 1000).float()
        return output.unsqueeze(-1) if entering.ndim == 1 else output, state + 1

    @property
    def seen(self) -> Tensor:
        return torch.stack(self.entered, 1)


def answer(output: Tensor) -> Tensor:
    return output.squeeze(-1)


@settings(deadline=None, max_examples=20)
@given(batch=st.integers(0, 4), steps=st.integers(1, 6))
def test_a_teacher_feeds_all_and_no_one_feeds_all_but_the_first(batch: int, steps: int):
    fed = torch.arange(batch * steps).reshape(batch, steps)
    taught, free = Counting(), Counting()
    outputs, state = scheduled_sampling(taught, 0, fed, 0.0, answer)
    assert torch.equal(taught.seen, fed)
    assert torch.equal(outputs, (fed + 1000).float().unsqueeze(-1))
    assert state == steps
    scheduled_sampling(free, 0, fed, 1.0, answer)
    assert torch.equal(free.seen, fed[:, :1] + 1000 * torch.arange(steps))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_a_coin_is_thrown_for_each_row_and_each_step(share: float):
    torch.manual_seed(0)
    fed, network = torch.zeros(2000, 6, dtype=torch.int64), Counting()
    scheduled_sampling(network, 0, fed, share, answer)
    own = network.seen > 0
    assert not own[:, 0].any()
    assert ((own[:, 1:].float().mean(0) - share).abs() < 4 * (share * (1 - share) / 2000) ** 0.5).all()
    # Where the own answer enters twice in a row it grows on, so the coins can be read off: they do not depend on one
    # another.
    runs = network.seen[:, 2] // 1000
    for length, expected in enumerate([1 - share, share * (1 - share), share**2]):
        assert abs(float((runs == length).float().mean()) - expected) < 4 * (expected * (1 - expected) / 2000) ** 0.5


def test_vectors_enter_whole_and_keep_their_kind():
    torch.manual_seed(0)
    fed = torch.zeros(500, 3, 2, dtype=torch.float64)
    network = Counting()
    scheduled_sampling(network, 0, fed, 0.5, lambda output: output)
    assert {entering.dtype for entering in network.entered} == {torch.float64}
    own = network.seen > 0
    assert torch.equal(own[..., 0], own[..., 1])
    assert 0.4 < own[:, 1:].float().mean() < 0.6


def test_no_gradient_goes_through_an_own_answer():
    weight = torch.ones(1, requires_grad=True)
    outputs, _ = scheduled_sampling(
        lambda entering, state: (entering * weight, state), None, torch.ones(1, 3, 1), 1.0, lambda output: output
    )
    assert torch.autograd.grad(outputs.sum(), weight)[0].item() == 3


def test_the_same_seed_throws_the_same_coins():
    results = []
    for _ in range(2):
        torch.manual_seed(7)
        network = Counting()
        scheduled_sampling(network, 0, torch.zeros(5, 4, dtype=torch.int64), 0.5, answer)
        results.append(network.seen)
    assert torch.equal(*results)


def test_nothing_to_begin_with_is_refused():
    with pytest.raises(InputError) as error:
        scheduled_sampling(Counting(), 0, torch.zeros(2, 0, dtype=torch.int64), 0.5, answer)
    assert str(error.value) == "a sequence that is written begins with what is fed at its first step, but got no steps."
