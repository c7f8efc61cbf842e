import math

import pytest

from neuropil.training.schedules import SCHEDULES, rate_share


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_rate_rises_in_equal_steps_to_its_peak(name):
    assert [rate_share(name, step, 100, 10) for step in range(10)] == pytest.approx(
        [(step + 1) / 10 for step in range(10)]
    )


def test_constant_stays_cosine_ends_at_zero_and_inverse_root_follows_its_law():
    assert rate_share("constant", 99, 100, 10) == 1
    assert rate_share("cosine", 100, 100, 10) == pytest.approx(0, abs=1e-12)
    assert rate_share("cosine", 55, 100, 10) == pytest.approx(0.5)
    assert rate_share("inverse_sqrt", 399, 1000, 100) == pytest.approx(0.5)


@pytest.mark.parametrize("name", SCHEDULES)
def test_no_share_leaves_the_unit_interval(name):
    for total in (1, 2, 1000):
        for warmup in (0, 0.4, total):
            shares = [rate_share(name, step, total, warmup) for step in range(total + 1)]
            assert all(0 <= share <= 1 and math.isfinite(share) for share in shares)
