import pytest
import torch

from neuropil.data.examples.mixtures import ring
from neuropil.lab.view import ask, find_view
from neuropil.lab.views.gan_game import SESSIONS
from neuropil.models.gan import against

VIEW = find_view("gan_game")


def step(session: str, **settings):
    return ask(VIEW, "step", None, {"session": session, "units": "small", **settings})


def test_both_players_learn_and_what_is_shown_is_theirs():
    before = step("game")
    *_, answer = (step("game", updates=20) for _ in range(10))
    assert answer["updates"] == 200
    assert answer["energy_distance"] < 0.5 * before["energy_distance"]
    played = SESSIONS.kept["game"]
    model, samples = played.game.model, torch.tensor(answer["samples"])
    coverage = ring().coverage(samples)
    assert (answer["found"], answer["modes"]) == (coverage.found, 8)
    places = torch.tensor([[-answer["reach"], -answer["reach"]], [answer["reach"], -answer["reach"]]])
    with torch.no_grad():
        corners = model.discriminator(model.unit_range(places)).sigmoid().tolist()
    assert [answer["probability"][0][0], answer["probability"][0][-1]] == pytest.approx(corners, abs=1e-4)


def test_an_arrow_is_the_negative_gradient_of_the_generators_loss_at_its_sample():
    answer = step("arrows", updates=3)
    model = SESSIONS.kept["arrows"].game.model
    samples = torch.tensor(answer["samples"][:5]).requires_grad_()
    against(model.discriminator(model.unit_range(samples)), 1.0).sum().backward()
    assert samples.grad is not None
    torch.testing.assert_close(torch.tensor(answer["arrows"][:5]), -samples.grad, atol=2e-3, rtol=1e-2)


def test_the_penalty_changes_the_game_that_goes_on_and_other_players_begin_again():
    assert step("rules", updates=2, r1=5.0, label_smoothing=0.2)["updates"] == 2
    game = SESSIONS.kept["rules"].game
    assert (game.r1, game.config.label_smoothing) == (5.0, 0.2)
    assert step("rules", updates=1, r1=0.0)["updates"] == 3
    assert step("rules", updates=1, ratio=2)["updates"] == 1
    assert step("rules", data="grid")["modes"] == 25
