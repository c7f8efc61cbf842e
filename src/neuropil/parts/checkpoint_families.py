"""How a published model finds the family of checkpoints that it belongs to.

The families are in `pretrained/`, which is built upon the models, so that no model may import it. The package's front
door, which may know every room, registers a finder here; it is asked when a checkpoint is first loaded or saved.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:  # the front door imports this file, and must not wait for PyTorch
    from torch import Tensor, nn

    M = TypeVar("M", bound=nn.Module)
else:
    M = TypeVar("M")


@runtime_checkable
class CheckpointFamily(Protocol):
    def load(self, kind: "type[M]", source: str | Path, changes: Mapping[str, Any]) -> "M": ...

    def layout(self, model: "nn.Module") -> "dict[str, Tensor]": ...

    def files(self, model: "nn.Module") -> dict[str, dict[str, Any]]: ...

    def save(self, model: "nn.Module", folder: Path) -> None: ...


_finders: list[Callable[[str], CheckpointFamily]] = []


def register(finder: Callable[[str], CheckpointFamily]) -> None:
    """`finder` gives the family of a name; the last one that is registered counts."""
    _finders.append(finder)


def family_of(name: str) -> CheckpointFamily:
    return _finders[-1](name)
