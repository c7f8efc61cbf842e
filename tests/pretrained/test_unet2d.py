"""Folders of diffusers: what a U-Net here can be, and what is said of others."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from neuropil.errors import InputError, NeuropilError, RunError
from neuropil.models.diffusion import Diffusion, DiffusionConfig
from neuropil.models.unet.network import UNet, UNetConfig
from neuropil.training.weights import load_model, save_model

SIZES: dict[str, Any] = {"channels": (4, 8), "depth": 1, "attention_levels": (1,), "groups": 2, "shape": (1, 8, 8)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    Diffusion(DiffusionConfig(**SIZES, classes=3)).save_pretrained(tmp_path / "pipeline")
    return tmp_path / "pipeline"


def said(kind: Any, source: Any, error: type[NeuropilError] = InputError) -> str:
    with pytest.raises(error) as caught:
        kind.from_pretrained(source)
    return str(caught.value)


def reset(path: Path, **settings: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


# --- what is written --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [UNet, Diffusion])
def test_every_tensor_has_one_name_there_and_is_a_view_of_ours(kind: Any):
    model = kind(DiffusionConfig(**SIZES, classes=3))
    views = model.published_state()
    assert sum(view.numel() for view in views.values()) == sum(tensor.numel() for tensor in model.state_dict().values())
    for view in views.values():
        view.fill_(7.0)
    assert all((tensor == 7.0).all() for tensor in model.state_dict().values())


def test_a_pipeline_is_what_diffusers_writes(folder: Path):
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert files == [
        "model_index.json",
        "scheduler/scheduler_config.json",
        "unet/config.json",
        "unet/diffusion_pytorch_model.safetensors",
    ]
    assert json.loads((folder / "model_index.json").read_text()) == {
        "_class_name": "DDPMPipeline",
        "unet": ["diffusers", "UNet2DModel"],
        "scheduler": ["diffusers", "DDPMScheduler"],
    }


@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_the_null_class_comes_back(tmp_path: Path, dropout: float):
    model = Diffusion(DiffusionConfig(**SIZES, classes=3, class_dropout=dropout))
    model.save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "unet" / "config.json").read_text())
    assert settings["num_class_embeds"] == (4 if dropout else 3)
    again = Diffusion.from_pretrained(tmp_path)
    assert (again.config.classes, again.config.null_class) == (3, 3 if dropout else None)
    assert again.config == model.config


def test_the_range_of_pictures_comes_back_and_is_that_of_bytes_where_none_is_said(folder: Path):
    model = Diffusion.from_pretrained(folder)
    model.unit_range.fit(torch.tensor([[[[-2.0, 6.0] * 4] * 8]]))
    model.save_pretrained(folder)
    assert (Diffusion.from_pretrained(folder).pictures(torch.tensor([[[[0.0]]]]))).item() == 2.0
    file = folder / "unet" / "diffusion_pytorch_model.safetensors"
    save_file({name: tensor for name, tensor in load_file(file).items() if "unit_range" not in name}, file)
    assert (Diffusion.from_pretrained(folder).pictures(torch.tensor([[[[0.0]]]]))).item() == 127.5


def test_a_pipeline_holds_a_unet(folder: Path):
    x, t, classes = torch.randn(2, 1, 8, 8), torch.tensor([3, 800]), torch.tensor([0, 2])
    diffusion, unet = Diffusion.from_pretrained(folder), UNet.from_pretrained(folder)
    with torch.no_grad():
        assert torch.equal(unet(x, t, classes), diffusion.unet(x, t, classes))
    assert UNet.from_pretrained(folder / "unet").config == unet.config == UNetConfig(**SIZES, classes=3)


def test_weights_of_a_run_are_under_their_names(tmp_path: Path):
    model = Diffusion(DiffusionConfig(**SIZES))
    save_model(tmp_path / "model.safetensors", model)
    names = set(load_file(tmp_path / "model.safetensors"))
    assert {"conv_in.weight", "mid_block.attentions.0.to_q.weight", "unit_range.high"} <= names
    other = Diffusion(DiffusionConfig(**SIZES))
    load_model(tmp_path / "model.safetensors", other)
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in model.state_dict().items())


def test_options_can_be_set_differently(folder: Path):
    assert UNet.from_pretrained(folder, dropout=0.3).config.dropout == 0.3


def test_a_picture_without_a_size_gets_one_that_all_levels_halve(folder: Path):
    reset(folder / "unet" / "config.json", sample_size=None)
    assert Diffusion.from_pretrained(folder).config.shape == (1, 16, 16)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_nothing_is_fetched():
    assert said(UNet, "google/ddpm-cifar10-32") == (
        "UNet is made from a folder as diffusers saves it, but got 'google/ddpm-cifar10-32', which is none here."
    )


def test_a_folder_without_settings_is_no_unet(tmp_path: Path):
    assert said(UNet, tmp_path) == f"the folder of a U-Net must hold config.json, but got none in {str(tmp_path)!r}."


def test_a_folder_of_another_model_is_no_unet(folder: Path):
    path = folder / "unet" / "config.json"
    reset(path, _class_name="AutoencoderKL")
    assert said(UNet, folder) == (
        f"UNet is made from a UNet2DModel of diffusers, but got AutoencoderKL in {str(path)!r}."
    )


def test_a_unet_alone_is_no_diffusion(folder: Path):
    (folder / "scheduler" / "scheduler_config.json").unlink()
    assert said(Diffusion, folder) == (
        f"the folder of a Diffusion must hold scheduler_config.json, but got none in {str(folder)!r}."
    )


def test_a_pickle_is_refused(folder: Path):
    file = folder / "unet" / "diffusion_pytorch_model.safetensors"
    file.rename(file.with_suffix(".bin"))
    assert said(UNet, folder) == (
        "weights are read from safetensors, since a pickle can run any program, but got diffusion_pytorch_model.bin in "
        f'{str(folder / "unet")!r}: convert it where you trust it: python -c "from diffusers import UNet2DModel; '
        f"UNet2DModel.from_pretrained('{folder / 'unet'}').save_pretrained('converted')\"."
    )


def test_weights_that_do_not_fit_are_named(folder: Path):
    file = folder / "unet" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(file)
    tensors["conv_in.weight"] = torch.zeros(4, 2, 3, 3)
    tensors["conv_inn.bias"] = tensors.pop("conv_in.bias")
    save_file(tensors, file)
    assert said(UNet, folder) == (
        f"{folder / 'unet'} must hold weights that fit its config.json, but got conv_in.bias is missing; conv_inn.bias "
        "is unknown; conv_in.weight has shape [4, 2, 3, 3], not [4, 1, 3, 3]."
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"time_embedding_type": "fourier"},
            "a U-Net is as Ho 2020 published it, with time_embedding_type=positional, but got fourier.",
        ),
        ({"act_fn": "gelu"}, "act_fn must be one of silu, swish, but got 'gelu'."),
        (
            {"down_block_types": ["SkipDownBlock2D", "DownBlock2D"]},
            "down_block_types must be one of DownBlock2D, AttnDownBlock2D, but got 'SkipDownBlock2D'.",
        ),
        (
            {"up_block_types": ["UpBlock2D", "UpBlock2D"]},
            "a U-Net has attention at the same levels on the way down and on the way up, but got DownBlock2D, "
            "AttnDownBlock2D and UpBlock2D, UpBlock2D.",
        ),
        ({"attn_norm_num_groups": 4}, "attn_norm_num_groups must be norm_num_groups, which is 2, but got 4."),
        (
            {"attn_norm_num_groups": None, "resnet_time_scale_shift": "scale_shift"},
            "attn_norm_num_groups must be norm_num_groups, which is 2, but got None.",
        ),
        ({"downsample_padding": 3}, "downsample_padding must be one of 0, 1, but got 3."),
    ],
)
def test_another_architecture_is_refused(folder: Path, settings: dict[str, Any], sentence: str):
    reset(folder / "unet" / "config.json", **settings)
    assert said(UNet, folder) == sentence


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"beta_schedule": "scaled_linear"},
            "beta_schedule must be one of linear, squaredcos_cap_v2, but got 'scaled_linear'.",
        ),
        (
            {"trained_betas": [0.1]},
            "a noise schedule is as Ho 2020 or Nichol 2021 published it, with trained_betas=None, but got [0.1].",
        ),
        (
            {"variance_type": "learned_range"},
            "variance_type must be one of fixed_small, fixed_large, fixed_small_log, but got 'learned_range'.",
        ),
    ],
)
def test_another_process_is_refused(folder: Path, settings: dict[str, Any], sentence: str):
    reset(folder / "scheduler" / "scheduler_config.json", **settings)
    assert said(Diffusion, folder) == sentence


def test_settings_of_another_type_are_refused(folder: Path):
    reset(folder / "unet" / "config.json", block_out_channels=7)
    assert said(UNet, folder, RunError) == (
        f"{folder / 'unet' / 'config.json'} must hold the settings of a model, but got one of another type or size "
        "('int' object is not iterable)."
    )
