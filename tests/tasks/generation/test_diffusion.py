import dataclasses
from typing import Any

import pytest
import torch

from neuropil.data.examples.dataset import Schema
from neuropil.errors import InputError
from neuropil.models.diffusion import Diffusion, DiffusionConfig
from neuropil.tasks.generation.diffusion import DiffusionSampler

TINY = DiffusionConfig(channels=(8,), depth=1, attention_levels=(), groups=4, shape=(1, 8, 8), classes=2)
SCHEMA = Schema(kind="image", shape=(1, 8, 8), classes=("a", "b"))


def sampler(**changes: Any) -> DiffusionSampler:
    torch.manual_seed(0)
    return DiffusionSampler(Diffusion(dataclasses.replace(TINY, **changes)).eval(), SCHEMA)


def test_a_model_of_few_timesteps_is_sampled_in_all_of_them():
    way = list(sampler(timesteps=6).way(1, torch.Generator().manual_seed(0), None))
    assert way[0].t == 6
    assert len(way) == 7


@pytest.mark.parametrize(
    ("guidance", "rule"), [(float("nan"), "at least 0"), (float("inf"), "at most 1e+06"), (-3.0, "at least 0")]
)
def test_guidance_is_a_number_from_zero_on(guidance: float, rule: str):
    with pytest.raises(InputError) as error:
        sampler().sample(1, label="a", guidance=guidance)
    assert str(error.value) == f"guidance must be {rule}, but got {guidance!r}."


@pytest.mark.parametrize("count", [0, -1, 10**9])
def test_a_count_is_a_whole_number(count: Any):
    with pytest.raises(InputError) as error:
        sampler().sample(count)
    assert str(error.value) == f"count must be a whole number from 1 to 1,000,000, but got {count!r}."


@pytest.mark.parametrize(("classes", "fix"), [(2, "name one (--class)"), (0, "leave it out")])
def test_guidance_without_a_class_is_refused(classes: int, fix: str):
    with pytest.raises(InputError) as error:
        sampler(classes=classes).sample(1, guidance=2.0)
    assert str(error.value) == f"guidance leads to a class, but got none: {fix}."
