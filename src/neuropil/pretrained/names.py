"""Two names for one tensor: where each tensor of another library stands in a model of ours, and both ways from there.

theirs                                   ours
h.0.attn.c_attn.weight [d 3d]            blocks.0.attention.projection.weight [3d d], transposed
encoder.layer.0.attention.self.key       blocks.0.attention.projection, the second of three parts
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from neuropil.config import Config
from neuropil.errors import InputError, nearest
from neuropil.files import write_text
from neuropil.memory import BoundedModel
from neuropil.parts.blocks import BlockConfig, HiddenName
from neuropil.parts.standardize import Standardize
from neuropil.pretrained.folders import PROCESSOR, SETTINGS, WEIGHTS, Folder, Stored, open_folder, read_json, well_typed
from neuropil.training.weights import save_model

MOST_LISTED = 8
FLOATING = ("F64", "F32", "F16", "BF16")
ACTIVATIONS: dict[str, HiddenName] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
}
THEIR_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "quick_gelu": "quick_gelu", "relu": "relu"}
STACK_NAMES = {
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "layers": "num_hidden_layers",
    "feed_forward": "intermediate_size",
    "epsilon": "layer_norm_eps",
}
"""Settings of a stack of blocks, ours and theirs, in all families but GPT-2's."""
ATTENTION = ("attention.projection", "attention.output", "attention_sum.norm")
BLOCK = (*ATTENTION, "feed_forward.inner", "feed_forward.outer", "feed_forward_sum.norm")
"""The modules of a block."""
Pairs: TypeAlias = dict[str, str | tuple[str, ...]]
"""Modules, ours and theirs; one of ours may be several of theirs, one after the other."""
M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Place:
    """Where a tensor stands: ours, its transpose, or one of equal parts of its rows; `shape` if theirs has more."""

    name: str
    transposed: bool = False
    part: int = 0
    parts: int = 1
    shape: tuple[int, ...] | None = None

    def view(self, ours: Tensor) -> Tensor:
        """As they see it; what is written into it is in ours."""
        piece = ours.chunk(self.parts)[self.part] if self.parts > 1 else ours
        piece = piece.mT if self.transposed else piece
        return piece if self.shape is None else piece.view(self.shape)

    def back(self, theirs: Tensor, shape: torch.Size) -> Tensor:
        """As we see it, without a copy; `shape` is that of ours. A matrix that stands the other way round there is left
        in the pages of its file, which are read when it is first needed: products are as fast from either side. Whoever
        must have it row after row makes `weight.data` contiguous, and the pages are free again, since no other tensor
        shares their mapping."""
        theirs = theirs.mT if self.transposed else theirs
        return theirs if self.shape is None else theirs.reshape(shape)


Places = Mapping[str, Place]


@dataclass(frozen=True)
class HuggingFaceFamily:
    """The models of one `model_type`. `prefix` stands before the names of the body, in files that hold more than it."""

    model_type: str
    prefix: str
    config: Callable[[Mapping[str, Any], Mapping[str, Stored], type[nn.Module]], Config]
    """From their settings and the tensors that there are."""
    settings_of: Callable[[Any], dict[str, Any]]
    places: Callable[[Any], dict[str, Place]]
    """Of a model: names with the prefix, where its kind has one."""
    known: Sequence[str] = ()
    """How names begin that others of the family have, and this model need not."""
    ignored: Sequence[str] = ()
    """How names end that are no weights."""
    new: Sequence[str] = ()
    """How names begin that a model may have and a folder not: a head that is still to be learned."""
    old: Mapping[str, str] = field(default_factory=dict)
    """How names end in older files, and how they end now."""

    def load(self, kind: type[M], source: str | Path, changes: Mapping[str, Any]) -> M:
        return self.load_folder(kind, open_folder(source, self.model_type, kind.__name__), changes)

    def load_folder(self, kind: type[M], folder: Folder, changes: Mapping[str, Any]) -> M:
        theirs = self._by_whole_names(folder.tensors())
        with well_typed(folder.path):
            published: Any = self.config(folder.settings, theirs, kind)
        options = [option.name for option in published.options()]
        known = [*options, *(field.name for field in dataclasses.fields(published) if field.name not in options)]
        for name in changes:
            if name not in known:
                rule = f"what is set differently must be an option of {kind.__name__}"
                raise InputError(rule, got=f"{name!r}", fix=nearest(name, known))
        published = published.override(**{name: value for name, value in changes.items() if name in options})
        others = {name: value for name, value in changes.items() if name not in options}
        with well_typed(folder.path), torch.device("meta"), Unfilled(), BoundedModel(bytes_each=0):
            model = kind(dataclasses.replace(published, **others))
        self._fill(model, theirs, folder)
        return model.eval()

    def layout(self, model: nn.Module) -> dict[str, Tensor]:
        state = dict(model.named_parameters()) | dict(model.named_buffers())
        return {theirs: place.view(state[place.name].detach()) for theirs, place in self.places(model).items()}

    def files(self, model: nn.Module) -> dict[str, dict[str, Any]]:
        """What to write beside the weights. Nothing for a model whose heads were removed: no other library has such."""
        config: Any = model.config
        if config.kept_heads:
            return {}
        dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
        found = {SETTINGS: {"model_type": self.model_type, "dtype": dtype, **self.settings_of(model)}}
        pictures = processor_of(model)
        return found if pictures is None else found | {PROCESSOR: pictures}

    def save(self, model: nn.Module, folder: Path) -> None:
        files = self.files(model)
        if not files:
            raise InputError("a model that others can open has all its heads", got="one whose heads were removed")
        folder.mkdir(parents=True, exist_ok=True)
        save_model(folder / WEIGHTS, model)
        for name, content in files.items():
            write_text(folder / name, json.dumps(content, indent=2) + "\n")

    def _by_whole_names(self, tensors: Mapping[str, Stored]) -> dict[str, Stored]:
        """With the prefix, and as names end today; each still knows what it is called in its file."""
        ignored = tuple(self.ignored)
        whole = {self._today(name): tensor for name, tensor in tensors.items() if not name.endswith(ignored)}
        if not self.prefix or any(name.startswith(self.prefix) for name in whole):
            return whole
        return {self._full(name): tensor for name, tensor in whole.items()}

    def _today(self, name: str) -> str:
        return next((name.removesuffix(end) + now for end, now in self.old.items() if name.endswith(end)), name)

    def _full(self, name: str) -> str:
        return name if name.startswith((self.prefix, *self.known)) else self.prefix + name

    def _fill(self, model: nn.Module, theirs: Mapping[str, Stored], folder: Folder) -> None:
        """One tensor of ours after the other. One that is kept as it came lies in the file's own pages, where it is
        read when it is needed; of the others, no more than one is in memory twice."""
        places = {self._full(name): place for name, place in self.places(model).items()}
        new_starts = tuple(start for start in self.new if not any(has.startswith(start) for has in theirs))
        new = {name for name in places if name.startswith(new_starts)}
        shapes = {name: tensor.shape for name, tensor in (*model.named_parameters(), *model.named_buffers())}
        self._require_fitting(places, model, theirs, new, folder)
        sources: dict[str, list[tuple[str, Place]]] = {}
        for name, place in places.items():
            sources.setdefault(place.name, []).append((name, place))
        for ours, pieces in sources.items():
            if pieces[0][0] in new:
                _put(model, ours, begun(ours, shapes[ours], folder))
            else:
                parts = [place.back(theirs[name].mapped().float(), shapes[ours]) for name, place in pieces]
                _put(model, ours, parts[0] if len(parts) == 1 else torch.cat(parts))

    def _require_fitting(
        self, places: Places, model: nn.Module, theirs: Mapping[str, Stored], new: set[str], folder: Folder
    ) -> None:
        bare = not any(tensor.name.startswith(self.prefix) for tensor in theirs.values())
        wanted = {self._full(name): tuple(view.shape) for name, view in self.layout(model).items()}
        missing = [name for name in places if name not in theirs and name not in new]
        problems = [f"{name.removeprefix(self.prefix) if bare else name} is missing" for name in missing]
        unknown = [name for name in theirs if name not in places and not name.startswith(tuple(self.known))]
        problems += [f"{theirs[name].name} is unknown" for name in unknown]
        for name, tensor in theirs.items():
            if name in places and tensor.shape != wanted[name]:
                problems.append(f"{tensor.name} has shape {list(tensor.shape)}, not {list(wanted[name])}")
            elif name in places and tensor.kind not in FLOATING:
                problems.append(f"{tensor.name} is of type {tensor.kind}, not one of {', '.join(FLOATING)}")
        if problems:
            more = f"; and {len(problems) - MOST_LISTED} more" if len(problems) > MOST_LISTED else ""
            rule = f"{folder.path} must hold weights that fit its {SETTINGS}"
            raise InputError(rule, got="; ".join(problems[:MOST_LISTED]) + more)


class Unfilled(TorchFunctionMode):
    """No random numbers for weights that are about to come from a file. On the meta device, where there are no numbers,
    PyTorch would import 800 of its modules to draw none: seconds, and 75 MB."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (nn.init.normal_, torch.Tensor.normal_):
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def _put(model: nn.Module, name: str, tensor: Tensor) -> None:
    path, _, last = name.rpartition(".")
    module = model.get_submodule(path)
    if last in module._buffers:
        module._buffers[last] = tensor
    else:
        setattr(module, last, nn.Parameter(tensor))


def begun(name: str, shape: torch.Size, folder: Folder) -> Tensor:
    """What a folder does not hold: a head before it learns, or how pictures are standardised or scaled."""
    if name.endswith(("standardize.mean", "standardize.std")):
        return _standard(name.rpartition(".")[2], shape, folder)
    if name.endswith(("unit_range.low", "unit_range.high")):
        return torch.full(shape, 0.0 if name.endswith("low") else 255.0)
    return torch.zeros(shape) if name.endswith("bias") else nn.init.normal_(torch.empty(shape), std=0.02)


def _standard(which: str, shape: torch.Size, folder: Folder) -> Tensor:
    """Theirs are of pixels that were multiplied by a factor first, ours of bytes."""
    path = folder.path / PROCESSOR
    found = read_json(path) if path.exists() else {"do_normalize": False, "do_rescale": False}
    factor = found.get("rescale_factor", 1 / 255) if found.get("do_rescale", True) else 1.0
    usual = (0.0,) if which == "mean" else (1.0,)
    values = found.get(f"image_{which}", usual) if found.get("do_normalize", True) else usual
    return (torch.tensor(values, dtype=torch.float32) / factor).view(-1, 1, 1).expand(shape).clone()


def processor_of(model: nn.Module) -> dict[str, Any] | None:
    """How pictures are made ready for a model of theirs, where ours does it itself."""
    standardize = next((module for module in model.modules() if isinstance(module, Standardize)), None)
    if standardize is None:
        return None
    _, height, width = standardize.shape
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": height, "width": width},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": (standardize.mean / 255).flatten().tolist(),
        "image_std": (standardize.std / 255).flatten().tolist(),
    }


def linear_places(pairs: Mapping[str, str | tuple[str, ...]], *, transposed: bool = False) -> dict[str, Place]:
    """Weights and biases of modules."""
    places: dict[str, Place] = {}
    for ours, theirs in pairs.items():
        several = (theirs,) if isinstance(theirs, str) else theirs
        for part, name in enumerate(several):
            places[f"{name}.weight"] = Place(f"{ours}.weight", transposed=transposed, part=part, parts=len(several))
            places[f"{name}.bias"] = Place(f"{ours}.bias", part=part, parts=len(several))
    return places


def block_pairs(ours: str, theirs: str, layers: int, names: Sequence[str | tuple[str, ...]]) -> Pairs:
    """Of all blocks of a stack; `names` are theirs of what `BLOCK` names."""
    pairs: Pairs = {}
    for number in range(layers):
        for own, other in zip(BLOCK, names, strict=True):
            start = f"{theirs}.{number}."
            whole = start + other if isinstance(other, str) else tuple(start + part for part in other)
            pairs[f"{ours}.{number}.{own}"] = whole
    return pairs


def standardize_places(ours: str) -> dict[str, Place]:
    return {f"standardize.{name}": Place(f"{ours}.{name}") for name in ("mean", "std")}


def activation(name: str) -> HiddenName:
    if name not in ACTIVATIONS:
        raise InputError(f"the activation must be one of {', '.join(ACTIVATIONS)}", got=f"{name!r}")
    return ACTIVATIONS[name]


def translated(settings: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Their settings by our names, ours → theirs; what they do not say is as it was published, which is our default."""
    return {ours: settings[theirs] for ours, theirs in names.items() if settings.get(theirs) is not None}


def settings_in(config: BlockConfig, names: Mapping[str, str]) -> dict[str, Any]:
    """Our settings by their names."""
    found = {theirs: getattr(config, ours) for ours, theirs in names.items()}
    return found | {names["feed_forward"]: config.feed_forward_size}


def require_settings(rule: str, settings: Mapping[str, Any], published: Mapping[str, Any]) -> None:
    for name, usual in published.items():
        if settings.get(name, usual) != usual:
            raise InputError(f"{rule}, with {name}={usual}", got=f"{settings[name]}")


def picture_shape(settings: Mapping[str, Any]) -> tuple[int, ...]:
    """Channels, height and width of a picture; theirs may be one number for both sides."""
    size = settings.get("image_size", 224)
    return (settings.get("num_channels", 3), *((size, size) if isinstance(size, int) else size))


def picture_settings(shape: Sequence[int]) -> dict[str, Any]:
    channels, height, width = shape
    return {"image_size": height if height == width else [height, width], "num_channels": channels}


def number_of_classes(settings: Mapping[str, Any], tensors: Mapping[str, Stored]) -> int:
    head = tensors.get("classifier.weight")
    return len(settings.get("id2label", "..")) if head is None else head.shape[0]


def class_names(classes: int) -> dict[str, Any]:
    return {"id2label": {str(number): str(number) for number in range(classes)}}
