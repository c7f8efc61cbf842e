from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from neuropil.protocols import Batch, Phase
from neuropil.training.distributed.shares import FirstShares, rows_of, shares

ROWS = st.lists(st.integers(1, 40), min_size=1, max_size=4)


def phase(**options: object) -> Phase:
    return Phase("any", {"weight": nn.Parameter(torch.zeros(1))}, lambda batch: batch["input"].mean(), **options)  # type: ignore[arg-type]


def batches(counts: list[int], weighted: bool = False) -> list[Batch]:
    """With a number of its own for each row."""
    numbers = torch.arange(float(sum(counts))).split(counts)
    return [{"input": each, **({"weight": (each + 1) % 3} if weighted else {})} for each in numbers]


@given(ROWS, st.integers(1, 9))
def test_every_row_is_in_one_share_and_counts_once(counts: list[int], size: int):
    group = batches(counts)
    parts = [shares(phase(), group, rank, size) for rank in range(size)]
    weight = torch.zeros(sum(counts))
    for place, count in enumerate(counts):
        of_batch = [each[place] for each in parts]
        found = torch.cat([share.batch["input"] for share in of_batch])
        if count >= size:
            assert torch.equal(found, group[place]["input"])  # none twice, none lost, in their order
            sizes = [len(share.batch["input"]) for share in of_batch]
            assert max(sizes) - min(sizes) <= 1
        else:
            assert all(torch.equal(share.batch["input"], group[place]["input"]) for share in of_batch)
        assert all(share.divided == (count >= size > 1) for share in of_batch)
        for share in of_batch:
            weight[share.batch["input"].long()] += share.factor / len(share.batch["input"])
    torch.testing.assert_close(weight, torch.full_like(weight, 1 / sum(counts)))


@given(ROWS, st.integers(1, 9), st.booleans())
def test_the_losses_of_the_shares_add_up_to_the_loss_of_all(counts: list[int], size: int, steps: bool):
    """Which is a mean over weights, or over steps of which each row has another number."""

    def valid(batch: Batch) -> Tensor:
        return torch.arange(5) <= batch["input"][:, None] % 5

    def loss(batch: Batch) -> Tensor:
        if steps:
            return batch["input"][:, None].expand(-1, 5)[valid(batch)].mean()
        return (batch["weight"] * batch["input"]).sum() / batch["weight"].sum().clamp(min=1e-9)

    group = batches(counts, weighted=not steps)
    learned = phase(denominator=(lambda batch: float(valid(batch).sum())) if steps else None)
    parts = [share for rank in range(size) for share in shares(learned, group, rank, size)]
    total = sum(share.factor * float(loss(share.batch)) for share in parts)
    whole = {name: torch.cat([batch[name] for batch in group]) for name in group[0]}
    assert total == pytest.approx(float(loss(whole)), rel=1e-5, abs=1e-5)


def test_one_process_has_the_batch_itself():
    (batch,) = batches([3])
    ((share, factor, divided),) = shares(phase(), [batch])
    assert share is batch
    assert (factor, divided) == (1.0, False)


def test_a_share_that_counts_for_nothing_has_no_factor():
    group: list[Batch] = [{"input": torch.ones(4), "weight": torch.tensor([0.0, 0.0, 1.0, 3.0])}]
    assert [shares(phase(), group, rank, 2)[0].factor for rank in range(2)] == [0.0, 1.0]


def test_rows_of_a_stream_stay_in_one_process():
    assert [rows_of(7, rank, 3) for rank in range(3)] == [slice(0, 2), slice(2, 4), slice(4, 7)]


def test_one_process_measures_by_the_share_that_each_will_have():
    class Two:
        def __len__(self) -> int:
            return 2

        def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
            return iter(batches([6, 1])[start:])

    assert [len(batch["input"]) for batch in FirstShares(Two(), 3).epoch(0)] == [2, 1]
    assert [len(batch["input"]) for batch in FirstShares(Two(), 1).epoch(0, 1)] == [1]
    assert len(FirstShares(Two(), 3)) == 2
