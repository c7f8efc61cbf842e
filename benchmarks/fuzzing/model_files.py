"""Readers of models: weights, checkpoints, settings and tokenizers, of runs and of Hugging Face's folders."""

import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save
from torch import Tensor, nn

import neuropil
from benchmarks.fuzzing import mutations
from benchmarks.fuzzing.data_files import MILLION, written
from benchmarks.fuzzing.reader import Read, Reader
from neuropil.data.tokenizers.learned import Tokenizer, learn_clip_vocabulary, learn_merges, learn_word_pieces
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.models.bert import BERTConfig, MaskedBERT
from neuropil.models.clip import CLIP, CLIPConfig, TextTowerConfig, VisionTowerConfig
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.pretrained.folders import Folder
from neuropil.protocols import Batch, Phase
from neuropil.runs.archive import unpacked
from neuropil.runs.listing import curves, list_run
from neuropil.runs.start import train
from neuropil.training.config import TrainingConfig
from neuropil.training.loop import fit
from neuropil.training.weights import load_model, read_tensors, write_tensors

TEXT = "the quick brown fox jumps over the lazy dog " * 4
SIZES: dict[str, Any] = {"width": 8, "heads": 2, "layers": 1, "feed_forward": 8, "context": 12}


def tiny_linear() -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(3, 2)


def safetensors_seeds() -> Sequence[bytes]:
    tensors = {name: tensor.detach() for name, tensor in tiny_linear().state_dict().items()}
    kinds = {f"as.{kind}": torch.arange(4).to(kind) for kind in (torch.bfloat16, torch.int8, torch.bool, torch.float64)}
    return [save(tensors), save(tensors, {"neuropil": '{"format": 2, "state": {"step": 3}}'}), save(kinds), save({})]


def read_weights(path: Path) -> Any:
    """As a folder of Hugging Face's, tensor after tensor, and as a run's weights."""
    found = [tensor.mapped().shape for tensor in Folder(path.parent, {}).tensors().values()]
    return load_model(path, tiny_linear()), found


class LineLearner:
    """The smallest that the loop trains."""

    def __init__(self) -> None:
        self.model = tiny_linear()

    def phases(self) -> list[Phase]:
        return [Phase("fit", dict(self.model.named_parameters()), self.loss)]

    def loss(self, batch: Batch) -> Tensor:
        return F.mse_loss(self.model(batch["input"]), batch["target"])

    def metrics(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": F.mse_loss(self.model(batch["input"]), batch["target"], reduction="none").mean(-1)}


class LineBatches:
    def __len__(self) -> int:
        return 2

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        for _ in range(start, len(self)):
            yield {"input": torch.ones(4, 3), "target": torch.zeros(4, 2)}


def trained_line(folder: Path) -> Any:
    config = TrainingConfig(epochs=2, average=0.9, checkpoint_seconds=0)
    return fit(LineLearner(), LineBatches(), LineBatches(), config, seed=0, folder=folder, show_progress=False)


def checkpoint_seeds() -> Sequence[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        trained_line(Path(folder))
        path = Path(folder, "checkpoint.safetensors")
        finished = path.read_bytes()
        tensors, facts = read_tensors(path)
        facts["state"] |= {"finished": False, "step": 2, "epoch": 1}
        write_tensors(path, tensors, facts)
        return [finished, path.read_bytes()]


def resumed(folder: Path) -> Read:
    trained_line(folder)
    weights = (folder / "model.safetensors").read_bytes()

    def read(content: bytes) -> Any:
        (folder / "metrics.jsonl").unlink(missing_ok=True)
        (folder / "model.safetensors").write_bytes(weights)
        (folder / "checkpoint.safetensors").write_bytes(content)
        return len(trained_line(folder))

    return read


# --- folders of Hugging Face's ----------------------------------------------------------------------------------------


@cache
def tokenizer_of(family: str) -> PublishedTokenizer:
    if family == "gpt2":
        return learn_merges([TEXT], 262)
    return learn_word_pieces([TEXT], 60) if family == "bert" else learn_clip_vocabulary([TEXT], 520)


def write_folder(family: str, folder: Path) -> None:
    tokenizer = tokenizer_of(family)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        models: dict[str, Callable[[], Any]] = {
            "gpt2": lambda: GPT2(GPT2Config(**SIZES, vocabulary_size=len(tokenizer))),
            "bert": lambda: MaskedBERT(BERTConfig(**SIZES, vocabulary_size=len(tokenizer), pooler=False)),
            "clip": lambda: _clip(len(tokenizer)),
        }
        models[family]().save_pretrained(folder)
    tokenizer.save(folder)


def _clip(vocabulary_size: int) -> CLIP:
    sizes = {name: size for name, size in SIZES.items() if name != "context"}
    vision = VisionTowerConfig(**sizes, patch=4, shape=(3, 8, 8))
    text = TextTowerConfig(**SIZES, vocabulary_size=vocabulary_size, end=vocabulary_size - 1)
    return CLIP(CLIPConfig(embedding_size=6, vision=vision, text=text))


FAMILIES = ("gpt2", "bert", "clip")


def folder_file(name: str, read: Callable[[Path], Any]) -> tuple[Callable[[], Sequence[bytes]], Callable[[Path], Read]]:
    """Cases are a file of that name in a folder of a family, which their first line names."""

    def seeds() -> Sequence[bytes]:
        found = []
        for family in FAMILIES:
            with tempfile.TemporaryDirectory() as folder:
                write_folder(family, Path(folder))
                found.append(f"{family}\n".encode() + Path(folder, name).read_bytes())
        return found

    def begin(folder: Path) -> Read:
        for family in FAMILIES:
            write_folder(family, folder / family)

        def read_case(content: bytes) -> Any:
            family, _, rest = content.partition(b"\n")
            chosen = folder / (family.decode() if family.decode("utf-8", "replace") in FAMILIES else FAMILIES[0])
            (chosen / name).write_bytes(rest)
            return read(chosen)

        return read_case

    return seeds, begin


def read_tokenizer(folder: Path) -> Any:
    tokenizer = PublishedTokenizer.load(folder)
    ids = tokenizer.encode([TEXT, "", "[MASK] <|endoftext|> é"], special=True, longest=20)
    return [(tokenizer.decode(each), tokenizer.tokens(each)) for each in ids], len(tokenizer), tokenizer.padding


def own_tokenizer_seeds() -> Sequence[bytes]:
    found = []
    for kind in ("bpe", "characters", "words"):
        with tempfile.TemporaryDirectory() as folder:
            Tokenizer.train([TEXT], kind, 270).save(Path(folder, "tokenizer.json"))
            found.append(Path(folder, "tokenizer.json").read_bytes())
    return found


def read_own_tokenizer(path: Path) -> Any:
    tokenizer = Tokenizer.load(path)
    ids = tokenizer.encode([TEXT, "", "é<end>"])
    return [(tokenizer.decode(each), tokenizer.tokens(each)) for each in ids]


INDEX = "model.safetensors.index.json"


def index_seeds() -> Sequence[bytes]:
    names = tiny_linear().state_dict()
    return [json.dumps({"metadata": {}, "weight_map": {name: f"{name}.safetensors" for name in names}}).encode()]


def indexed(folder: Path) -> Read:
    for name, tensor in tiny_linear().state_dict().items():
        (folder / f"{name}.safetensors").write_bytes(save({name: tensor}))

    def read(content: bytes) -> Any:
        (folder / INDEX).write_bytes(content)
        return [tensor.mapped().shape for tensor in Folder(folder, {}).tensors().values()]

    return read


# --- runs -------------------------------------------------------------------------------------------------------------


@cache
def small_run() -> Path:
    """Trained once; it stays until the process ends."""
    folder = Path(tempfile.mkdtemp()) / "mlp"
    train("mlp", updates=2, hidden_sizes=(4,), out=folder, show_progress=False, report=False)
    return folder


def run_file(name: str, read: Callable[[Path], Any]) -> tuple[Callable[[], Sequence[bytes]], Callable[[Path], Read]]:
    def begin(folder: Path) -> Read:
        shutil.copytree(small_run(), folder / "run")

        def read_case(content: bytes) -> Any:
            (folder / "run" / name).write_bytes(content)
            return read(folder / "run")

        return read_case

    return lambda: [(small_run() / name).read_bytes()], begin


def open_run(folder: Path) -> Any:
    list_run(folder)
    run = neuropil.load(folder)
    return type(run.predictor), run.resume_command


def read_metrics(folder: Path) -> Any:
    run = neuropil.load(folder)
    return len(run.results), len(curves(folder)), list_run(folder).state, run.progress


def archive_seeds() -> Sequence[bytes]:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("config.json", "metrics.jsonl"):
            archive.write(small_run() / name, f"mlp/{name}")
    return [file.getvalue()]


def unpacked_run(folder: Path) -> Read:
    """Nothing may be written beside the folder of the archive."""

    def read(content: bytes) -> Any:
        shutil.rmtree(folder / "inner", ignore_errors=True)
        (folder / "inner").mkdir()
        path = folder / "inner" / "run.zip"
        path.write_bytes(content)
        try:
            return neuropil.load(unpacked(path)).name
        finally:
            beside = [each.name for each in (*folder.iterdir(), *path.parent.iterdir())]
            if set(beside) - {"inner", "run.zip", "run"}:
                raise AssertionError(f"an archive left {beside}")

    return read


settings = mutations.below_first_line(mutations.any_json)
MODEL_READERS = (
    Reader(
        "safetensors",
        "weights of runs and folders",
        mutations.safetensors,
        safetensors_seeds,
        written("model.safetensors", read_weights),
        cases=MILLION,
    ),
    Reader("checkpoint", "checkpoints, gone on from", mutations.safetensors, checkpoint_seeds, resumed, cases=30_000),
    Reader(
        "config", "config.json of Hugging Face's", settings, *folder_file("config.json", neuropil.open), cases=10_000
    ),
    Reader("index", f"{INDEX} of Hugging Face's", mutations.any_json, index_seeds, indexed),
    Reader(
        "tokenizer",
        "tokenizer.json of Hugging Face's",
        settings,
        *folder_file("tokenizer.json", read_tokenizer),
    ),
    Reader(
        "tokenizer-config",
        "tokenizer_config.json of Hugging Face's",
        settings,
        *folder_file("tokenizer_config.json", read_tokenizer),
    ),
    Reader(
        "own-tokenizer",
        "tokenizer.json of runs",
        mutations.any_json,
        own_tokenizer_seeds,
        written("tokenizer.json", read_own_tokenizer),
    ),
    Reader("run", "config.json of runs", mutations.any_json, *run_file("config.json", open_run), cases=50_000),
    Reader(
        "metrics", "metrics.jsonl of runs", mutations.any_text, *run_file("metrics.jsonl", read_metrics), cases=50_000
    ),
    Reader("archive", "runs as .zip", mutations.in_zip(mutations.any_json), archive_seeds, unpacked_run, cases=50_000),
)
