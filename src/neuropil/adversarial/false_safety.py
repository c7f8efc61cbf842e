"""Signs of false safety: an attack that fails may say more about the attack than about the model.

    zero gradients          ∂L/∂x is exactly 0, or not finite: the attack does not know where to go; L is the margin
    masked gradients        a small step along ∂L/∂x does not raise L: it does not point uphill
    iterated attack         PGD fools fewer than one step of FGSM
    larger eps              a larger ball, which contains the smaller, fools fewer; or the whole range does not fool all
                            of them, where every input may change
    random noise            random corners of the ball fool as many as PGD
    gradient-free attack    Square, which sees logits only, fools more than PGD
    transfer                what was made for another model fools more than what was made for this one

Carlini 2019 and Athalye 2018 explain why none of them can be with attacks that work. Each sign here is a comparison of
two measured shares of the examples that are classified rightly before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Num
from torch import Tensor

from neuropil.adversarial.attacks import attack
from neuropil.adversarial.classifier import BATCH, Classifier, held, logits_of
from neuropil.adversarial.losses import margin
from neuropil.adversarial.minimal import largest
from neuropil.adversarial.threat_model import Inputs, Labels, ThreatModel
from neuropil.errors import InputError

TOLERANCE = 0.01
"""Shares that differ by less are as good as equal."""
SMALL_STEP = 0.02
"""In units of eps."""
NOISE_DRAWS = 10
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Sign:
    name: str
    found: bool
    words: str
    """One sentence, made of the numbers."""
    numbers: Mapping[str, float]


def signs(
    classifier: Classifier,
    x: Num[Tensor, "batch *shape"],
    y: Labels,
    threat: ThreatModel,
    *,
    surrogate: Classifier | None = None,
    steps: int = 20,
    queries: int = 300,
    batch_size: int = BATCH,
    unit: float = 1.0,
    generator: torch.Generator | None = None,
    progress: Callable[[float], object] | None = None,
) -> list[Sign]:
    """All of them, found or not; without a surrogate, transfer is not measured. A few hundred examples are enough. In
    sentences eps is written in units of `unit`."""
    threat.require_units(x)
    with held(classifier):
        x = x.detach().to(torch.float64 if x.dtype == torch.float64 else torch.float32)
        right = logits_of(classifier, x, batch_size).argmax(1) == y
    if threat.target is not None:
        right &= y != threat.target
    if not right.any():
        raise InputError("signs of false safety need examples that are classified rightly", got=f"none of {len(x)}")
    measured = Measurement(classifier, x[right], y[right], threat, steps, queries, batch_size, unit, generator)
    kinds: dict[str, Callable[[], Sign]] = {
        "zero gradients": measured.zero_gradients,
        "masked gradients": measured.masked_gradients,
        "iterated attack": measured.iterated_attack,
        "larger eps": measured.larger_eps,
        "random noise": measured.random_noise,
        "gradient-free attack": measured.gradient_free_attack,
        "transfer": lambda: measured.transfer(surrogate),
    }
    found: list[Sign] = []
    for number, (name, measure) in enumerate(kinds.items(), 1):
        try:
            found.append(measure())
        except InputError as error:  # gradients that are not finite, or none at all
            found.append(Sign(name, True, f"{NOT_MEASURED}: {error}", {}))
        if progress is not None:
            progress(number / len(kinds))
    return found


class Measurement:
    """Examples that are classified rightly, and what attacks make of them."""

    def __init__(
        self,
        classifier: Classifier,
        x: Inputs,
        y: Labels,
        threat: ThreatModel,
        steps: int,
        queries: int,
        batch_size: int,
        unit: float,
        generator: torch.Generator | None,
    ):
        self.classifier = classifier
        self.x = x
        self.y = y
        self.threat = threat
        self.steps = steps
        self.queries = queries
        self.batch_size = batch_size
        self.unit = unit
        self.generator = generator
        self.known: dict[tuple[str, float], float] = {}

    def success(self, name: str, eps: float | None = None) -> float:
        """Share that an attack fools; PGD is asked for more than once."""
        eps = self.threat.eps if eps is None else eps
        options: dict[str, Any] = {"pgd": {"steps": self.steps}, "square": {"queries": self.queries}}.get(name, {})
        if (name, eps) not in self.known:
            found = attack(
                self.classifier,
                self.x,
                self.y,
                replace(self.threat, eps=eps),
                name=name,
                batch_size=self.batch_size,
                generator=self.generator,
                **options,
            )
            self.known[name, eps] = found.success.double().mean().item()
        return self.known[name, eps]

    def share_fooled(self, x: Inputs) -> float:
        with held(self.classifier):
            return self.threat.fooled(logits_of(self.classifier, x, self.batch_size), self.y).double().mean().item()

    def gradients(self) -> Inputs:
        """Of the margin, which does not vanish where a model is sure; finite or not."""
        return torch.cat([gradient_of(self.classifier, x, y) for x, y in self.parts()])

    def parts(self) -> list[tuple[Inputs, Labels]]:
        return list(zip(self.x.split(self.batch_size), self.y.split(self.batch_size), strict=True))

    def zero_gradients(self) -> Sign:
        flat = self.gradients().flatten(1)
        share = {
            "zero": (flat == 0).all(1).double().mean().item(),
            "not finite": (~flat.isfinite()).any(1).double().mean().item(),
        }
        found = max(share.values()) > TOLERANCE
        words = (
            f"the gradient with respect to the input is exactly zero for {percent(share['zero'])} of the examples and "
            f"not finite for {percent(share['not finite'])}"
        )
        return Sign("zero gradients", found, conclude(words, found, "gradient attacks cannot see them"), share)

    def masked_gradients(self) -> Sign:
        """How often a step to where the loss should grow makes it grow."""
        with held(self.classifier):
            ball = self.threat.ball(self.x)
            gradient = torch.nan_to_num(self.gradients(), 0, 0, 0)
            step = ball.steepest_(gradient) * (SMALL_STEP * ball.eps)
            moved = ball.project_(self.x + step)
            before, after = (margin(logits_of(self.classifier, x, self.batch_size), self.y) for x in (self.x, moved))
        grew = (after > before).double().mean().item()
        found = grew < 0.9
        words = f"a step of {SMALL_STEP:g} eps along the gradient raises the loss of {percent(grew)} of the examples"
        return Sign(
            "masked gradients", found, conclude(words, found, "gradients do not point uphill"), {"raised": grew}
        )

    def iterated_attack(self) -> Sign:
        one, many = self.success("fgsm"), self.success("pgd")
        found = many < one - TOLERANCE
        words = f"PGD of {self.steps} steps fools {percent(many)} of the examples, one step of FGSM {percent(one)}"
        return Sign(
            "iterated attack", found, conclude(words, found, "iterating must not be weaker"), {"fgsm": one, "pgd": many}
        )

    def larger_eps(self) -> Sign:
        whole = largest(self.threat, self.x)
        sizes = sorted({eps for eps in (self.threat.eps, 2 * self.threat.eps, 4 * self.threat.eps) if eps < whole})
        shares = {f"{eps / self.unit:g}": self.success("pgd", eps) for eps in (*sizes, whole)}
        values = list(shares.values())
        falls = any(later < earlier - TOLERANCE for earlier, later in pairwise(values))
        frozen = self.threat.scale is not None and bool((self.threat.scale == 0).any())
        found = falls or (not frozen and values[-1] < 1 - 5 * TOLERANCE)
        why = "a larger ball contains the smaller" if falls else "in the whole range every example can be changed"
        at = ", ".join(f"{percent(share)} at eps {eps}" for eps, share in shares.items())
        words = f"PGD fools {at}, which is the whole input range"
        return Sign("larger eps", found, conclude(words, found, why), shares)

    def random_noise(self) -> Sign:
        """The best of several random corners of the cube, or points of the sphere."""
        fooled = torch.zeros_like(self.y, dtype=torch.bool)
        with held(self.classifier):
            ball = self.threat.ball(self.x)
            for _ in range(NOISE_DRAWS):
                noise = torch.randn(self.x.shape, generator=self.generator, dtype=self.x.dtype).to(self.x.device)
                # a corner of the cube, or a point of the sphere, as if the noise were a gradient
                noise = ball.steepest_(noise)
                x = ball.project_(self.x + ball.eps * noise)
                fooled |= self.threat.fooled(logits_of(self.classifier, x, self.batch_size), self.y)
        noise, pgd = fooled.double().mean().item(), self.success("pgd")
        found = noise > TOLERANCE and noise >= pgd
        words = (
            f"the best of {NOISE_DRAWS} random perturbations fools {percent(noise)} of the examples, PGD {percent(pgd)}"
        )
        return Sign(
            "random noise",
            found,
            conclude(words, found, "PGD finds nothing by its gradients"),
            {"noise": noise, "pgd": pgd},
        )

    def gradient_free_attack(self) -> Sign:
        square, pgd = self.success("square"), self.success("pgd")
        found = square > pgd + TOLERANCE
        words = f"Square, by {self.queries} queries and no gradients, fools {percent(square)}, PGD {percent(pgd)}"
        return Sign(
            "gradient-free attack",
            found,
            conclude(words, found, "gradients hide what is there"),
            {"square": square, "pgd": pgd},
        )

    def transfer(self, surrogate: Classifier | None) -> Sign:
        if surrogate is None:
            return Sign("transfer", False, f"{NOT_MEASURED}: no other model was given to attack from.", {})
        made = attack(
            surrogate,
            self.x,
            self.y,
            self.threat,
            batch_size=self.batch_size,
            generator=self.generator,
            steps=self.steps,
        )
        transferred, pgd = self.share_fooled(made.perturbed), self.success("pgd")
        found = transferred > pgd + TOLERANCE
        words = f"what was made for another model fools {percent(transferred)} here, PGD on this model {percent(pgd)}"
        return Sign(
            "transfer",
            found,
            conclude(words, found, "knowing the model must not hurt"),
            {"transfer": transferred, "pgd": pgd},
        )


def gradient_of(classifier: Classifier, x: Inputs, y: Labels) -> Inputs:
    with held(classifier):
        x = x.detach().clone().requires_grad_()
        logits = classifier(x)
        if not logits.requires_grad:
            return torch.zeros_like(x)
        return torch.autograd.grad(margin(logits, y).sum(), x)[0]


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def conclude(words: str, found: bool, why: str) -> str:
    return f"{words}: {why}." if found else f"{words}."
