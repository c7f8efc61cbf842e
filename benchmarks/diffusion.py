"""The U-Net of denoising diffusion beside diffusers' with the same weights: a step of sampling (DDIM) and a training
step (AdamW) for 64 pictures of 28×28, and for 64 digits of 8×8. Floor 1.2 times as fast, goal 1.6. Nearly all of the
time of both goes into the same convolutions: how fast the processor computes them is printed beside."""

import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.timing import alternate, ratio
from benchmarks.transformer_step import matmul_peak
from neuropil.models.diffusion import SIZES, Denoising, Diffusion
from neuropil.sampling.diffusion import Estimate, ddim_step

BATCH, LEARNING_RATE = 64, 1e-4
ROUNDS = {"tiny": 60, "small": 20}
TIMES = (500, 450)
"""Of the step of sampling."""


def main() -> None:
    from diffusers.models.unets.unet_2d import UNet2DModel
    from diffusers.schedulers.scheduling_ddim import DDIMScheduler
    from diffusers.utils import logging

    logging.set_verbosity_error()
    print(f"{torch.get_num_threads()} threads; a matrix product runs at {matmul_peak() / 1e9:.0f} GFlop/s")
    for name, rounds in ROUNDS.items():
        torch.manual_seed(0)
        ours = Diffusion(SIZES[name])
        for parameter in ours.parameters():  # no zeros, as after some learning
            nn.init.normal_(parameter, std=0.05) if not parameter.any() else None
        with tempfile.TemporaryDirectory() as folder:
            ours.save_pretrained(folder)
            theirs: Any = UNet2DModel.from_pretrained(f"{folder}/unet")
            scheduler: Any = DDIMScheduler.from_pretrained(f"{folder}/scheduler")
        scheduler.set_timesteps(20)
        work = {
            "sampling": (our_sampling(ours), their_sampling(theirs, scheduler, ours)),
            "training": (our_training(ours), their_training(theirs, scheduler, ours)),
        }
        shape = "×".join(map(str, ours.config.shape[1:]))
        for what, (mine, other) in work.items():
            ours.train(what == "training")
            theirs.train(what == "training")
            seconds = alternate({"neuropil": mine, "diffusers": other}, rounds)
            best = ", ".join(f"{who} {1e3 * min(each):.1f} ms" for who, each in seconds.items())
            print(f"{what}, {shape}, diffusers / neuropil: {ratio(seconds['diffusers'], seconds['neuropil'])}; {best}")


def pictures(model: Diffusion) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    shape = (BATCH, *model.config.shape)
    return torch.randint(256, shape, generator=generator, dtype=torch.uint8), torch.arange(BATCH) % model.config.classes


def our_sampling(model: Diffusion) -> Callable[[], Tensor]:
    x, (_, classes) = torch.randn(BATCH, *model.config.shape), pictures(model)

    def step() -> Tensor:
        with torch.no_grad():
            t = torch.full((BATCH,), TIMES[0])
            x0 = model.schedule.x0(model.config.prediction, model(x, t, classes), x, t).clamp(-1, 1)
            return ddim_step(model.schedule, Estimate(TIMES[0], x, x0), TIMES[1], noise=lambda: x)

    return step


def their_sampling(unet: Any, scheduler: Any, model: Diffusion) -> Callable[[], Tensor]:
    x, (_, classes) = torch.randn(BATCH, *model.config.shape), pictures(model)

    def step() -> Tensor:
        with torch.no_grad():
            return scheduler.step(unet(x, TIMES[0] - 1, classes).sample, TIMES[0] - 1, x).prev_sample

    return step


def our_training(model: Diffusion) -> Callable[[], None]:
    inputs, classes = pictures(model)
    objective, batch = Denoising(model), {"input": inputs, "target": classes}
    return update(model, lambda: objective.loss(batch))


def their_training(unet: Any, scheduler: Any, model: Diffusion) -> Callable[[], None]:
    """As their tutorial does it, with the target that ours has."""
    inputs, classes = pictures(model)

    def loss() -> Tensor:
        clean = inputs / 127.5 - 1
        noise, t = torch.randn_like(clean), torch.randint(0, scheduler.config.num_train_timesteps, (BATCH,))
        noisy = scheduler.add_noise(clean, noise, t)
        target = scheduler.get_velocity(clean, noise, t) if model.config.prediction == "v" else noise
        return F.mse_loss(unet(noisy, t, classes).sample, target)

    return update(unet, loss)


def update(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


if __name__ == "__main__":
    main()
