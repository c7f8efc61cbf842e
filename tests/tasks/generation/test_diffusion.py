import dataclasses
from typing import Any

import pytest
import torch

from neuropil.data.examples.dataset import Schema
from neuropil.errors import InputError
from neuropil.models.diffusion import Diffusion, DiffusionConfig
from neuropil.randomness import seeded
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


def test_the_way_back_begins_at_the_noise_of_its_time_and_takes_the_steps_after_it():
    made = sampler()
    pictures = torch.randint(0, 256, (2, *made.schema.shape), dtype=torch.uint8)
    every = [each.t for each in made.way(2, seeded(0), None, steps=10)]
    found = list(made.way_back(pictures, 300, seeded(1), None, steps=10))
    assert [each.t for each in found] == [300, *(t for t in every if t < 300)]
    noise = torch.randn(2, *made.schema.shape, generator=seeded(1))
    expected = made.diffusion.schedule.add_noise(made.diffusion.scaled(pictures), noise, torch.tensor([300, 300]))
    assert torch.equal(found[0].x, expected)


def test_almost_no_noise_leaves_a_picture_almost_as_it_was():
    made = sampler()
    pictures = torch.randint(0, 256, (3, *made.schema.shape), dtype=torch.uint8)
    *_, last = made.way_back(pictures, 1, seeded(0), None)
    assert (made.diffusion.pictures(last.x) - pictures).abs().mean() < 10


def test_noise_of_no_time_is_refused():
    made = sampler()
    with pytest.raises(InputError) as refused:
        made.way_back(torch.zeros(1, *made.schema.shape), 0, seeded(0), None)
    assert str(refused.value) == "noise is added up to a time from 1 to 1000, but got 0."
