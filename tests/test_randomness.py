import torch
from hypothesis import given
from hypothesis import strategies as st

from neuropil.randomness import mix, seeded

keys = st.lists(st.integers(0, 10**6), min_size=1, max_size=3).map(tuple)


@given(keys, keys)
def test_equal_keys_draw_equal_numbers_and_other_keys_others(a: tuple[int, ...], b: tuple[int, ...]):
    assert (mix(*a) == mix(*b)) == (a == b)
    assert torch.equal(torch.rand(4, generator=seeded(*a)), torch.rand(4, generator=seeded(*a)))
