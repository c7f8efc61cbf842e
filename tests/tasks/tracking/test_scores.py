import pytest
import torch

from neuropil.data.films.dataset import Films
from neuropil.tasks.tracking.scores import distances, extrapolated, frames_hidden, score_tracks


def films(positions: torch.Tensor, hidden: list[int], lengths: list[int]) -> Films:
    total = len(positions)
    frames = torch.zeros(total, 1, 20, 30, dtype=torch.uint8)
    return Films(
        frames,
        torch.tensor(lengths),
        positions,
        torch.tensor(hidden, dtype=torch.bool),
        [""] * len(lengths),
        (20, 30),
        "",
    )


def test_errors_are_distances_apart_for_what_is_hidden():
    truth = torch.zeros(4, 2)
    truth[3] = torch.nan
    data = films(truth, [0, 1, 0, 1], [4])
    told = torch.tensor([[3.0, 4.0], [6.0, 8.0], [0.0, 1.0], [99.0, 99.0]])
    assert score_tracks(told, data) == pytest.approx({"hidden_error": 10, "visible_error": 3, "error": 16 / 3})
    assert distances(told, data)[3].isnan()
    assert score_tracks(told, films(truth, [0, 0, 0, 0], [4])) == pytest.approx({"error": 16 / 3})


def test_hidden_frames_are_counted_from_the_last_that_was_seen():
    data = films(torch.zeros(8, 2), [1, 1, 0, 1, 1, 1, 0, 1], [4, 4])
    assert frames_hidden(data).tolist() == [1, 2, 0, 1, 1, 2, 0, 1]


def test_a_straight_line_goes_on_as_it_went():
    time = torch.arange(8.0)
    straight = torch.stack([2 + time, 10 - 0.5 * time], -1)
    told = straight.clone()
    told[4:7] = 0.0  # nothing is known of these
    data = films(straight, [0, 0, 0, 0, 1, 1, 1, 0], [8])
    torch.testing.assert_close(extrapolated(told, data), straight)


def test_a_straight_line_ends_at_the_edge_of_the_frame():
    time = torch.arange(6.0)
    told = torch.stack([20 + 4 * time, 3 - time], -1)
    carried = extrapolated(told, films(told, [0, 0, 1, 1, 1, 1], [6]))
    assert carried[-1].tolist() == [29, 0]
    assert carried[2].tolist() == [28, 1]


def test_what_was_never_seen_has_no_line():
    told = torch.rand(4, 2)
    torch.testing.assert_close(extrapolated(told, films(told, [1, 1, 0, 1], [4])), told)
