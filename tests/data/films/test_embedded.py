import numpy as np
import pytest
import torch

from neuropil.data.films.embedded import (
    DIGIT,
    HIDDEN,
    NUM_FRAMES,
    SIDE,
    SPEED,
    divide_digits,
    draw,
    film,
    hidings,
    make_films,
    paths,
)
from neuropil.errors import InputError
from real_data import digits


def test_between_walls_a_digit_goes_straight_and_at_a_wall_it_turns_back():
    corners = paths(300, seed=0).double()
    room = SIDE - DIGIT
    assert corners.min() >= 0
    assert corners.max() <= room
    steps = corners.diff(dim=1)
    # The way along an axis is as long as the speed, unless a wall was met on the way.
    speed = steps.abs().amax(1, keepdim=True)
    bent = (steps.abs() - speed).abs() > 1e-4
    near = (corners[:, 1:] < speed) | (corners[:, 1:] > room - speed)
    assert not (bent & ~near).any()
    total = speed.norm(dim=-1)
    assert total.min() >= SPEED[0] - 1e-3
    assert total.max() <= SPEED[1] + 1e-3
    turned = (steps[:, 1:].sign() != steps[:, :-1].sign()) & (steps[:, 1:].abs() > 1e-3) & (steps[:, :-1].abs() > 1e-3)
    assert turned.any(), "none of 300 films meets a wall"


def test_a_digit_is_hidden_twice_for_some_frames_in_a_row():
    hidden = hidings(200, seed=0)
    assert not hidden[:, :5].any()
    for row in hidden.tolist():
        runs = [len(run) for run in "".join("x" if each else " " for each in row).split()]
        assert 1 <= len(runs) <= 2
        assert all(run <= HIDDEN[1] for run in runs)
        assert runs[0] >= HIDDEN[0]


def test_a_seen_digit_lies_where_the_position_says():
    """Laid at whole pixels it is scikit-learn's picture; laid between two it is their mean."""
    image = torch.from_numpy(digits()[0][3])
    black = torch.zeros(1, 8, 8, dtype=torch.uint8)
    corners = torch.tensor([[4.0, 9.0], [4.5, 9.0], [4.0, 9.0]])
    seen = torch.tensor([True, True, False])
    frames = draw(image.expand(3, 8, 8), corners, seen, black, seed=1).float()
    only_noise = draw(black.expand(3, 8, 8), corners, seen, black, seed=1).float()
    added = frames - only_noise
    inside = image > 130  # where noise neither falls below black nor rises above white
    inside &= only_noise[0, 4:12, 9:17] > 0
    inside &= frames[0, 4:12, 9:17] < 255
    np.testing.assert_allclose(added[0, 4:12, 9:17][inside], image[inside], atol=1)
    assert not added[0, :4].any()
    assert not added[2].any()
    mass = [float((added[index] * torch.arange(SIDE)[:, None]).sum() / added[index].sum()) for index in range(2)]
    assert mass[1] - mass[0] == pytest.approx(0.5, abs=0.1)


def test_the_middle_of_the_ink_is_near_the_position():
    films = film(torch.arange(200), 30, seed=3, source="")
    seen = ~films.hidden
    frames, positions = films.frames[seen, 0].double(), films.positions[seen]
    # The noise lies everywhere alike: its part of the middle is taken off.
    ink = (frames - frames.mean((1, 2), keepdim=True) - 60).clamp(min=0)
    x = (ink.sum(1) * torch.arange(SIDE)).sum(-1) / ink.sum((1, 2))
    correlation = np.corrcoef(x, positions[:, 0])[0, 1]
    assert correlation > 0.6


def test_no_two_parts_share_a_digit():
    parts = divide_digits(0)
    everything = torch.cat(list(parts.values()))
    assert sorted(everything.tolist()) == list(range(1797))


def test_the_same_seed_gives_the_same_films():
    first, again, other = (make_films(6, 2, 4, seed) for seed in (1, 1, 2))
    assert torch.equal(first.test.frames, again.test.frames)
    assert torch.equal(first.train.positions, again.train.positions)
    assert not torch.equal(first.test.frames, other.test.frames)
    assert first.train.lengths.tolist() == [NUM_FRAMES] * 6
    assert first.train.source == "12 films of 24 frames of 28×28 with a moving digit (scikit-learn)"


def test_films_to_learn_from_and_to_score_are_needed():
    with pytest.raises(InputError) as error:
        make_films(0, 0, 5)
    assert str(error.value) == "films are needed to learn from and to score, but got 0 and 5."
