"""Two names for one tensor: where each tensor of another library stands in a model of ours, and both ways from there.

theirs                                   ours
h.0.attn.c_attn.weight [d 3d]            blocks.0.attention.projection.weight [3d d], transposed
encoder.layer.0.attention.self.key       blocks.0.attention.projection, the second of three parts
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuropil.config import Config
from neuropil.errors import InputError
from neuropil.files import write_text
from neuropil.parts.blocks import HiddenName
from neuropil.parts.standardize import Standardize
from neuropil.pretrained.folders import PROCESSOR, SETTINGS, WEIGHTS, Folder, open_folder, read_json
from neuropil.training.weights import save_model

MOST_LISTED = 8
ACTIVATIONS: dict[str, HiddenName] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
}
THEIR_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "quick_gelu": "quick_gelu", "relu": "relu"}


@dataclass(frozen=True)
class Place:
    """Where a tensor stands: the whole of ours, its transpose, or one of equal parts of its rows; `shape` where theirs has more axes."""

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

    def back(self, theirs: Tensor, ours: Tensor) -> Tensor:
        """As we see it, without a copy; `ours` has the shape."""
        theirs = theirs.mT if self.transposed else theirs
        return theirs if self.shape is None else theirs.reshape(ours.shape)


Places = Mapping[str, Place]


@dataclass(frozen=True)
class Family:
    """The models of one `model_type`. `prefix` stands before the names of the body, in files that hold more than it."""

    model_type: str
    prefix: str
    config: Callable[[Mapping[str, Any], Mapping[str, Tensor], type[nn.Module]], Config]
    """From their settings and the tensors that there are."""
    settings_of: Callable[[Any], dict[str, Any]]
    places: Callable[[Any], dict[str, Place]]
    """Of a model: names with the prefix, where its kind has one."""
    known: Sequence[str] = ()
    """How names begin that others of the family have, and this model need not."""
    ignored: Sequence[str] = ()
    """How names end that are no weights."""
    new: Sequence[str] = ()
    """How names begin that a model may have and a folder not, all of them or none: a head that is still to be learned."""

    def load(self, kind: type[nn.Module], source: str | Path, changes: Mapping[str, Any]) -> nn.Module:
        folder = open_folder(source, self.model_type, kind.__name__)
        theirs = self._with_prefix(folder.tensors())
        published: Any = self.config(folder.settings, theirs, kind)
        config = dataclasses.replace(published, **changes)
        with torch.device("meta"):
            model = kind(config)
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
        found = {SETTINGS: {"model_type": self.model_type, "dtype": "float32", **self.settings_of(model)}}
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

    def _with_prefix(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        tensors = {name: tensor for name, tensor in tensors.items() if not name.endswith(tuple(self.ignored))}
        if not self.prefix or any(name.startswith(self.prefix) for name in tensors):
            return dict(tensors)
        return {name if name.startswith(tuple(self.known)) else self.prefix + name: tensor for name, tensor in tensors.items()}

    def _fill(self, model: nn.Module, theirs: Mapping[str, Tensor], folder: Folder) -> None:
        places = {self._full(name): place for name, place in self.places(model).items()}
        new = {name for name in places for start in self.new if name.startswith(start) and not any(has.startswith(start) for has in theirs)}
        ours = dict(model.named_parameters()) | dict(model.named_buffers())
        self._require_fitting(places, ours, theirs, new, folder)
        pieces: dict[str, list[Tensor]] = {}
        for name, place in places.items():
            tensor = begun(place.name, ours[place.name].shape, folder) if name in new else theirs[name].float()
            pieces.setdefault(place.name, []).append(place.back(tensor, ours[place.name]))
        for name, parts in pieces.items():
            _put(model, name, parts[0] if len(parts) == 1 else torch.cat(parts))

    def _require_fitting(
        self, places: Places, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], new: set[str], folder: Folder
    ) -> None:
        problems = [f"{name} is missing" for name in places if name not in theirs and name not in new]
        problems += [f"{name} is unknown" for name in theirs if name not in places and not name.startswith(tuple(self.known))]
        for name, place in places.items():
            if name in theirs and theirs[name].shape != (wanted := place.view(ours[place.name]).shape):
                problems.append(f"{name} has shape {list(theirs[name].shape)}, not {list(wanted)}")
        if problems:
            more = f"; and {len(problems) - MOST_LISTED} more" if len(problems) > MOST_LISTED else ""
            raise InputError(f"{folder.path} must hold weights that fit its {SETTINGS}", got="; ".join(problems[:MOST_LISTED]) + more)

    def _full(self, name: str) -> str:
        return name if name.startswith((self.prefix, *self.known)) else self.prefix + name


def _put(model: nn.Module, name: str, tensor: Tensor) -> None:
    path, _, last = name.rpartition(".")
    module = model.get_submodule(path)
    if last in module._buffers:
        module._buffers[last] = tensor
    else:
        setattr(module, last, nn.Parameter(tensor))


def begun(name: str, shape: torch.Size, folder: Folder) -> Tensor:
    """What a folder does not hold: a head before it learns, or how pictures are standardised."""
    if name.endswith(("standardize.mean", "standardize.std")):
        return _standard(name.rpartition(".")[2], shape, folder)
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
    """Weights and biases of modules, ours → theirs; one of ours may be several of theirs, one after the other."""
    places: dict[str, Place] = {}
    for ours, theirs in pairs.items():
        several = (theirs,) if isinstance(theirs, str) else theirs
        for part, name in enumerate(several):
            places[f"{name}.weight"] = Place(f"{ours}.weight", transposed=transposed, part=part, parts=len(several))
            places[f"{name}.bias"] = Place(f"{ours}.bias", part=part, parts=len(several))
    return places


def activation(name: str) -> HiddenName:
    if name not in ACTIVATIONS:
        raise InputError(f"hidden units are one of {', '.join(ACTIVATIONS)}", got=f"{name!r}")
    return ACTIVATIONS[name]
