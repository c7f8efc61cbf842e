"""The ensemble of strong attacks beside torchattacks' AutoAttack, on the same pictures: robust accuracies and
processor seconds.

    python -m benchmarks.auto_attack [--data mnist] [--pictures 300] [--settings defended-linf natural-l2 ...]

Goal: within half a point, and no slower. Without data the pictures are the embedded digits. Both attack the same CNN,
which is trained here; the defended ones learn against the perturbations that they are attacked with. torchattacks needs
an environment of its own that sees neuropil's too: it asks for torchvision, which it does not use here.

    python -m venv peers && pip install --no-deps torchattacks
"""

import argparse
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

import neuropil
from neuropil.adversarial.attacks import attack
from neuropil.adversarial.classifier import logits_of
from neuropil.adversarial.threat_model import Norm, ThreatModel
from neuropil.randomness import seeded

WHITE = 255.0
WIDTH = 16
DEFENCE: Mapping[str, Any] = {"defence": "adversarial", "attack_steps": 5, "step_size": 0.4}


class Setting(NamedTuple):
    norm: Norm
    eps: float
    options: Mapping[str, Any]


SETTINGS = {
    "natural-linf": Setting("linf", 0.1, {}),
    "defended-linf": Setting("linf", 0.2, {**DEFENCE, "norm": "linf", "eps": 0.2}),
    "natural-l2": Setting("l2", 0.5, {}),
    "defended-l2": Setting("l2", 1.0, {**DEFENCE, "norm": "l2", "eps": 1.0}),
}


class UnitPixels(nn.Module):
    """Our models take bytes; torchattacks gives pixels from 0 to 1."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x * WHITE)


def compare(name: str, data: Path | None, pictures: int, minutes: float) -> None:
    norm, eps, options = SETTINGS[name]
    own = {"data": data, "minutes": minutes} if data is not None else {}
    with TemporaryDirectory() as folder:
        run = neuropil.train("cnn", out=Path(folder) / "run", report=False, width=WIDTH, **own, **options)
        test, model = cast(Any, run.experiment()).splits.test, UnitPixels(run.model).eval()
    x, y = test.inputs[:pictures].float() / WHITE, test.targets[:pictures]
    peer = import_module("torchattacks").AutoAttack(model, norm={"linf": "Linf", "l2": "L2"}[norm], eps=eps, seed=0)
    work: Mapping[str, Callable[[], Tensor]] = {
        "neuropil": lambda: (
            attack(model, x, y, ThreatModel(norm, eps), name="strongest", generator=seeded(0)).perturbed
        ),
        "torchattacks": lambda: peer(x, y),
    }
    clean, seconds = logits_of(model, x).argmax(1) == y, dict[str, float]()
    print(f"{name}, eps = {eps:g}, {len(x):,} pictures: clean {100 * clean.double().mean():.1f} %")
    for who, run_attack in work.items():
        began = time.process_time()
        perturbed = run_attack()
        seconds[who] = time.process_time() - began
        left = clean & (logits_of(model, perturbed).argmax(1) == y)
        size = torch.linalg.vector_norm((perturbed - x).flatten(1), torch.inf if norm == "linf" else 2, dim=1).max()
        print(f"  {who}: {100 * left.double().mean():.1f} % in {seconds[who]:.1f} s, perturbed by at most {size:.6f}")
    print(f"  torchattacks / neuropil, in time: {seconds['torchattacks'] / seconds['neuropil']:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="pictures in place of the embedded digits")
    parser.add_argument("--pictures", type=int, default=1_000)
    parser.add_argument("--minutes", type=float, default=2.0, help="of training, where data is given")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    arguments = parser.parse_args()
    for name in arguments.settings:
        compare(name, arguments.data, arguments.pictures, arguments.minutes)


if __name__ == "__main__":
    main()
