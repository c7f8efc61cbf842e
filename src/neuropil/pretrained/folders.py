"""Folders in which Hugging Face's libraries keep a model: `config.json`, and weights as safetensors in one file or in
several.

Weights are mapped into memory, and not read: loading takes no time, and what is never used is never in memory. Each
tensor is mapped by itself, so that the pages of one that must be changed (joined to others, widened, turned by a
decoder that wants rows) are free again before the next is looked at, and no tensor is in memory twice but that one.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from neuropil.errors import InputError, NeuropilError, RunError

WEIGHTS, INDEX, SETTINGS, PROCESSOR, SENTENCES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "config.json",
    "preprocessor_config.json",
    "sentence_bert_config.json",
)
"""The last is that of sentence-transformers, and says how many tokens of a text are read."""
LONGEST_NAME = 255
"""Bytes of the name of a file."""
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
WANTED = (
    *(SETTINGS, "*.safetensors", INDEX, PROCESSOR, SENTENCES),
    *("tokenizer*", "vocab.*", "merges.txt", "special_tokens_map.json"),
)


@dataclass(frozen=True)
class Stored:
    """A tensor in a file, of which only the shape and the kind of its numbers are known yet."""

    file: Path
    name: str
    shape: tuple[int, ...]
    kind: str
    """As safetensors calls it: F32, BF16, I8 …"""

    def mapped(self) -> Tensor:
        """In the file's pages, until the last view of it is gone. What is written into it never reaches the file."""
        with safe_open(self.file, framework="pt") as file:
            return file.get_tensor(self.name)


@dataclass(frozen=True)
class Folder:
    path: Path
    settings: Mapping[str, Any]
    weights: str = WEIGHTS
    opener: str = "transformers.AutoModel"
    """What reads weights there, in any format."""

    def tensors(self) -> dict[str, Stored]:
        return {tensor.name: tensor for file in self._weight_files() for tensor in _stored(file)}

    def _weight_files(self) -> list[Path]:
        if (self.path / self.weights).exists():
            return [self.path / self.weights]
        index = self.path / f"{self.weights}.index.json"
        if index.exists():
            files = read_json(index).get("weight_map")
            if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
                rule = f"{index} must say in weight_map which file holds which tensor"
                raise RunError(rule, got="none that does")
            names = sorted(set(files.values()))
            if outside := [name for name in names if not is_file_name(name)]:
                rule = f"{index} must name files in its own folder"
                raise RunError(rule, got=f"{outside[0]!r}")
            if missing := [name for name in names if not (self.path / name).exists()]:
                rule = f"{self.path} must hold every file that {index.name} names"
                raise RunError(rule, got=f"none called {', '.join(missing)}")
            return [self.path / name for name in names]
        library, _, opener = self.opener.partition(".")
        if pickles := sorted(file.name for pattern in PICKLES for file in self.path.glob(pattern)):
            raise InputError(
                "weights are read from safetensors, since a pickle can run any program",
                got=f"{pickles[0]} in {str(self.path)!r}",
                fix=f'convert it where you trust it: python -c "from {library} import {opener}; '
                f"{opener}.from_pretrained('{self.path}').save_pretrained('converted')\"",
            )
        raise InputError(f"a model's folder must hold {self.weights}", got=f"none in {str(self.path)!r}")


def is_file_name(name: str) -> bool:
    """Of a file in the same folder: no path, and nothing that a system would take for one or could not hold."""
    try:
        short = len(name.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False
    return short and name not in ("", ".", "..") and not any(sign in name for sign in "/\\:\0")


def open_folder(source: str | Path, model_type: str, kind: str) -> Folder:
    """A folder, or a name on the hub, which is downloaded; it must hold a model of `model_type`."""
    path = located(source, kind)
    if not (path / SETTINGS).exists():
        raise InputError(f"a model's folder must hold {SETTINGS}", got=f"none in {str(path)!r}")
    settings = read_json(path / SETTINGS)
    found = settings.get("model_type")
    if found != model_type:
        got = f"{found!r}" if found else "a config.json without model_type"
        raise InputError(f"{kind} is made from a model of type {model_type!r}", got=f"{got} in {str(path)!r}")
    return Folder(path, settings)


def located(source: str | Path, kind: str) -> Path:
    """The folder; of a name on the hub, where it was downloaded to."""
    path = Path(source)
    if path.is_file():
        rule = f"{kind} is made from a whole folder"
        raise InputError(rule, got=f"the file {str(path)!r}", fix=f"give {str(path.parent)!r}")
    return path if path.is_dir() else _downloaded(str(source), kind)


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} must be JSON", got=f"a file that cannot be read ({error})") from error
    if not isinstance(content, dict):
        raise RunError(f"{path} must be JSON with names and values", got=f"a {type(content).__name__}")
    return content


@contextmanager
def well_typed(folder: Path) -> Iterator[None]:
    """What does not fit together where a model is made from a folder's settings is a mistake in them."""
    try:
        yield
    except NeuropilError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        rule = f"{folder / SETTINGS} must hold the settings of a model"
        raise RunError(rule, got=f"one of another type or size ({str(error).partition(chr(10))[0]})") from error


def _downloaded(name: str, kind: str) -> Path:
    rule = f"{kind} is made from a folder, or from owner/name on the Hugging Face hub"
    if not is_hub_name(name):
        raise InputError(rule, got=f"{name!r}, which is no folder here")
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        fix = "to download it: pip install huggingface_hub"
        raise InputError(rule, got=f"{name!r}, which is no folder here", fix=fix) from error
    try:
        return Path(snapshot_download(name, allow_patterns=list(WANTED)))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        got = f"{name!r}, which is no folder here and could not be downloaded ({reason})"
        raise InputError(rule, got=got) from error


def is_hub_name(name: str) -> bool:
    """`owner/name`. Below `runs` or a folder that is here, or ending like a file (not like a version), it is a path
    with a slip in it: nothing is fetched."""
    owner = name.partition("/")[0]
    path = owner == "runs" or Path(owner).is_dir() or Path(name).suffix[1:].isalpha()
    return not path and re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name) is not None


def _stored(path: Path) -> list[Stored]:
    try:
        with safe_open(path, framework="pt") as file:
            found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (a safe_open file is no mapping)
            return [Stored(path, name, tuple(slice.get_shape()), slice.get_dtype()) for name, slice in found.items()]
    except (SafetensorError, OSError) as error:
        raise RunError(f"{path} must be a whole safetensors file", got=f"one that cannot be read ({error})") from error
