"""Models that others have published: weights come in from their folders, and go out as they would have written them."""

from pathlib import Path
from typing import Any, ClassVar, Self

from torch import Tensor

from neuropil.parts.checkpoint_families import family_of
from neuropil.parts.parameters import Model


class PretrainedModel(Model):
    family: ClassVar[str]

    @classmethod
    def from_pretrained(cls, source: str | Path, **changes: Any) -> Self:
        """The model in a folder that Hugging Face or neuropil wrote, or of that name on the hub, which is then
        downloaded. `changes` are options of the model to set differently, such as ``dropout=0.2``."""
        return family_of(cls.family).load(cls, source, changes)

    def save_pretrained(self, folder: str | Path) -> None:
        """A folder that Hugging Face's library opens: `config.json` and `model.safetensors`."""
        family_of(self.family).save(self, Path(folder))

    def published_state(self) -> dict[str, Tensor]:
        """Every tensor under the name that it has there, as a view: what is written into it is in this model."""
        return family_of(self.family).layout(self)

    def published_files(self) -> dict[str, dict[str, Any]]:
        """The JSON that must stand beside the weights for this model to be opened there, by the names of the files."""
        return family_of(self.family).files(self)
