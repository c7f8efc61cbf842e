"""Square attack: what it changes, and that it sees logits only."""

import math

import pytest
import torch
from torch import Tensor

from digit_classifiers import cnn, held_out, mlp
from neuropil.adversarial.attacks import attack
from neuropil.adversarial.square import SquareConfig, Window, bump, pyramid, share_at, square_attack, tiles
from neuropil.adversarial.threat_model import Norm, ThreatModel

EPS: dict[Norm, float] = {"linf": 0.1, "l2": 0.5}
LARGE_EPS: dict[Norm, float] = {"linf": 0.2, "l2": 1.2}


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize(("norm", "eps"), [("linf", 0.2), ("l2", 1.2)])
def test_it_fools_more_than_noise_and_needs_no_gradient(norm: Norm, eps: float):
    model, (x, y) = cnn(), held_out(40)
    asked = 0

    def logits(x: Tensor) -> Tensor:
        nonlocal asked
        asked += 1
        with torch.no_grad():
            return model(x)

    found = attack(logits, x, y, ThreatModel(norm, eps), name="square", queries=200, generator=generator())
    assert asked <= 200 + 2
    noise = ThreatModel(norm, eps).ball(x).uniform(generator())
    with torch.no_grad():
        assert found.robust_accuracy < (model(noise).argmax(1) == y).double().mean().item() - 0.2


def test_every_feature_is_at_an_end_of_its_interval():
    model, (x, y) = cnn(), held_out(10)
    threat = ThreatModel("linf", 0.01)
    found, ball = square_attack(model, x, y, threat, SquareConfig(queries=30), generator=generator()), threat.ball(x)
    assert ((found == ball.lower) | (found == ball.upper)).all()


def test_what_becomes_of_an_example_does_not_depend_on_the_others():
    model, (x, y) = cnn(), held_out(30)
    for norm, eps in EPS.items():
        threat, config = ThreatModel(norm, eps), SquareConfig(queries=40)
        together = square_attack(model, x, y, threat, config, generator=generator())
        alone = square_attack(model, x[7:8], y[7:8], threat, config, generator=generator())
        assert torch.allclose(together[7], alone[0], atol=1e-6)


def test_tables_are_attacked_too():
    model, (x, y) = mlp(), held_out(40)
    for norm, eps in LARGE_EPS.items():
        threat = ThreatModel(norm, eps)
        found = attack(lambda x: model(x[:, None]), x.flatten(1), y, threat, name="square", queries=150)
        assert found.success_rate > 0.2


def test_windows_shrink_as_the_paper_says():
    config = SquareConfig(queries=10_000, share=0.8)
    shares = [share_at(query, config) for query in (0, 10, 11, 51, 201, 501, 1001, 2001, 4001, 6001, 8001)]
    assert shares == [0.8, 0.8, *(0.8 / 2**k for k in range(1, 10))]
    assert share_at(501, SquareConfig(queries=1000)) == 0.8 / 2**7


def test_a_bump_has_length_one_and_is_a_pyramid_up_and_one_down():
    eta = bump(Window(slice(2, 7), slice(0, 5)), torch.zeros(1), generator())
    assert eta.shape == (5, 5)
    assert eta.norm().item() == pytest.approx(1)
    assert (eta > 0).sum() + (eta < 0).sum() == 25
    assert min((eta > 0).sum(), (eta < 0).sum()) == 10
    # Σ_{k≥d} 1/(k+1)² of the distance d, up to the farthest
    assert pyramid(3, 3).tolist() == [[0.25] * 3, [0.25, 1.25, 0.25], [0.25] * 3]


def test_tiles_do_not_overlap():
    for height, width in ((8, 8), (28, 28), (1, 64), (3, 2)):
        seen = torch.zeros(height, width)
        for window in tiles(height, width):
            seen[window] += 1
        assert seen.max() == 1
        assert seen.mean() > 0.6
    assert math.isclose(len(tiles(28, 28)), 25)
