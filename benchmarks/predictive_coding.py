"""One epoch of predictive coding on MNIST, beside a plain PyTorch implementation that leaves states and weights to
autograd: the same first weights, batches, settling steps and optimiser. Their gradients differ by rounding alone, which
a thousand steps of Adam make larger. Floor 2 times as fast, goal 4.

python -m benchmarks.predictive_coding                      random pictures of MNIST's size
python -m benchmarks.predictive_coding --mnist path/to/mnist [--examples 60000] [--rounds 3]
"""

import copy
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.timing import alternate, ratio
from neuropil.cli.arguments import parse
from neuropil.config import Config, option
from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.models.predictive_coding.network import PredictiveCoding, PredictiveCodingConfig
from neuropil.models.predictive_coding.settled_energy import SettledEnergy
from neuropil.training.config import TrainingConfig
from neuropil.training.loop import fit

LEARNING_RATE = 1e-3
RATE = 0.02
"""Of settling: so short that it is stable for the whole epoch, and both take the same steps."""


class Arguments(Config):
    mnist: Path | None = option(
        None, "a folder of MNIST's four IDX files; without it, random pictures of the same size"
    )
    examples: int = option(60_000, "pictures in the epoch", low=1)
    hidden_sizes: tuple[int, ...] = option((256, 256), "units of each layer between picture and class", low=1)
    steps: int = option(20, "steps of settling in each update", low=1)
    batch_size: int = option(64, "pictures in a batch", low=1)
    rounds: int = option(3, "epochs of each", low=1)


def main(words: Sequence[str] = ()) -> None:
    arguments = parse(Arguments(), list(words), command="predictive_coding", about="Predictive coding beside autograd.")
    config = PredictiveCodingConfig(
        hidden_sizes=arguments.hidden_sizes, direction="up", steps=arguments.steps, rate=RATE, shape=(1, 28, 28)
    )
    first = PredictiveCoding(config)
    examples = mnist(arguments)
    first.standardize.fit(examples.inputs)
    batches = ExampleBatches(examples, arguments.batch_size, seed=0, shuffle=True)
    ends: dict[str, list[Tensor]] = {}

    def ours() -> None:
        model = copy.deepcopy(first)
        settings = TrainingConfig(
            epochs=1,
            optimizer="adam",
            batch_size=arguments.batch_size,
            learning_rate=LEARNING_RATE,
            weight_decay=0,
            schedule="constant",
            warmup=0,
            keep="last",
        )
        with tempfile.TemporaryDirectory() as folder:
            fit(SettledEnergy(model), batches, None, settings, seed=0, folder=Path(folder), show_progress=False)
        ends["neuropil"] = [parameter.detach() for parameter in model.parameters()]

    def plain(whole_backward: bool) -> list[Tensor]:
        layers = [
            (c.weight.detach().clone().requires_grad_(), c.bias.detach().clone().requires_grad_())
            for c in first.connections
        ]
        parameters = [parameter for layer in layers for parameter in layer]
        optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, fused=True)
        for batch in batches.epoch(0):
            x, target = first.encode(batch["input"]), first.encode_target(batch["target"])
            hidden = settle_by_autograd(layers, x, target, config, whole_backward=whole_backward)
            optimizer.zero_grad()
            (energy(layers, [x, *hidden, target]) / len(x)).backward()
            optimizer.step()
        return [parameter.detach() for parameter in parameters]

    def states_only() -> None:
        ends["autograd"] = plain(whole_backward=False)

    def all_gradients() -> None:
        ends["autograd, energy.backward()"] = plain(whole_backward=True)

    seconds = alternate(
        {"neuropil": ours, "autograd": states_only, "autograd, energy.backward()": all_gradients}, arguments.rounds
    )
    for name in ("autograd", "autograd, energy.backward()"):
        print(f"{name} / neuropil: {ratio(seconds[name], seconds['neuropil'])}")
        furthest = max((a - b).abs().max().item() for a, b in zip(ends["neuropil"], ends[name], strict=True))
        largest = max(end.abs().max().item() for end in ends["neuropil"])
        print(f"  weights after the epoch differ by at most {furthest:.1e}, the largest is {largest:.2g}")
    print(
        f"neuropil: {len(examples) / min(seconds['neuropil']):,.0f} pictures a second, {arguments.steps} steps, layers "
        f"{config.sizes}"
    )


def settle_by_autograd(
    layers: Sequence[tuple[Tensor, Tensor]],
    x: Tensor,
    target: Tensor,
    config: PredictiveCodingConfig,
    *,
    whole_backward: bool,
) -> list[Tensor]:
    """As one would write it first: the energy, its gradient by the states, a step. With `whole_backward` the gradients
    of the weights are computed too, as by `energy.backward()` in every step."""
    states = [x]
    with torch.no_grad():
        for number, (weight, bias) in enumerate(layers[:-1]):
            states.append(predict(number, states[-1], weight, bias))
    hidden = [state.requires_grad_() for state in states[1:]]
    for _ in range(config.steps):
        value = energy(layers, [x, *hidden, target])
        if whole_backward:
            weights = [parameter for layer in layers for parameter in layer]
            slopes = torch.autograd.grad(value, [*hidden, *weights])[: len(hidden)]
        else:
            slopes = torch.autograd.grad(value, hidden)
        hidden = [
            (state.detach() - config.rate * slope).requires_grad_() for state, slope in zip(hidden, slopes, strict=True)
        ]
    return [state.detach() for state in hidden]


def energy(layers: Sequence[tuple[Tensor, Tensor]], states: Sequence[Tensor]) -> Tensor:
    errors = [
        states[number + 1] - predict(number, states[number], weight, bias)
        for number, (weight, bias) in enumerate(layers)
    ]
    return sum((0.5 * error.square().sum() for error in errors), start=torch.zeros(()))


def predict(number: int, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(F.relu(x) if number else x, weight.mT, bias)


def mnist(arguments: Arguments) -> Examples:
    if arguments.mnist is not None:
        train = prepare(DataConfig(data=arguments.mnist, validation=0), seed=0).train
        return train.take(torch.arange(min(arguments.examples, len(train))))
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(0, 256, (arguments.examples, 1, 28, 28), dtype=torch.uint8, generator=generator)
    targets = torch.randint(0, 10, (arguments.examples,), generator=generator)
    schema = Schema(kind="image", shape=(1, 28, 28), classes=tuple("0123456789"))
    return Examples(inputs, targets, schema, "random pictures")


if __name__ == "__main__":
    main(sys.argv[1:])
