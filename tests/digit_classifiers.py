"""Small classifiers of scikit-learn's digits that tests attack: trained once, in a second."""

from functools import cache
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.randomness import seeded

TRAINED_ON = 1300


@cache
def digits(high: float = 1.0) -> tuple[Tensor, Tensor]:
    """Pictures from 0 to `high`, and their classes."""
    loaded: Any = load_digits()
    pictures = torch.from_numpy(loaded.images).float()[:, None] / 16 * high
    return pictures, torch.from_numpy(loaded.target).long()


def held_out(count: int, high: float = 1.0) -> tuple[Tensor, Tensor]:
    x, y = digits(high)
    return x[TRAINED_ON : TRAINED_ON + count], y[TRAINED_ON : TRAINED_ON + count]


class Scale(nn.Module):
    """The normalisation, inside."""

    def __init__(self, high: float):
        super().__init__()
        self.high = high

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x / self.high - 1


def train(network: nn.Module, high: float, epochs: int) -> nn.Module:
    x, y = (each[:TRAINED_ON] for each in digits(high))
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    for epoch in range(epochs):
        for numbers in torch.randperm(TRAINED_ON, generator=seeded("digits", epoch)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(network(x[numbers]), y[numbers]).backward()
            optimizer.step()
    optimizer.zero_grad()
    return network.eval()


@cache
def cnn(high: float = 1.0) -> nn.Module:
    """With batch norm and dropout, which an attack must leave alone."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(
            Scale(high),
            nn.Conv2d(1, 12, 3, padding=1),
            nn.BatchNorm2d(12),
            nn.ReLU(),
            nn.Conv2d(12, 16, 3, padding=1, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.1),
            nn.Linear(256, 10),
        )
        return train(network, high, epochs=5)


@cache
def mlp(high: float = 1.0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = nn.Sequential(Scale(high), nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
        return train(network, high, epochs=6)
