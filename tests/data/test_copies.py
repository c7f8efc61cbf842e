import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.copies import TEST, TRAIN, VALIDATION, part_texts


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 2)), min_size=2, max_size=60), st.integers(0, 99)
)
def test_copies_share_a_part_and_one_of_each_stratum_is_learned_from(rows: list[tuple[str, int]], seed: int):
    texts, strata = [text for text, _ in rows], torch.tensor([stratum for _, stratum in rows])
    part = part_texts(texts, strata, 0.1, 0.2, seed).tolist()
    assert len(set(zip(texts, part, strict=True))) == len(set(texts))
    assert set(part) <= {TRAIN, VALIDATION, TEST}
    assert TRAIN in part


def test_shares_are_exact_within_each_stratum():
    strata = torch.arange(3).repeat_interleave(torch.tensor([100, 200, 50]))
    part = part_texts(list(range(350)), strata, 0.1, 0.2, 0)
    for stratum, size in enumerate((100, 200, 50)):
        here = part[strata == stratum]
        assert (here == TEST).sum() == size // 5
        assert (here == VALIDATION).sum() == size * 4 // 50


def test_a_copy_counts_in_the_stratum_of_the_first():
    """Ten texts of one class, each disputed by a copy of the other class, are one stratum of ten."""
    texts = [*range(10), *range(10)]
    part = part_texts(texts, torch.tensor([0] * 10 + [1] * 10), 0.0, 0.5, 0)
    assert part[:10].tolist() == part[10:].tolist()
    assert (part[:10] == TEST).sum() == 5


def test_parts_follow_the_seed():
    strata = torch.zeros(200, dtype=torch.int64)
    first, again, other = (part_texts(list(range(200)), strata, 0.1, 0.2, seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
