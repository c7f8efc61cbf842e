"""A trained restricted Boltzmann machine and the schema of its data: from chains of Gibbs sampling to examples."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.data.examples.files import read_inputs
from neuropil.errors import InputError
from neuropil.models.rbm import LEAST_SHARE, MOST_ENUMERATED, RBM
from neuropil.sampling.annealed_importance import estimate_log_partition
from neuropil.sampling.gibbs import BoltzmannMachine, EnergyPaths, annealing, compare_updates, fantasy_particles
from neuropil.tasks.generated_examples import GeneratedExamples, as_data
from neuropil.tasks.generation.predictor import AT_ONCE, ExampleSampler
from neuropil.tasks.predictor import as_examples, device_of

STEPS, HOTTEST = 500, 2.0
"""Of the chains: they cool down to a temperature of 1."""
STARTS, ANNEALED = 50, (2.0, 0.05, 1_000)
"""Random states whose updates a report compares; first temperature, last temperature, sweeps."""
MOST_UNITS = 2_000
"""Of a machine whose single units are updated: each has a connection to each."""


@dataclass(frozen=True)
class GibbsSampler(ExampleSampler):
    options: ClassVar[tuple[str, ...]] = ("steps",)

    @property
    def rbm(self) -> RBM:
        return cast(RBM, self.model)

    @property
    def conditional(self) -> bool:
        return False

    def draw(
        self, count: int, generator: torch.Generator, labels: Int64[Tensor, " count"] | None, **options: Any
    ) -> Float[Tensor, "count *shape"]:
        steps = options.get("steps", STEPS)
        if steps < 1:
            raise InputError("steps must be at least 1", got=f"{steps}")
        particles = fantasy_particles(self.rbm, count, annealing(HOTTEST, steps=steps), generator=generator)
        return self.rbm.decode(particles.mean)

    def read(self, paths: Sequence[Path]) -> tuple[Any, list[str]]:
        return read_inputs(paths, self.schema)

    @torch.no_grad()
    def encode(self, inputs: Any) -> Float[Tensor, "example hidden"]:
        """Probabilities of the hidden units: what a classifier may learn from."""
        return torch.cat([self.rbm.hidden_mean(v).cpu() for v in self._visible(inputs)])

    @torch.no_grad()
    def pseudo_likelihood(self, inputs: Any) -> Float[Tensor, " example"]:
        """Σ_i ln q(v_i | all others) of each example, in nats."""
        return torch.cat([self.rbm.pseudo_likelihood(v).cpu() for v in self._visible(inputs)])

    @torch.no_grad()
    def reconstruct(self, inputs: Any) -> GeneratedExamples:
        """Up to the hidden units and down again."""
        examples = as_examples(inputs, self.schema)
        made = self.rbm.reconstruct(examples.to(device_of(self.model)))
        return GeneratedExamples.of(as_data(made, self.schema), self.schema, originals=examples)

    def _visible(self, inputs: Any) -> Iterator[Float[Tensor, "example visible"]]:
        """A few examples at a time."""
        examples = as_examples(inputs, self.schema)
        return (self.rbm.encode(part.to(device_of(self.model))) for part in examples.split(AT_ONCE))


@torch.no_grad()
def log_likelihood(
    model: RBM, x: Tensor, generator: torch.Generator, *, walks: int, steps: int
) -> tuple[float, float | None]:
    """The mean ln q(v) of examples, in nats, and the standard error of ln Z where it is estimated: by annealed
    importance sampling, beyond so many hidden units as can be summed over. Pixels are drawn as 0 or 1."""
    v = model.scale(x.to(device_of(model))).flatten(1)
    if not model.gaussian:
        v = (torch.rand(v.shape, generator=generator).to(v) < v).to(v)
    if model.config.hidden_size <= MOST_ENUMERATED:
        return float(model.log_likelihood(v, model.log_partition()).double().mean()), None
    # Walks begin at a machine without weights; the closer its units come to the data, the less has to be annealed.
    base = None if model.gaussian else v.mean(0).clamp(LEAST_SHARE, 1 - LEAST_SHARE).logit()
    estimate = estimate_log_partition(model, walks=walks, steps=steps, base_bias=base, generator=generator)
    found = model.log_likelihood(v, estimate.log_partition).double().mean()
    return float(found), estimate.standard_error


def energies_of_updates(model: RBM, generator: torch.Generator) -> EnergyPaths | None:
    """Of random states by deterministic and by annealed updates of single units; none where units are not binary or too
    many."""
    if model.gaussian or model.config.visible_size + model.config.hidden_size > MOST_UNITS:
        return None
    machine = BoltzmannMachine.of_rbm(model)
    starts = machine.random_states(STARTS, generator)
    return compare_updates(machine, starts, annealing(*ANNEALED), generator=generator)
