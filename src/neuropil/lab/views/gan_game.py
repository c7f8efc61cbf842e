"""The game of a generator and a discriminator on a ring of eight Gaussians, while it is played."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.examples.mixtures import GaussianMixture, grid, ring
from neuropil.lab.bounds import require_length
from neuropil.lab.sessions import Sessions
from neuropil.models.gan import EVEN, GAN, AdversarialGame, GameConfig, GANConfig, diagnose, targeted_attack
from neuropil.randomness import initialised, seeded
from neuropil.training.stepwise import StepwiseTraining

UNITS = {"small": (32, 32), "usual": (64, 64, 64), "large": (128, 128, 128)}
BATCH_SIZE, SHOWN, ARROWS, MEASURED, PLACES = 256, 250, 60, 500, 33
MARGIN = 0.35
"""Of the window around the data, as a share of their reach."""
LONGEST_ID = 64


class GameRequest(Config):
    session: str = option("", "which game of the page this is")
    data: Literal["ring", "grid"] = option("ring", "modes on a circle, or on a lattice")
    units: Literal["small", "usual", "large"] = option("usual", "hidden units of both players")
    spectral_norm: bool = option(False, "spectral normalisation of the discriminator's weights")
    seed: int = option(0, "seed of the data and of the first weights", low=0, high=9999)
    learning_rate: float = option(2e-3, "learning rate of both players", above=0, high=0.1)
    ratio: int = option(1, "discriminator updates for each update of the generator", low=1, high=10)
    r1: float = option(0.003, "R₁ penalty γ on the discriminator's gradient at real examples", low=0, high=10)
    label_smoothing: float = option(0.0, "one-sided label smoothing ε", low=0, high=0.5)
    updates: int = option(0, "updates to make", low=0, high=20)
    reset: bool = option(False, "begin again")

    def validate(self) -> None:
        require_length("session", self.session, LONGEST_ID)

    @property
    def players(self) -> tuple[Any, ...]:
        """What cannot change while they play."""
        return self.data, self.units, self.spectral_norm, self.seed, self.ratio


@dataclass
class Played:
    players: tuple[Any, ...]
    mixture: GaussianMixture
    game: AdversarialGame
    training: StepwiseTraining
    real: Tensor
    """To show and to measure by."""


SESSIONS: Sessions[Played] = Sessions()


def begin(request: GameRequest) -> Played:
    mixture = ring() if request.data == "ring" else grid()
    config = GANConfig(
        shape=(2,), hidden_sizes=UNITS[request.units], latent_size=2, spectral_norm=request.spectral_norm
    )
    model = initialised(lambda: GAN(config), request.seed).eval()
    real = mixture.draw(MEASURED, seeded("game", request.seed))
    model.unit_range.fit(real)
    game = AdversarialGame(model, GameConfig(ratio=request.ratio))
    training = StepwiseTraining(game, optimizer="rmsprop", seed=request.seed)
    return Played(request.players, mixture, game, training, real)


def open_view() -> dict[str, Any]:
    request = GameRequest()
    return {"even": EVEN, "sizes": list(UNITS), **request.to_dict(), "shown": show(begin(request))}


def step(request: GameRequest) -> dict[str, Any]:
    """Play some updates and show both players; where the players or the data changed, the game begins again."""
    known = SESSIONS.get(request.session, lambda: begin(request))
    if request.reset or known.players != request.players:
        known = SESSIONS.put(request.session, begin(request))
    known.game.config = known.game.config.override(label_smoothing=request.label_smoothing)
    known.game.r1 = request.r1
    for _ in range(request.updates):
        batch = known.mixture.draw(BATCH_SIZE, seeded("batch", request.seed, known.training.updates))
        known.training.update({"input": batch}, learning_rate=request.learning_rate)
    return show(known)


def show(played: Played) -> dict[str, Any]:
    """Samples of noise that is always the same, how the discriminator would have each moved, its probability that a
    point of the window is real, and what is measured of the game."""
    model, game = played.game.model, played.game
    with torch.no_grad():
        metrics = {name: values.mean().item() for name, values in game.metrics({"input": played.real}).items()}
        reach = played.mixture.centres.abs().max().item() * (1 + MARGIN)
        along = torch.linspace(-reach, reach, PLACES)
        places = torch.cartesian_prod(along, along).flip(1)  # rows from the bottom up
        real = model.discriminator(model.unit_range(places)).sigmoid().reshape(PLACES, PLACES)
    attack = targeted_attack(model, model.noise(SHOWN, generator=seeded("shown")))
    samples = model.unit_range.inverse(attack.samples)
    # u = (x − low) / (high − low), and so ∂L/∂x = ∂L/∂u / (high − low)
    arrows = attack.attack[:ARROWS] / (model.unit_range.high - model.unit_range.low)
    coverage, found = played.mixture.coverage(samples), diagnose(metrics)
    return {
        "updates": played.training.updates,
        "reach": reach,
        "probability": _rounded(real),
        "samples": _rounded(samples),
        "arrows": _rounded(arrows),
        "real": _rounded(played.real[:SHOWN]),
        "modes": len(played.mixture.centres),
        "found": coverage.found,
        "good_share": coverage.good_share,
        **metrics,
        "diagnosis": None if found is None else {"name": found.name, "evidence": found.evidence},
    }


def _rounded(values: Tensor) -> list[Any]:
    return [[round(value, 4) for value in row] for row in values.tolist()]


ACTIONS = {"open": open_view, "step": step}
