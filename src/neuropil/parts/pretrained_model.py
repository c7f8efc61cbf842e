"""A door to models that others have published: weights come in from their folders, and go out as they would have written them.

A model of ours knows the name of the file in `pretrained/` that has the map of names, and no more. That file is opened when it is asked
for, so that no model depends on what is built upon it.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, cast, runtime_checkable

from torch import Tensor, nn


@runtime_checkable
class Family(Protocol):
    """What a file of `pretrained/` offers."""

    def load(self, kind: type[nn.Module], source: str | Path, changes: Mapping[str, Any]) -> nn.Module: ...

    def layout(self, model: nn.Module) -> dict[str, Tensor]: ...

    def files(self, model: nn.Module) -> dict[str, dict[str, Any]]: ...

    def save(self, model: nn.Module, folder: Path) -> None: ...


class Published(nn.Module):
    family: ClassVar[str]

    @classmethod
    def from_pretrained(cls, source: str | Path, **changes: Any) -> Self:
        """The model in a folder that Hugging Face or neuropil wrote, or of that name on the hub, which is then downloaded. `changes` are
        options of the model to set differently, such as ``dropout=0.2``."""
        return cast(Self, cls._door().load(cls, source, changes))

    def save_pretrained(self, folder: str | Path) -> None:
        """A folder that Hugging Face's library opens: `config.json` and `model.safetensors`."""
        self._door().save(self, Path(folder))

    def published_state(self) -> dict[str, Tensor]:
        """Every tensor under the name that it has there, as a view of ours: what is written into it is in this model."""
        return self._door().layout(self)

    def published_files(self) -> dict[str, dict[str, Any]]:
        """The JSON that must stand beside the weights for this model to be opened there, by the names of the files."""
        return self._door().files(self)

    @classmethod
    def _door(cls) -> Family:
        return cast(Family, import_module(f"neuropil.pretrained.{cls.family}").FAMILY)
