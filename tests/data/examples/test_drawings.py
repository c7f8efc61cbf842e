import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from neuropil.data.examples.drawings import InkFrame
from neuropil.data.examples.embedded import load_digits

DIGITS = load_digits()
FRAME = InkFrame.fit(DIGITS.inputs[:400])


def drawn(digit: torch.Tensor, side: int, top: int, left: int) -> torch.Tensor:
    """A digit as somebody might draw it: on a pad of 28×28, larger, and anywhere."""
    pad = torch.zeros(28, 28)
    pad[top : top + side, left : left + side] = F.interpolate(
        digit[None].float() / 255, size=side, mode="nearest-exact"
    )[0, 0]
    return pad


def test_the_embedded_digits_fill_the_height_with_their_mass_in_the_middle():
    assert (FRAME.side, FRAME.by, FRAME.dark) == (8, ("box", "mass"), False)
    assert FRAME.middle == pytest.approx((4, 4), abs=0.15)


@pytest.fixture(scope="module")
def classifier() -> LogisticRegression:
    """Of digits that no test looks at."""
    others = DIGITS.inputs[600:].flatten(1).numpy() / 255
    return LogisticRegression(max_iter=200, tol=1e-2).fit(others, DIGITS.targets[600:].numpy())


@pytest.mark.parametrize(("side", "top", "left"), [(24, 2, 2), (16, 0, 12), (20, 8, 1)])
def test_digits_survive_being_drawn_larger_and_elsewhere(
    classifier: LogisticRegression, side: int, top: int, left: int
):
    digits, classes = DIGITS.inputs[400:600], DIGITS.targets[400:600].numpy()
    placed = torch.cat([FRAME.place(drawn(digit, side, top, left)) for digit in digits])
    whole, survived = (classifier.score(each.flatten(1).numpy() / 255, classes) for each in (digits, placed))
    assert survived > whole - 0.02


def test_pictures_that_are_centred_by_their_mass_are_recognised_as_such():
    """As MNIST is: an L in one corner of its box has its mass elsewhere than in the middle of the box."""
    shapes = torch.zeros(4, 1, 28, 28, dtype=torch.uint8)
    for number, (tall, wide) in enumerate([(16, 6), (16, 10), (8, 16), (16, 16)]):
        ink = torch.zeros(tall, wide)
        ink[:, 0] = ink[-1] = 1
        rows, columns = (torch.arange(size) + 0.5 for size in (tall, wide))
        row, column = ((ink.sum(1) * rows).sum() / ink.sum()).item(), ((ink.sum(0) * columns).sum() / ink.sum()).item()
        top, left = round(14 - row), round(14 - column)
        shapes[number, 0, top : top + tall, left : left + wide] = (255 * ink).byte()
    frame = InkFrame.fit(shapes)
    assert frame.by == ("mass", "mass")
    assert frame.side == 16
    assert frame.middle == pytest.approx((14, 14), abs=0.5)


def test_dark_ink_on_a_light_ground_stays_so():
    frame = InkFrame.fit(255 - DIGITS.inputs[:400])
    assert frame.dark
    placed, light = (each.place(drawn(DIGITS.inputs[5], 20, 3, 3)).int() for each in (frame, FRAME))
    assert (placed + light - 255).abs().max() <= 1  # half a shade is rounded one way


def test_nothing_drawn_is_an_empty_picture():
    assert torch.equal(FRAME.place(torch.zeros(28, 28)), torch.zeros(1, 1, 8, 8, dtype=torch.uint8))
