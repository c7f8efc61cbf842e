"""Hidden tokens: how many, which, and what becomes of them."""

from typing import get_args

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.corpus.masking import Alphabet, MaskedWindows, MaskingName, hide

ALPHABET = Alphabet(mask=3, first=5, size=50)


@given(rows=st.integers(1, 5), time=st.integers(1, 60), share=st.floats(0.01, 0.9), seed=st.integers(0, 2**20))
@settings(deadline=None)
def test_a_share_of_each_row_is_chosen_and_the_rest_stays(rows: int, time: int, share: float, seed: int):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 50, (rows, time), generator=generator)
    ordinary = tokens >= ALPHABET.first
    hidden, chosen = hide(tokens, ordinary, ALPHABET, generator, share)
    for count, available in zip(chosen.sum(1).tolist(), ordinary.sum(1).tolist(), strict=True):
        assert count == (max(1, round(share * available)) if available else 0) or abs(count - share * available) <= 0.5
    assert not (chosen & ~ordinary).any()
    assert torch.equal(hidden[~chosen], tokens[~chosen])
    changed = hidden[chosen]
    assert ((changed == ALPHABET.mask) | (changed >= ALPHABET.first)).all()


def test_of_the_chosen_eight_in_ten_are_masked_and_one_in_ten_is_another():
    tokens = torch.full((200, 500), 7)
    hidden, chosen = hide(tokens, torch.ones_like(tokens, dtype=torch.bool), ALPHABET, torch.Generator().manual_seed(0))
    assert chosen.double().mean() == 0.15
    of_chosen = hidden[chosen]
    masked, kept = ((of_chosen == number).double().mean() for number in (ALPHABET.mask, 7))
    assert abs(masked - 0.8) < 0.01
    assert abs(kept - (0.1 + 0.1 / 45)) < 0.01  # another token may be the same by chance
    others = of_chosen[(of_chosen != ALPHABET.mask) & (of_chosen != 7)]
    assert set(others.tolist()) == set(range(5, 50)) - {7}


def test_of_the_chosen_all_are_masked_where_that_is_the_rule():
    tokens = torch.randint(5, 50, (200, 500), generator=torch.Generator().manual_seed(2))
    ordinary = torch.ones_like(tokens, dtype=torch.bool)
    hidden, chosen = hide(tokens, ordinary, ALPHABET, torch.Generator().manual_seed(0), masking="all")
    assert chosen.sum() == (hidden == ALPHABET.mask).sum() == 0.15 * tokens.numel()
    assert (hidden[chosen] == ALPHABET.mask).all()
    assert torch.equal(hidden[~chosen], tokens[~chosen])


def test_both_rules_choose_the_same_places():
    """So that a run with one is compared with a run with the other on the same tokens."""
    windows = {
        masking: MaskedWindows(
            torch.arange(5, 45), 2, 10, alphabet=ALPHABET, around=(1, 2), share=0.3, masking=masking, seed=0
        )
        for masking in get_args(MaskingName)
    }
    for published, simple in zip(*(each.epoch(3) for each in windows.values()), strict=True):
        assert torch.equal(published["scored"], simple["scored"])
        assert torch.equal(published["target"], simple["target"])
        assert torch.equal(simple["scored"], simple["input"] == ALPHABET.mask)


def test_every_place_is_chosen_as_often():
    tokens = torch.full((5_000, 20), 7)
    chosen = hide(tokens, torch.ones_like(tokens, dtype=torch.bool), ALPHABET, torch.Generator().manual_seed(1)).chosen
    assert (chosen.double().mean(0) - 0.15).abs().max() < 0.02


def test_windows_stand_between_start_and_end_and_hide_others_in_each_pass():
    windows = MaskedWindows(torch.arange(5, 45), 2, 10, alphabet=ALPHABET, around=(1, 2), share=0.3, seed=0)
    first, again, second = (list(windows.epoch(number)) for number in (0, 0, 1))
    assert len(first) == len(windows)
    for batch, same in zip(first, again, strict=True):
        assert all(torch.equal(batch[name], same[name]) for name in batch)
        assert batch["target"].shape[1] == 10
        assert (batch["target"][:, 0] == 1).all()
        assert (batch["target"][:, -1] == 2).all()
        assert torch.equal(batch["input"][~batch["scored"]], batch["target"][~batch["scored"]])
    assert not torch.equal(first[0]["scored"], second[0]["scored"])
