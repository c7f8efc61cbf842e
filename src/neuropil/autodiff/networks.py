"""Four classifiers of small grey images, built from the modules, and the loop that trains any of them."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Integer

from neuropil.autodiff import ops
from neuropil.autodiff.engine import Var
from neuropil.autodiff.modules import Adam, AttentionHead, Conv, LinearLayer, Module, RNNCell

Images = Float[np.ndarray, "batch height width"]
Labels = Integer[np.ndarray, " batch"]
Logits = Float[Var, "batch classes"]


class ImageMLP(Module):
    """All pixels at once, through one hidden layer."""

    def __init__(self, height: int, width: int, classes: int, rng: np.random.Generator, hidden: int = 64):
        self.hidden = LinearLayer(height * width, hidden, rng)
        self.output = LinearLayer(hidden, classes, rng)

    def forward(self, images: Images) -> Logits:
        x = Var(images.reshape(len(images), -1), name="images", constant=True)
        return self.output(ops.relu(self.hidden(x)))


class ImageCNN(Module):
    """Two stages of 3 × 3 kernels, each halving the picture; then a linear reading."""

    def __init__(self, height: int, width: int, classes: int, rng: np.random.Generator, channels: int = 12):
        self.first = Conv(1, channels, 3, rng, padding=1)
        self.second = Conv(channels, 2 * channels, 3, rng, padding=1)
        self.output = LinearLayer(2 * channels * (height // 4) * (width // 4), classes, rng)

    def forward(self, images: Images) -> Logits:
        x = Var(images[:, None], name="images", constant=True)
        x = ops.max_pool(ops.relu(self.first(x)))
        x = ops.max_pool(ops.relu(self.second(x)))
        return self.output(x.reshape((len(images), -1)))


class RowRNN(Module):
    """The picture as a sequence of its rows; the last state is read."""

    def __init__(self, height: int, width: int, classes: int, rng: np.random.Generator, units: int = 64):
        self.cell = RNNCell(width, units, rng)
        self.output = LinearLayer(units, classes, rng)
        self.units = units

    def forward(self, images: Images) -> Logits:
        rows = Var(images.swapaxes(0, 1), name="rows", constant=True)
        state = Var(np.zeros((len(images), self.units)), name="start", constant=True)
        for row in rows:
            state = self.cell(row, state)
        return self.output(state)


class RowAttention(Module):
    """The picture's rows look at one another through one attention head; the strongest of what they find is read."""

    def __init__(self, height: int, width: int, classes: int, rng: np.random.Generator, units: int = 32):
        self.embed = LinearLayer(width, units, rng)
        self.position = Var(rng.normal(0, 0.2, (height, units)))
        self.head = AttentionHead(units, units, rng)
        self.hidden = LinearLayer(units, 2 * units, rng)
        self.output = LinearLayer(2 * units, classes, rng)

    def forward(self, images: Images) -> Logits:
        x = self.embed(Var(images, name="images", constant=True)) + self.position  # batch row units
        x = x + self.head(x)
        return self.output(ops.relu(self.hidden(x)).max(1))


def train(
    network: Module,
    images: Images,
    labels: Labels,
    *,
    epochs: int,
    batch_size: int = 32,
    rate: float = 3e-3,
    seed: int = 0,
) -> Iterator[float]:
    """Minimise the cross-entropy with Adam, and yield its mean over each pass through the data."""
    rng = np.random.default_rng(seed)
    optimiser = Adam(network.parameters(), rate)
    for _ in range(epochs):
        order, losses = rng.permutation(len(images)), []
        for start in range(0, len(images), batch_size):
            batch = order[start : start + batch_size]
            loss = ops.cross_entropy(network(images[batch]), labels[batch])
            loss.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(float(loss))
        yield float(np.mean(losses))


def accuracy(network: Module, images: Images, labels: Labels) -> float:
    return float((network(images).val.argmax(-1) == labels).mean())
