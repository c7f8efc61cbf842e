"""The U-Net of denoising diffusion as diffusers keeps it: a `UNet2DModel`, or a `DDPMPipeline` around one.

    UNet         config.json and diffusion_pytorch_model.safetensors
    Diffusion    model_index.json, the two files above in unet/, and scheduler/scheduler_config.json

Older pipelines have all of these in one folder. So has a run, where an index says that the weights are in
`model.safetensors`. Theirs is given pictures from −1 to 1; ours takes them as they are.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from neuropil.errors import InputError
from neuropil.files import write_text
from neuropil.models.diffusion import Diffusion, DiffusionConfig
from neuropil.models.unet.network import UNet, UNetConfig
from neuropil.pretrained import names
from neuropil.pretrained.folders import SETTINGS, WEIGHTS, Folder, Stored, read_json
from neuropil.pretrained.names import HuggingFaceFamily, Pairs, Place
from neuropil.training.weights import save_model

M = TypeVar("M", bound=nn.Module)
PIPELINE, SCHEDULER, UNET_WEIGHTS = "model_index.json", "scheduler_config.json", "diffusion_pytorch_model.safetensors"
KIND = "UNet2DModel"

UNET = {
    "depth": "layers_per_block",
    "middle_attention": "add_attention",
    "head_width": "attention_head_dim",
    "groups": "norm_num_groups",
    "time_width": "time_embedding_dim",
    "dropout": "dropout",
    "epsilon": "norm_eps",
    "cosine_first": "flip_sin_to_cos",
    "class_dropout": "_class_dropout",
}
"""Of settings, ours and theirs. The last is ours alone: they pass over names that begin with an underscore."""
NOISE = {"timesteps": "num_train_timesteps", "beta_start": "beta_start", "beta_end": "beta_end"}
DEFAULTS: dict[str, Any] = {
    "sample_size": None,
    "in_channels": 3,
    "out_channels": 3,
    "block_out_channels": [224, 448, 672, 896],
    "down_block_types": ["DownBlock2D", *["AttnDownBlock2D"] * 3],
    "up_block_types": [*["AttnUpBlock2D"] * 3, "UpBlock2D"],
    "layers_per_block": 2,
    "add_attention": True,
    "attention_head_dim": 8,
    "norm_num_groups": 32,
    "attn_norm_num_groups": None,
    "norm_eps": 1e-5,
    "time_embedding_dim": None,
    "freq_shift": 0,
    "flip_sin_to_cos": True,
    "resnet_time_scale_shift": "default",
    "downsample_padding": 1,
    "dropout": 0.0,
    "act_fn": "silu",
    "num_class_embeds": None,
    "_class_dropout": 0.0,
}
NOISE_DEFAULTS: dict[str, Any] = {
    "num_train_timesteps": 1000,
    "beta_schedule": "linear",
    "beta_start": 1e-4,
    "beta_end": 0.02,
    "prediction_type": "epsilon",
    "variance_type": None,
}
"""What they take where a file says nothing."""
PUBLISHED = {
    "center_input_sample": False,
    "time_embedding_type": "positional",
    "mid_block_type": "UNetMidBlock2D",
    "mid_block_scale_factor": 1,
    "downsample_type": "conv",
    "upsample_type": "conv",
    "class_embed_type": None,
}
PUBLISHED_NOISE = {"trained_betas": None, "rescale_betas_zero_snr": False}

EFFECTS = {"default": "shift", "scale_shift": "scale_shift"}
SCHEDULES = {"linear": "linear", "squaredcos_cap_v2": "cosine"}
PREDICTIONS = {"epsilon": "epsilon", "sample": "x0", "v_prediction": "v"}
VARIANCES = {"fixed_small": "small", "fixed_large": "large", "fixed_small_log": "small", None: "small"}
DOWN, UP = {"DownBlock2D": False, "AttnDownBlock2D": True}, {"UpBlock2D": False, "AttnUpBlock2D": True}
"""Of values, theirs and ours; of several of theirs, the first is written."""


def config(settings: Mapping[str, Any], tensors: Mapping[str, Stored], kind: type[nn.Module]) -> UNetConfig:
    theirs = DEFAULTS | dict(settings)
    names.require_settings("a U-Net is as Ho 2020 published it", theirs, PUBLISHED)
    embeddings, groups = theirs["num_class_embeds"] or 0, theirs["norm_num_groups"]
    options = {ours: theirs[name] for ours, name in UNET.items()} | {
        "channels": tuple(theirs["block_out_channels"]),
        "attention_levels": _attention_levels(theirs["down_block_types"], theirs["up_block_types"]),
        "time_effect": _ours("resnet_time_scale_shift", theirs, EFFECTS),
        "slowest_included": _ours("freq_shift", theirs, {0: False, 1: True}),
        "pad_at_ends": _ours("downsample_padding", theirs, {0: True, 1: False}),
        "shape": _shape(theirs),
        "outputs": None if theirs["out_channels"] == theirs["in_channels"] else theirs["out_channels"],
        "classes": embeddings - (1 if embeddings and theirs["_class_dropout"] else 0),
    }
    _ours("act_fn", theirs, {"silu": "silu", "swish": "silu"})
    norm = theirs["attn_norm_num_groups"] or (groups if options["time_effect"] == "shift" else None)
    if options["middle_attention"] and norm != groups:
        raise InputError(f"attn_norm_num_groups must be norm_num_groups, which is {groups}", got=f"{norm}")
    return UNetConfig(**options) if kind is UNet else _with_noise(options, NOISE_DEFAULTS | settings["scheduler"])


def _with_noise(options: Mapping[str, Any], theirs: Mapping[str, Any]) -> DiffusionConfig:
    names.require_settings("a noise schedule is as Ho 2020 or Nichol 2021 published it", theirs, PUBLISHED_NOISE)
    return DiffusionConfig(
        **options,
        **{ours: theirs[name] for ours, name in NOISE.items()},
        beta_schedule=_ours("beta_schedule", theirs, SCHEDULES),
        prediction=_ours("prediction_type", theirs, PREDICTIONS),
        variance=_ours("variance_type", theirs, VARIANCES),
    )


def _ours(name: str, settings: Mapping[str, Any], values: Mapping[Any, Any]) -> Any:
    if settings[name] not in values:
        rule = f"{name} must be one of {', '.join(str(value) for value in values if value is not None)}"
        raise InputError(rule, got=f"{settings[name]!r}")
    return values[settings[name]]


def _theirs(value: Any, values: Mapping[Any, Any]) -> Any:
    return next(theirs for theirs, ours in values.items() if ours == value)


def _attention_levels(down: Sequence[str], up: Sequence[str]) -> tuple[int, ...]:
    attends = [_ours("down_block_types", {"down_block_types": name}, DOWN) for name in down]
    if attends != [_ours("up_block_types", {"up_block_types": name}, UP) for name in reversed(up)]:
        rule = "a U-Net has attention at the same levels on the way down and on the way up"
        raise InputError(rule, got=f"{', '.join(down)} and {', '.join(up)}")
    return tuple(level for level, attention in enumerate(attends) if attention)


def _shape(theirs: Mapping[str, Any]) -> tuple[int, ...]:
    """Pictures may be of any size; where none is said, of one that all levels can halve."""
    size = theirs["sample_size"] or 4 * 2 ** len(theirs["block_out_channels"])
    return (theirs["in_channels"], *((size, size) if isinstance(size, int) else size))


def settings_of(model: UNet | Diffusion) -> dict[str, Any]:
    our = model.config
    channels, height, width = our.shape
    attends = [our.attends(level) for level in range(len(our.channels))]
    return {
        "_class_name": KIND,
        **PUBLISHED,
        **{theirs: getattr(our, ours) for ours, theirs in UNET.items()},
        "sample_size": height if height == width else [height, width],
        "in_channels": channels,
        "out_channels": our.outputs or channels,
        "block_out_channels": list(our.channels),
        "down_block_types": [_theirs(attention, DOWN) for attention in attends],
        "up_block_types": [_theirs(attention, UP) for attention in reversed(attends)],
        "attn_norm_num_groups": our.groups,
        "freq_shift": int(our.slowest_included),
        "resnet_time_scale_shift": _theirs(our.time_effect, EFFECTS),
        "downsample_padding": int(not our.pad_at_ends),
        "act_fn": "silu",
        "num_class_embeds": our.classes + (our.null_class is not None) or None,
    }


def pipeline_settings(config: DiffusionConfig) -> dict[str, dict[str, Any]]:
    """What makes a pipeline of a U-Net, by the names of the files."""
    scheduler = {
        "_class_name": "DDPMScheduler",
        **{theirs: getattr(config, ours) for ours, theirs in NOISE.items()},
        "beta_schedule": _theirs(config.beta_schedule, SCHEDULES),
        "prediction_type": _theirs(config.prediction, PREDICTIONS),
        "variance_type": _theirs(config.variance, VARIANCES),
        "clip_sample": True,
    }
    parts = {"unet": ["diffusers", KIND], "scheduler": ["diffusers", "DDPMScheduler"]}
    return {PIPELINE: {"_class_name": "DDPMPipeline", **parts}, SCHEDULER: scheduler}


BLOCK = {
    "norm1": "norm1",
    "convolution1": "conv1",
    "time": "time_emb_proj",
    "norm2": "norm2",
    "convolution2": "conv2",
    "shortcut": "conv_shortcut",
}
ATTENTION: Pairs = {
    "norm": "group_norm",
    "attention.projection": ("to_q", "to_k", "to_v"),
    "attention.output": "to_out.0",
}


def places(model: UNet | Diffusion) -> dict[str, Place]:
    levels = range(len(model.config.channels))
    pairs: Pairs = {
        "stem": "conv_in",
        "time.inner": "time_embedding.linear_1",
        "time.outer": "time_embedding.linear_2",
        "norm": "conv_norm_out",
        "output": "conv_out",
    }
    for ours, theirs in [("down", "down_blocks"), ("up", "up_blocks")]:
        for level in levels:
            for number in range(model.config.depth + (ours == "up")):
                pairs |= _inside(f"{ours}.{level}.blocks.{number}", f"{theirs}.{level}.resnets.{number}", BLOCK)
                mine, other = f"{ours}.{level}.attentions.{number}", f"{theirs}.{level}.attentions.{number}"
                pairs |= _inside(mine, other, ATTENTION)
    pairs |= {f"down.{level}.downsample.convolution": f"down_blocks.{level}.downsamplers.0.conv" for level in levels}
    pairs |= {f"up.{level}.upsample.convolution": f"up_blocks.{level}.upsamplers.0.conv" for level in levels}
    pairs |= _inside("middle.before", "mid_block.resnets.0", BLOCK)
    pairs |= _inside("middle.after", "mid_block.resnets.1", BLOCK)
    pairs |= _inside("middle.attention", "mid_block.attentions.0", ATTENTION)
    unet, prefix = (model.unet, "unet.") if isinstance(model, Diffusion) else (model, "")
    has = dict(unet.named_parameters())
    linear = names.linear_places({prefix + ours: theirs for ours, theirs in pairs.items() if f"{ours}.weight" in has})
    found = linear | ({"class_embedding.weight": Place(f"{prefix}classes.table.weight")} if unet.classes else {})
    if isinstance(model, Diffusion):
        found |= {f"unit_range.{name}": Place(f"unit_range.{name}") for name in ("low", "high")}
    return found


def _inside(ours: str, theirs: str, names: Mapping[str, str | tuple[str, ...]]) -> Pairs:
    """The parts of a module, ours and theirs."""
    return {
        f"{ours}.{own}": f"{theirs}.{other}" if isinstance(other, str) else tuple(f"{theirs}.{each}" for each in other)
        for own, other in names.items()
    }


NEW = ("unit_range.",)
OLD = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
TENSORS = HuggingFaceFamily(
    KIND,
    "",
    config,
    settings_of,
    places,
    known=NEW,
    new=NEW,
    old={f".{old}.{end}": f".{now}.{end}" for old, now in OLD.items() for end in ("weight", "bias")},
)


class DiffusersFamily:
    """A checkpoint family of diffusers, whose folders are found and written in another way than those of
    transformers. Nothing is fetched."""

    def load(self, kind: type[M], source: str | Path, changes: Mapping[str, Any]) -> M:
        return TENSORS.load_folder(kind, opened(Path(source), kind), changes)

    def layout(self, model: nn.Module) -> dict[str, Any]:
        return TENSORS.layout(model)

    def files(self, model: nn.Module) -> dict[str, dict[str, Any]]:
        """All in one folder, with the weights in the file that a run has for them."""
        index = {"metadata": {}, "weight_map": dict.fromkeys(self.layout(model), WEIGHTS)}
        found = {SETTINGS: TENSORS.settings_of(model), f"{UNET_WEIGHTS}.index.json": index}
        return found | pipeline_settings(model.config) if isinstance(model, Diffusion) else found

    def save(self, model: nn.Module, folder: Path) -> None:
        pipeline = pipeline_settings(model.config) if isinstance(model, Diffusion) else {}
        unet = folder / "unet" if pipeline else folder
        unet.mkdir(parents=True, exist_ok=True)
        save_model(unet / UNET_WEIGHTS, model)
        _write(unet / SETTINGS, TENSORS.settings_of(model))
        if pipeline:
            (folder / "scheduler").mkdir(exist_ok=True)
            _write(folder / "scheduler" / SCHEDULER, pipeline[SCHEDULER])
            _write(folder / PIPELINE, pipeline[PIPELINE])


def _write(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")


def opened(path: Path, kind: type[nn.Module]) -> Folder:
    """The folder of a U-Net; with the settings of its noise, if it is for a `Diffusion`."""
    if not path.is_dir():
        rule = f"{kind.__name__} is made from a folder as diffusers saves it"
        raise InputError(rule, got=f"{str(path)!r}, which is none here")
    unet = path / "unet" if (path / "unet").is_dir() else path
    if not (unet / SETTINGS).exists():
        raise InputError(f"the folder of a U-Net must hold {SETTINGS}", got=f"none in {str(unet)!r}")
    settings = read_json(unet / SETTINGS)
    if settings.get("_class_name") != KIND:
        got = f"{settings.get('_class_name', 'no _class_name')} in {str(unet / SETTINGS)!r}"
        raise InputError(f"{kind.__name__} is made from a {KIND} of diffusers", got=got)
    if kind is Diffusion:
        scheduler = next((file for file in (path / "scheduler" / SCHEDULER, path / SCHEDULER) if file.exists()), None)
        if scheduler is None:
            raise InputError(f"the folder of a Diffusion must hold {SCHEDULER}", got=f"none in {str(path)!r}")
        settings = settings | {"scheduler": read_json(scheduler)}
    return Folder(unet, settings, UNET_WEIGHTS, f"diffusers.{KIND}")


FAMILY = DiffusersFamily()
