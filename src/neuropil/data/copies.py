"""Which examples a model was trained on: a hash of eight bytes for each, kept beside its weights.

Hashed are the keys by which copies are kept in one part, so that a text in other capitals is known again too.
"""

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import UInt64

from neuropil.data.formats.npy import DamagedArrayError, ObjectArrayError, read_npy
from neuropil.errors import RunError
from neuropil.files import replacing

Key: TypeAlias = str | bytes
TRAINING_FILE = "training_examples.npy"


@runtime_checkable
class Keyed(Protocol):
    """Examples of which copies can be told."""

    unit: ClassVar[str]
    """What they are, as in "312 of 400 texts"."""

    @property
    def keys(self) -> Iterable[Key]:
        """One for each example; equal for copies."""
        ...


def save_hashes(folder: Path, keys: Iterable[Key]) -> None:
    hashes = np.unique(_hashes(keys))
    with replacing(folder / TRAINING_FILE, hashes.nbytes) as part, part.open("wb") as file:
        np.save(file, hashes, allow_pickle=False)


def training_copies(folder: Path, examples: Keyed) -> str:
    """A sentence on how many of the examples were trained on; empty if none was, or if a run does not say."""
    path = folder / TRAINING_FILE
    if not path.exists():
        return ""
    hashes, known = _hashes(examples.keys), _known(path)
    count = int(np.isin(hashes, known).sum())
    were = "was" if count == 1 else "were"
    return f"{count:,} of {len(hashes):,} {examples.unit} {were} in the training part of this run." if count else ""


def _known(path: Path) -> UInt64[np.ndarray, " example"]:
    rule, fix = f"{path} must be the array that neuropil wrote", "restore it, or remove it to do without"
    damaged = RunError(rule, got="a damaged file", fix=fix)
    try:
        with path.open("rb") as file:
            found = read_npy(file, path.stat().st_size, str(path))
    except (OSError, DamagedArrayError, ObjectArrayError) as error:
        raise damaged from error
    if found.dtype != np.uint64 or found.ndim != 1:
        raise damaged
    return found


def _hashes(keys: Iterable[Key]) -> UInt64[np.ndarray, " example"]:
    coded = (key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key for key in keys)
    return np.frombuffer(b"".join(blake2b(key, digest_size=8).digest() for key in coded), np.uint64)
