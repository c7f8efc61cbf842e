"""A model as it was before it was divided over processes: how its weights are written, and how it is made whole again.

What is saved may be views of the weights under other names (`PublishedWeights`). A view is noted as plain numbers
(which weight, shape, strides, offset), so that one weight after the other can be gathered and written to its places in
the file.
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn

from neuropil.files import replacing
from neuropil.training.distributed.dtensor import whole
from neuropil.training.weights import require_weights, unique_state

DTYPES = {
    torch.float64: "F64",
    torch.int64: "I64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""As safetensors calls them, the widest first: that is their order in a file."""


class WeightView(NamedTuple):
    weight: str
    shape: torch.Size
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        return self.shape.numel() * self.dtype.itemsize


class Undivided:
    """Made before a model is divided; `parts` are weights that are several in the divided model, by rows."""

    def __init__(self, model: nn.Module, parts: Mapping[str, Sequence[str]]):
        self.model, self.parts = model, parts
        for parameter in model.parameters():
            parameter.data = parameter.data.contiguous()
        owners = {weight.untyped_storage().data_ptr(): name for name, weight in model.state_dict().items()}
        self.views = {
            name: WeightView(
                owners[x.untyped_storage().data_ptr()], x.shape, x.stride(), int(x.storage_offset()), x.dtype
            )
            for name, x in unique_state(model).items()
        }
        self.shapes = {name: (weight.shape, weight.dtype) for name, weight in model.state_dict().items()}
        placeholders = {id(weight): _placeholder(weight) for weight in model.parameters()}
        self.modules = {module: (type(module), _attributes(module, placeholders)) for module in model.modules()}

    def write(self, path: Path) -> None:
        """The file that `save_model` would have written. All processes gather, the first one writes."""
        if distributed.get_rank() == 0:
            with replacing(path, sum(view.bytes for view in self.views.values())) as part:
                self._write(part)
        else:
            for _ in self._gathered():
                pass
        distributed.barrier()

    def whole_weights(self, tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
        """By their names in the whole model, from those of a file of `save_model`."""
        expected = {name: view.shape for name, view in self.views.items()}
        require_weights(type(self.model).__name__, expected, tensors, path)
        found: dict[str, Tensor] = {}
        for name, view in self.views.items():
            shape, dtype = self.shapes[view.weight]
            weight = found.setdefault(view.weight, torch.empty(shape, dtype=dtype))
            weight.as_strided(view.shape, view.stride, view.offset).copy_(tensors[name])
        return found

    def restore(self, device: torch.device | str = "cpu") -> None:
        """The model as it was before it was divided, on one device, its weights to be filled in."""
        for module, (kind, attributes) in self.modules.items():
            module.__class__ = kind
            vars(module).clear()
            vars(module).update(attributes)
        filled = {id(weight): _empty(weight, device) for weight in self.model.parameters()}
        for module in self.model.modules():
            for name, weight in module._parameters.items():
                if weight is not None:
                    module._parameters[name] = filled[id(weight)]

    def _write(self, part: Path) -> None:
        order = sorted(self.views, key=lambda name: (list(DTYPES).index(self.views[name].dtype), name))
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        end, starts = 0, dict[str, int]()
        for name in order:
            view = self.views[name]
            starts[name], end = end, end + view.bytes
            header[name] = {"dtype": DTYPES[view.dtype], "shape": list(view.shape), "data_offsets": [starts[name], end]}
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with part.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for weight, tensor in self._gathered():
                for name in (name for name in order if self.views[name].weight == weight):
                    view = self.views[name]
                    file.seek(8 + len(text) + starts[name])
                    piece = tensor.as_strided(view.shape, view.stride, view.offset).contiguous()
                    file.write(piece.view(-1).view(torch.uint8).numpy().data)

    def _gathered(self) -> Iterator[tuple[str, Tensor]]:
        """One whole weight after the other."""
        state = self.model.state_dict()
        for name in dict.fromkeys(view.weight for view in self.views.values()):
            pieces = [whole(state[part]) for part in self.parts.get(name, (name,))]
            yield name, torch.cat(pieces).cpu() if len(pieces) > 1 else pieces[0].cpu().contiguous()


def _placeholder(weight: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(weight.detach().to("meta"), requires_grad=weight.requires_grad)


def _empty(weight: Tensor, device: torch.device | str) -> nn.Parameter:
    return nn.Parameter(torch.empty_like(weight, device=device), requires_grad=weight.requires_grad)


def _attributes(module: nn.Module, placeholders: Mapping[int, nn.Parameter]) -> dict[str, Any]:
    """Everything that a module has, the weights without their numbers."""
    own = {name: copy.copy(value) if isinstance(value, dict) else value for name, value in vars(module).items()}
    own["_parameters"] = {
        name: None if weight is None else placeholders[id(weight)] for name, weight in module._parameters.items()
    }
    return own
