"""A small perceptron that learns two classes of points in the plane while it is watched."""

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.examples.planar import PLANAR_NAMES, PlanarName, planar_points
from neuropil.errors import InputError
from neuropil.inspection.units import unit_activations
from neuropil.lab.bounds import require_length
from neuropil.lab.sessions import Sessions
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.parts.activations import ACTIVATIONS, ActivationName
from neuropil.parts.objectives import Classification
from neuropil.randomness import initialised, seeded
from neuropil.training.stepwise import StepwiseTraining

EXAMPLES, TEST_EXAMPLES = 300, 150
REACH, PLACES, UNIT_STRIDE = 1.4, 41, 2
"""The window on both axes, its places, and which of them the small maps of the units have."""
MOST_LAYERS, LONGEST_ID = 4, 64
MOST = 255
PlaygroundOptimizer = Literal["sgd", "momentum", "rmsprop", "adam", "adamw"]


class PlaygroundRequest(Config):
    session: str = option("", "which network of the page this is")
    data: PlanarName = option("circles", "data set")
    noise: float = option(0.1, "standard deviation of the noise on the points", low=0, high=0.5)
    hidden_sizes: tuple[int, ...] = option((6, 4), "units of each hidden layer", low=1, high=8)
    activation: ActivationName = option("tanh", "activation of the hidden units")
    seed: int = option(0, "seed of the data and of the first weights", low=0, high=9999)
    optimizer: PlaygroundOptimizer = option("adam", "optimiser")
    batch_size: int = option(32, "batch size", low=1, high=EXAMPLES)
    learning_rate: float = option(0.01, "learning rate", above=0, high=10)
    weight_decay: float = option(0.0, "weight decay", low=0, high=1)
    l1: float = option(0.0, "L1 penalty on the weights", low=0, high=1)
    updates: int = option(0, "updates to make", low=0, high=50)
    reset: bool = option(False, "begin again")

    def validate(self) -> None:
        if len(self.hidden_sizes) > MOST_LAYERS:
            raise InputError(f"hidden_sizes has at most {MOST_LAYERS} layers", got=str(len(self.hidden_sizes)))
        require_length("session", self.session, LONGEST_ID)

    @property
    def network(self) -> tuple[Any, ...]:
        """What cannot change while it learns."""
        return self.data, self.noise, self.hidden_sizes, self.activation, self.seed, self.optimizer


@dataclass
class Playground:
    network: tuple[Any, ...]
    model: MLP
    objective: Classification
    training: StepwiseTraining
    train: dict[str, Tensor]
    test: dict[str, Tensor]
    order: list[Tensor] = field(default_factory=list)
    epoch: int = 0

    def batch(self, size: int) -> dict[str, Tensor]:
        """The next of a pass in a new order each time."""
        if not self.order:
            order = torch.randperm(EXAMPLES, generator=seeded("playground", self.epoch))
            self.order, self.epoch = list(order.split(size)), self.epoch + 1
        chosen = self.order.pop(0)
        return {name: values[chosen] for name, values in self.train.items()}


SESSIONS: Sessions[Playground] = Sessions()


def begin(request: PlaygroundRequest) -> Playground:
    points, labels = planar_points(request.data, EXAMPLES + TEST_EXAMPLES, noise=request.noise, seed=request.seed)
    train = {"input": points[:EXAMPLES], "target": labels[:EXAMPLES]}
    test = {"input": points[EXAMPLES:], "target": labels[EXAMPLES:]}
    config = MLPConfig(
        hidden_sizes=request.hidden_sizes, activation=request.activation, dropout=0.0, shape=(2,), outputs=2
    )
    model = initialised(lambda: MLP(config), request.seed).eval()
    objective = Classification(model)
    training = StepwiseTraining(objective, optimizer=request.optimizer, seed=request.seed)
    return Playground(request.network, model, objective, training, train, test)


def open_view() -> dict[str, Any]:
    request = PlaygroundRequest()
    return {
        "data_sets": PLANAR_NAMES,
        "activations": list(ACTIVATIONS),
        "optimizers": get_args(PlaygroundOptimizer),
        "reach": REACH,
        **request.to_dict(),
        "shown": show(begin(request), points=True),
    }


def step(request: PlaygroundRequest) -> dict[str, Any]:
    """Make some updates and show the network; where its shape or its data changed, it begins again."""
    known = SESSIONS.get(request.session, lambda: begin(request))
    if request.reset or known.network != request.network:
        known = SESSIONS.put(request.session, begin(request))
    fresh = known.training.updates == 0
    known.objective.l1 = request.l1
    for _ in range(request.updates):
        batch = known.batch(request.batch_size)
        known.training.update(batch, learning_rate=request.learning_rate, weight_decay=request.weight_decay)
    return show(known, points=fresh)


@torch.no_grad()
def show(playground: Playground, *, points: bool) -> dict[str, Any]:
    """Losses of both parts, the probability of the second class over the window, and each hidden unit's activation
    there, from −255 to 255 of its largest."""
    along = torch.linspace(-REACH, REACH, PLACES)
    grid = torch.cartesian_prod(along, along).flip(1)  # rows from the bottom up
    layers, logits = unit_activations(playground.model, grid)
    surface = logits.softmax(-1)[:, 1].reshape(PLACES, PLACES)
    readers = [*playground.model.hidden, playground.model.output]
    return {
        "updates": playground.training.updates,
        "epoch": playground.epoch,
        "train": _measured(playground, playground.train),
        "test": _measured(playground, playground.test),
        "surface": [[round(p, 3) for p in row] for row in surface.tolist()],
        "units": [[_small_map(unit) for unit in layer.T] for layer in layers],
        "weights": [
            [[round(w, 3) for w in row] for row in reader.get_parameter("weight").tolist()] for reader in readers
        ],
        "points": [_plain(part) for part in (playground.train, playground.test)] if points else None,
    }


def _measured(playground: Playground, part: dict[str, Tensor]) -> dict[str, float]:
    return {name: values.mean().item() for name, values in playground.objective.metrics(part).items()}


def _small_map(unit: Tensor) -> list[list[int]]:
    values = unit.reshape(PLACES, PLACES)[::UNIT_STRIDE, ::UNIT_STRIDE]
    return (values * (MOST / values.abs().max().clamp(min=1e-9))).round().int().tolist()


def _plain(part: dict[str, Tensor]) -> dict[str, Any]:
    x, y = part["input"].T.tolist()
    return {"x": [round(v, 3) for v in x], "y": [round(v, 3) for v in y], "label": part["target"].tolist()}


ACTIONS = {"open": open_view, "step": step}
