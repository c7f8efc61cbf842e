"""A memory that is read many times: the same answer as attention over it, with what depends on the memory computed
once."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from neuropil.inspection import record
from neuropil.parts.attention import Additive, Concat, Cosine, Dot, General, ScaledDot, Score, attend, attention_weights
from neuropil.parts.attention_memory import SoftSelect
from neuropil.parts.recurrence import valid_mask

WIDTH = 6
SCORES: dict[str, Score] = {
    "dot": Dot(),
    "scaled": ScaledDot(),
    "cosine": Cosine(2.0),
    "general": General(WIDTH, WIDTH).double(),
    "additive": Additive(WIDTH, WIDTH, 5).double(),
    "concat": Concat(WIDTH, WIDTH, 5).double(),
}
scores = st.sampled_from(sorted(SCORES))


def made(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@settings(deadline=None, max_examples=60)
@given(
    name=scores,
    queries=st.integers(1, 4),
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    seed=st.integers(0, 2**16),
)
def test_it_is_attention_with_the_memory_as_keys_and_values(name: str, queries: int, lengths: list[int], seed: int):
    torch.manual_seed(seed)
    select, query, values = SoftSelect(SCORES[name]), made(len(lengths), queries, WIDTH), made(len(lengths), 5, WIDTH)
    mask = valid_mask(torch.tensor(lengths), 5)
    expected = attend(query, values, values, score=SCORES[name], mask=mask.unsqueeze(1))
    torch.testing.assert_close(select(query, select.prepare_memory(values, mask)), expected)
    torch.testing.assert_close(
        select(query, select.prepare_memory(values)), attention_weights(query, values, score=SCORES[name]) @ values
    )  # nothing is hidden without a mask


@pytest.mark.parametrize("make", [lambda: General(4, 7), lambda: Additive(4, 7, 5), lambda: Concat(4, 7, 5)])
def test_queries_may_be_of_another_width_than_what_is_looked_at(make: Any):
    select, query, values = SoftSelect(make()).double(), made(2, 3, 4), made(2, 5, 7)
    torch.testing.assert_close(
        select(query, select.prepare_memory(values)), attend(query, values, values, score=select.score)
    )


@pytest.mark.parametrize("name", ["general", "additive", "concat"])
def test_what_depends_on_the_memory_alone_is_not_computed_at_a_look(name: str):
    select, query, values = SoftSelect(SCORES[name]), made(2, 1, WIDTH), made(2, 50, WIDTH)
    memory = select.prepare_memory(values)

    def operations(look: Callable[[], Tensor]) -> int:
        with FlopCounterMode(display=False) as counter:
            look()
        return counter.get_total_flops()

    projected = 2 * values.numel() * memory.keys.shape[-1]
    every_time, once = (
        operations(lambda: attend(query, values, values, score=select.score)),
        operations(lambda: select(query, memory)),
    )
    of_query = (
        2 * query.numel() * WIDTH if name == "general" else 0
    )  # W is multiplied with the queries there, and with the keys here
    assert once == every_time - (of_query or projected)


@pytest.mark.parametrize("name", sorted(SCORES))
def test_gradients_are_those_of_attention(name: str):
    torch.manual_seed(0)
    query, values = made(2, 3, WIDTH).requires_grad_(), made(2, 5, WIDTH).requires_grad_()
    select = SoftSelect(SCORES[name])
    learned = [query, values, *select.parameters()]
    ours = torch.autograd.grad(select(query, select.prepare_memory(values)).square().sum(), learned)
    theirs = torch.autograd.grad(attend(query, values, values, score=SCORES[name]).square().sum(), learned)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_a_memory_goes_on_with_the_rows_that_are_chosen():
    select, index = SoftSelect(SCORES["additive"]), torch.tensor([2, 0, 2])
    query, values, mask = made(3, 2, WIDTH), made(3, 5, WIDTH), valid_mask(torch.tensor([5, 1, 3]), 5)
    for memory in (select.prepare_memory(values, mask), select.prepare_memory(values)):
        torch.testing.assert_close(select(query[index], memory.reorder(index)), select(query, memory)[index])


@pytest.mark.parametrize("name", sorted(SCORES))
def test_looks_of_a_loop_are_recorded_together(name: str):
    select, query, values, mask = (
        SoftSelect(SCORES[name]),
        made(2, 4, WIDTH),
        made(2, 5, WIDTH),
        valid_mask(torch.tensor([5, 2]), 5),
    )
    memory = select.prepare_memory(values, mask)
    expected = attention_weights(query, values, score=SCORES[name], mask=mask.unsqueeze(1)).unsqueeze(1)
    with record(select) as tape:
        select(query, memory)
    torch.testing.assert_close(tape.attention["attention"], expected)
    with record(select) as tape:
        for one in query.split(1, dim=1):
            select.select(one, memory)
        assert tape.attention == {}
        select.notify(query, memory)
    torch.testing.assert_close(tape.attention["attention"], expected)
