"""Schedules, steps, trajectories and the U-Net of denoising diffusion beside those of diffusers."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from diffusers.pipelines.ddpm.pipeline_ddpm import DDPMPipeline
from diffusers.schedulers.scheduling_ddim import DDIMScheduler
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler
from diffusers.schedulers.scheduling_dpmsolver_multistep import DPMSolverMultistepScheduler
from diffusers.utils import logging
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.models.diffusion import Diffusion, DiffusionConfig, NoiseSchedule, PredictionName, VarianceName
from neuropil.models.unet.network import SIZES, UNet
from neuropil.parts.parameters import count_parameters
from neuropil.pretrained.unet2d import places
from neuropil.sampling.diffusion import (
    DiffusionSamplingConfig,
    Estimate,
    Noise,
    SamplerName,
    ancestral_step,
    ddim_step,
    dpm_solver_step,
    trajectory,
)
from neuropil.training.weights import save_model
from parity.hugging_face import assert_near, assert_same_gradients, shaken

logging.set_verbosity_error()
logging.disable_progress_bar()

THEIR_SCHEDULES = {"linear": "linear", "cosine": "squaredcos_cap_v2"}
THEIR_PREDICTIONS: dict[PredictionName, str] = {"epsilon": "epsilon", "x0": "sample", "v": "v_prediction"}
OURS = {"linear": NoiseSchedule.linear(1_000), "cosine": NoiseSchedule.cosine(1_000)}
every_schedule = pytest.mark.parametrize("name", OURS)
every_prediction = pytest.mark.parametrize("kind", THEIR_PREDICTIONS)
SHAPE = (2, 3, 4, 4)
numpy_warns = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
"""Of how they make an array of a tensor."""


def theirs(kind: Any, name: str, **options: Any) -> Any:
    """A scheduler of theirs. They keep ᾱ in single precision, and compute with whatever it is in: here with that of
    theirs where it decides (1e-6), and with double precision where the formula does (1e-12)."""
    return kind(beta_schedule=THEIR_SCHEDULES[name], **options)


def in_double(scheduler: Any, name: str) -> Any:
    scheduler.alphas_cumprod = OURS[name].alpha_bar[1:].clone()
    scheduler.one = torch.tensor(1.0, dtype=torch.float64)
    scheduler.final_alpha_cumprod = scheduler.one
    return scheduler


def normal(seed: int = 0, shape: tuple[int, ...] = SHAPE) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def estimate(name: str, kind: PredictionName, t: int, *, clip: bool) -> tuple[Estimate, Tensor]:
    """x_t with the x_0 predicted there, and what was predicted."""
    x, predicted, time = normal(1), normal(2), torch.full((len(normal()),), t)
    x0 = OURS[name].x0(kind, predicted, x, time)
    return Estimate(t, x, x0.clamp(-1, 1) if clip else x0), predicted


# --- schedules --------------------------------------------------------------------------------------------------------


@every_schedule
@pytest.mark.parametrize("timesteps", [1_000, 400])
def test_schedules_are_those_of_diffusers(name: str, timesteps: int):
    scheduler = theirs(DDPMScheduler, name, num_train_timesteps=timesteps)
    ours = NoiseSchedule.cosine(timesteps) if name == "cosine" else NoiseSchedule.linear(timesteps)
    torch.testing.assert_close(ours.beta[1:], scheduler.betas.double(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(ours.alpha_bar[1:], scheduler.alphas_cumprod.double(), rtol=0, atol=1e-6)


@every_schedule
def test_noisy_pictures_and_velocities_are_those_of_diffusers(name: str):
    scheduler, t = in_double(theirs(DDPMScheduler, name), name), torch.tensor([1, 640])
    x0, epsilon = normal(1), normal(2)
    assert_near(OURS[name].add_noise(x0, epsilon, t), scheduler.add_noise(x0, epsilon, t - 1), 1e-12)
    assert_near(OURS[name].target("v", x0, epsilon, t), scheduler.get_velocity(x0, epsilon, t - 1), 1e-12)


# --- single steps -----------------------------------------------------------------------------------------------------


@every_schedule
@every_prediction
@settings(max_examples=15)
@given(t=st.integers(1, 1_000), clip=st.booleans(), variance=st.sampled_from(["small", "large"]))
def test_an_ancestral_step_is_that_of_diffusers(
    name: str, kind: PredictionName, t: int, clip: bool, variance: VarianceName
):
    options = {"prediction_type": THEIR_PREDICTIONS[kind], "clip_sample": clip, "variance_type": f"fixed_{variance}"}
    scheduler = in_double(theirs(DDPMScheduler, name, **options), name)
    now, predicted = estimate(name, kind, t, clip=clip)
    told = scheduler.step(predicted, t - 1, now.x, generator=torch.Generator().manual_seed(9))
    noise = torch.randn(SHAPE, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    assert_relative(now.x0, told.pred_original_sample)
    assert_relative(ancestral_step(OURS[name], now, t - 1, lambda: noise, variance), told.prev_sample)
    # without the noise, the mean of the posterior
    mean = OURS[name].posterior(now.x0, now.x, torch.full((2,), t)).mean
    if t == 1:
        assert_relative(mean, told.prev_sample)


def assert_relative(mine: Tensor, other: Tensor, within: float = 1e-9) -> None:
    """A predicted x_0 may be thousands where there is almost no signal."""
    assert_near(mine / other.abs().max(), other / other.abs().max(), within)


@every_schedule
@every_prediction
@pytest.mark.parametrize("eta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("t", [50, 700, 1_000])
def test_a_step_of_ddim_is_that_of_diffusers(name: str, kind: PredictionName, eta: float, t: int):
    for clip in (True, False):
        scheduler = theirs(DDIMScheduler, name, prediction_type=THEIR_PREDICTIONS[kind], clip_sample=clip)
        in_double(scheduler, name).set_timesteps(20)
        now, predicted = estimate(name, kind, t, clip=clip)
        noise = normal(5)
        options = {"eta": eta, "use_clipped_model_output": True, "variance_noise": noise}
        told = scheduler.step(predicted, t - 1, now.x, **options).prev_sample
        assert_relative(ddim_step(OURS[name], now, t - 50, lambda: noise, eta), told)  # noqa: B023 (it is called here)


@numpy_warns
@every_schedule
@every_prediction
def test_two_steps_of_the_solver_are_those_of_diffusers(name: str, kind: PredictionName):
    times = [800, 640, 300]
    scheduler = theirs(DPMSolverMultistepScheduler, name, prediction_type=THEIR_PREDICTIONS[kind])
    scheduler.set_timesteps(timesteps=[t - 1 for t in times])
    x, before = normal(1).float(), None
    for number, (t, s) in enumerate(itertools.pairwise(times)):
        predicted, time = normal(10 + number).float(), torch.full((2,), t)
        told = scheduler.step(predicted, t - 1, x).prev_sample
        now = Estimate(t, x, OURS[name].x0(kind, predicted, x, time))
        x = dpm_solver_step(OURS[name], now, before, s)
        # They compute in single precision.
        assert_relative(x, told, 1e-6)
        before = now


# --- whole trajectories -----------------------------------------------------------------------------------------------


def network(x: Tensor, t: Tensor) -> Tensor:
    """Something that depends on the picture and the time."""
    return torch.tanh(x) * (0.5 + t.view(-1, 1, 1, 1) / 2_000)


def replayed(seed: int) -> tuple[Noise, torch.Generator]:
    """The same noise for ours and theirs."""
    mine, other = (torch.Generator().manual_seed(seed) for _ in range(2))
    return lambda: torch.randn(SHAPE, generator=mine, dtype=torch.float64), other


@every_schedule
@pytest.mark.parametrize("steps", [10, 50])
@pytest.mark.parametrize(("sampler", "eta"), [("ddpm", 0.0), ("ddim", 0.0), ("ddim", 0.7)])
def test_a_trajectory_with_the_same_noise_is_that_of_diffusers(name: str, steps: int, sampler: SamplerName, eta: float):
    kind: Any = DDPMScheduler if sampler == "ddpm" else DDIMScheduler
    scheduler = in_double(theirs(kind, name, timestep_spacing="trailing"), name)
    scheduler.set_timesteps(steps)
    noise, generator = replayed(4)
    config = DiffusionSamplingConfig(sampler=sampler, steps=steps, eta=eta, spacing="even")
    way = list(trajectory(network, noise, OURS[name], config))
    x = torch.randn(SHAPE, generator=generator, dtype=torch.float64)
    options: dict[str, Any] = {"eta": eta, "use_clipped_model_output": True} if sampler == "ddim" else {}
    for mine, t in zip(way, scheduler.timesteps, strict=False):
        assert mine.t == t + 1
        assert_near(mine.x, x, 1e-9)
        x = scheduler.step(network(x, (t + 1).repeat(2)), t, x, generator=generator, **options).prev_sample
    assert_near(way[-1].x, x, 1e-9)


@numpy_warns
@every_schedule
@pytest.mark.parametrize("steps", [5, 20, 33])
def test_a_trajectory_of_the_solver_is_that_of_diffusers(name: str, steps: int):
    scheduler = theirs(DPMSolverMultistepScheduler, name, prediction_type="v_prediction")
    scheduler.set_timesteps(steps)
    times = [t + 1 for t in scheduler.timesteps.tolist()]
    config = DiffusionSamplingConfig(sampler="dpm_solver", steps=steps, clip=False)
    start = normal(3).float()
    way = list(trajectory(network, lambda: start, OURS[name], config, prediction="v", times=times))
    x = start
    for mine, t in zip(way, scheduler.timesteps, strict=False):
        assert_near(mine.x, x, 1e-5)
        x = scheduler.step(network(x, (t + 1).repeat(2)), t, x).prev_sample
    assert_near(way[-1].x, x, 1e-5)


# --- the U-Net --------------------------------------------------------------------------------------------------------


CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "attention": {
        "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
        "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
    },
    "everywhere": {
        "down_block_types": ["AttnDownBlock2D"] * 2,
        "up_block_types": ["AttnUpBlock2D"] * 2,
        "attention_head_dim": None,
        "layers_per_block": 1,
    },
    "nowhere": {
        "down_block_types": ["DownBlock2D"] * 2,
        "up_block_types": ["UpBlock2D"] * 2,
        "add_attention": False,
        "layers_per_block": 3,
    },
    "classes": {
        "down_block_types": ["DownBlock2D"] * 2,
        "up_block_types": ["UpBlock2D"] * 2,
        "num_class_embeds": 5,
        "time_embedding_dim": 20,
    },
    "Ho": {
        "block_out_channels": [8, 16, 24],
        "down_block_types": ["DownBlock2D", "AttnDownBlock2D", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", "AttnUpBlock2D", "UpBlock2D"],
        "downsample_padding": 0,
        "flip_sin_to_cos": False,
        "freq_shift": 1,
        "norm_eps": 1e-6,
        "attention_head_dim": None,
    },
    "scale and shift": {
        "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
        "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
        "resnet_time_scale_shift": "scale_shift",
        "attn_norm_num_groups": 4,
        "in_channels": 1,
        "out_channels": 2,
        "sample_size": [8, 16],
    },
}


def their_unet(**options: Any) -> UNet2DModel:
    sizes: dict[str, Any] = {
        "sample_size": 8,
        "block_out_channels": [8, 16],
        "norm_num_groups": 4,
        "attention_head_dim": 4,
        "layers_per_block": 2,
    }
    return shaken(UNet2DModel(**(sizes | options)))


def inputs(model: UNet2DModel) -> tuple[Tensor, Tensor, Tensor | None]:
    size = model.config["sample_size"]
    sides = (size, size) if isinstance(size, int) else size
    torch.manual_seed(5)
    x, t = torch.randn(3, model.config["in_channels"], *sides), torch.tensor([0, 77, 999])
    return x, t, torch.tensor([4, 0, 2]) if model.config["num_class_embeds"] else None


def assert_same_answers(ours: UNet, theirs: UNet2DModel) -> None:
    x, t, classes = inputs(theirs)
    with torch.no_grad():
        mine, other = ours(x, t, classes), theirs(x, t, classes).sample
        assert_near(mine, other, 2e-5)
        # In double precision, in which only their waves of the time are not, to the last digits.
        exact, other = ours.double()(x.double(), t, classes), theirs.double()(x.double(), t, classes).sample
        assert_near(exact, other, 1e-6)


@pytest.mark.parametrize("which", CONFIGURATIONS)
def test_a_unet_of_diffusers_gives_the_same_numbers_here(tmp_path: Path, which: str):
    other = their_unet(**CONFIGURATIONS[which])
    other.save_pretrained(tmp_path)
    ours = UNet.from_pretrained(tmp_path)
    assert count_parameters(ours) == count_parameters(other)
    assert sum(row.count for row in ours.parameter_table()) == count_parameters(other)
    assert_same_answers(ours, other)


@pytest.mark.parametrize("which", CONFIGURATIONS)
def test_a_unet_of_ours_gives_the_same_numbers_there(tmp_path: Path, which: str):
    their_unet(**CONFIGURATIONS[which]).save_pretrained(tmp_path / "theirs")
    ours = shaken(UNet.from_pretrained(tmp_path / "theirs"), seed=1)
    ours.save_pretrained(tmp_path / "ours")
    opened: Any = UNet2DModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    again, told = opened
    assert not any(told.values()), told
    assert UNet.from_pretrained(tmp_path / "ours").config == ours.config
    assert_same_answers(ours, again.eval())


@pytest.mark.parametrize("which", ["attention", "classes", "scale and shift"])
def test_gradients_are_those_of_diffusers(tmp_path: Path, which: str):
    other = their_unet(**CONFIGURATIONS[which])
    other.save_pretrained(tmp_path)
    ours = UNet.from_pretrained(tmp_path)
    x, t, classes = inputs(other)
    for answer in (ours(x, t, classes), other(x, t, classes).sample):
        (answer * torch.arange(answer.numel()).view_as(answer).sin()).mean().backward()
    found = {name: (place, ours.get_parameter(place.name)) for name, place in places(ours).items()}
    assert len(found) == len(list(other.parameters()))
    assert assert_same_gradients(ours, other, places(ours), 1e-5) == len(found)


def test_the_published_network_for_cifar10_has_its_size():
    """35.7 million, says Ho 2020."""
    blocks: dict[str, Any] = {"down_block_types": ["DownBlock2D", "AttnDownBlock2D", "DownBlock2D", "DownBlock2D"]}
    blocks["up_block_types"] = ["UpBlock2D", "UpBlock2D", "AttnUpBlock2D", "UpBlock2D"]
    with torch.device("meta"):
        ours = UNet(SIZES["cifar10"])
        other = UNet2DModel(block_out_channels=(128, 256, 256, 256), **blocks)
    assert count_parameters(ours) == count_parameters(other) == 35_746_307


# --- pipelines --------------------------------------------------------------------------------------------------------


def small(**options: Any) -> Diffusion:
    sizes: dict[str, Any] = {"channels": (8, 16), "depth": 1, "attention_levels": (1,), "groups": 4, "shape": (1, 8, 8)}
    return shaken(Diffusion(DiffusionConfig(**(sizes | options))))


def samples(model: Diffusion, start: Tensor, steps: int) -> Tensor:
    """As bytes, by DDIM."""
    config = DiffusionSamplingConfig(sampler="ddim", steps=steps)
    times = range(1_000 - 1_000 // steps + 1, 0, -1_000 // steps)  # as they choose them
    *_, last = trajectory(
        model, lambda: start, model.schedule, config, prediction=model.config.prediction, times=list(times)
    )
    return model.pictures(last.x)


@pytest.mark.parametrize("options", [{}, {"beta_schedule": "linear", "prediction": "v", "variance": "large"}])
def test_a_pipeline_of_ours_samples_the_same_pictures_there(tmp_path: Path, options: dict[str, Any]):
    ours = small(**options)
    ours.save_pretrained(tmp_path)
    pipeline: Any = DDPMPipeline.from_pretrained(tmp_path)
    scheduler: Any = DDIMScheduler.from_config(pipeline.scheduler.config)
    assert pipeline.scheduler.config["variance_type"] == f"fixed_{ours.config.variance}"
    scheduler.set_timesteps(10)
    x = start = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for t in scheduler.timesteps:
            predicted = pipeline.unet(x, t).sample
            x = scheduler.step(predicted, t, x, use_clipped_model_output=True).prev_sample
    assert_near(samples(ours, start, 10), 255 * (x / 2 + 0.5).clamp(0, 1), 0.05)
    again = Diffusion.from_pretrained(tmp_path)
    assert again.config == ours.config
    assert torch.equal(samples(again, start, 10), samples(ours, start, 10))


@pytest.mark.parametrize("flat", [False, True])
def test_a_pipeline_of_theirs_samples_the_same_pictures_here(tmp_path: Path, flat: bool):
    """In folders as they are written today, or all in one as older ones are."""
    unet = their_unet(**CONFIGURATIONS["Ho"])
    scheduler = DDPMScheduler(variance_type="fixed_large")
    pipeline: Any = DDPMPipeline(unet, scheduler)
    pipeline.set_progress_bar_config(disable=True)
    pipeline.save_pretrained(tmp_path)
    if flat:
        for file in [*(tmp_path / "unet").iterdir(), *(tmp_path / "scheduler").iterdir()]:
            file.rename(tmp_path / file.name)
        (tmp_path / "unet").rmdir()
        (tmp_path / "scheduler").rmdir()
    ours = Diffusion.from_pretrained(tmp_path)
    assert (ours.config.variance, ours.config.beta_schedule, ours.config.prediction) == ("large", "linear", "epsilon")
    theirs = pipeline(2, torch.Generator().manual_seed(1), num_inference_steps=10, output_type="pt").images
    generator = torch.Generator().manual_seed(1)
    way = trajectory(
        ours,
        lambda: torch.randn(2, 3, 8, 8, generator=generator),
        ours.schedule,
        DiffusionSamplingConfig(sampler="ddpm", steps=10),
        variance="large",
        times=range(901, 0, -100),
    )
    *_, last = way
    assert_near(ours.pictures(last.x), 255 * theirs, 0.05)


def test_the_folder_of_a_run_opens_there_as_it_is(tmp_path: Path):
    ours = small()
    kept = {name: tensor.clone() for name, tensor in ours.state_dict().items()}
    save_model(tmp_path / "model.safetensors", ours)
    for name, content in ours.published_files().items():
        (tmp_path / name).write_text(json.dumps(content))
    pipeline: Any = DDPMPipeline.from_pretrained(tmp_path)
    assert_same_answers(ours.unet, pipeline.unet)
    again = Diffusion.from_pretrained(tmp_path)
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in kept.items())


def test_the_attention_of_older_files_has_other_names(tmp_path: Path):
    from safetensors.torch import load_file, save_file

    other = their_unet(**CONFIGURATIONS["attention"])
    other.save_pretrained(tmp_path)
    file = tmp_path / "diffusion_pytorch_model.safetensors"
    old = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    renamed = load_file(file)
    for now, then in old.items():
        renamed = {name.replace(f".{now}.", f".{then}."): tensor for name, tensor in renamed.items()}
    assert sum("proj_attn" in name for name in renamed) == 12
    save_file(renamed, file)
    assert_same_answers(UNet.from_pretrained(tmp_path), other)
