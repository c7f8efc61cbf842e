"""Small real learners for the loop's tests: a perceptron with dropout on the digits that scikit-learn carries."""

from collections.abc import Iterator
from functools import cache

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

from neuropil.protocols import Batch, Phase


@cache
def digits() -> tuple[Tensor, Tensor]:
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))  # the file is ordered by writer
    return torch.from_numpy(images / 16).float()[order], torch.from_numpy(labels)[order]


class DigitBatches:
    def __init__(self, start: int, stop: int, size: int = 50, seed: int | None = None):
        self.images, self.labels = (part[start:stop] for part in digits())
        self.size, self.seed = size, seed

    def __len__(self) -> int:
        return -(-len(self.images) // self.size)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        order = torch.arange(len(self.images))
        if self.seed is not None:
            order = torch.randperm(len(order), generator=torch.Generator().manual_seed(1000 * self.seed + number))
        for index in order.split(self.size)[start:]:
            yield {"input": self.images[index], "target": self.labels[index]}


class DigitLearner:
    def __init__(self, seed: int = 0, dropout: float = 0.2):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 10))

    def phases(self) -> list[Phase]:
        return [Phase("classify", dict(self.model.named_parameters()), self.loss)]

    def loss(self, batch: Batch) -> Tensor:
        return F.cross_entropy(self.model(batch["input"]), batch["target"])

    def metrics(self, batch: Batch) -> dict[str, Tensor]:
        logits = self.model(batch["input"])
        return {
            "loss": F.cross_entropy(logits, batch["target"], reduction="none"),
            "accuracy": (logits.argmax(-1) == batch["target"]).float(),
        }


def weights_of(learner: DigitLearner) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}


def same_weights(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
