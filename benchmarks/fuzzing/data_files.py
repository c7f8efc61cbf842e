"""Readers of data: arrays, pictures, tables and texts."""

import gzip
import io
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from benchmarks.fuzzing import mutations
from benchmarks.fuzzing.reader import MB, Read, Reader
from neuropil.data.corpus.files import TextDataConfig, prepare_text
from neuropil.data.examples.files import ClassificationDataConfig, prepare
from neuropil.data.formats.idx import read_idx
from neuropil.data.formats.images import common_shape, read_image_folder, read_picture
from neuropil.data.formats.npz import read_arrays
from neuropil.data.labelled_texts.files import LabelledTextConfig, prepare_labelled_texts
from neuropil.data.pairs.files import PairDataConfig, prepare_pairs
from neuropil.data.series.files import SeriesDataConfig, prepare_series
from neuropil.data.tagged_texts.files import TaggedTextConfig, prepare_tagged_texts
from neuropil.models.spiking.description import load_network
from neuropil.models.spiking.network import SpikingSimulator
from neuropil.pretrained.word_vectors import read_vectors, write_vectors

MILLION = 1_000_000
RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, (12, 4, 5), dtype=np.uint8)
CLASSES = np.arange(12, dtype=np.uint8) % 3


def written(name: str, read: Callable[[Path], Any], **others: bytes) -> Callable[[Path], Read]:
    """A reader of one file of that name; `others` stand beside it."""

    def begin(folder: Path) -> Read:
        path = folder / name
        for other, content in others.items():
            (folder / other.replace("_", "-")).write_bytes(content)

        def read_case(content: bytes) -> Any:
            path.write_bytes(content)
            return read(path)

        return read_case

    return begin


# --- arrays -----------------------------------------------------------------------------------------------------------


def idx_bytes(array: np.ndarray, code: int) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape) + array.tobytes()


def idx_seeds() -> Sequence[bytes]:
    arrays = [(PIXELS, 0x08), (PIXELS[..., None].repeat(3, -1), 0x08), (CLASSES, 0x08), (PIXELS.astype(">f4"), 0x0D)]
    plain = [idx_bytes(array, code) for array, code in arrays]
    return [*plain, *(gzip.compress(each, mtime=0) for each in plain[:2])]


def npz_seeds() -> Sequence[bytes]:
    rows = RANDOM.normal(size=(12, 3))
    bundles: list[dict[str, Any]] = [
        {"x": PIXELS, "y": CLASSES, "classes": np.array(["a", "b", "c"])},
        {"x_train": rows, "y_train": rows[:, 0], "x_test": rows[:4], "y_test": rows[:4, 0]},
        {"images": PIXELS.astype(np.float32) / 255, "labels": np.array(["no", "yes"])[CLASSES % 2]},
        {"data": rows.astype(np.float16), "targets": np.eye(3)[CLASSES]},
    ]
    return [_saved(save, bundle) for bundle in bundles for save in (np.savez, np.savez_compressed)]


def _saved(save: Callable[..., None], bundle: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    save(file, **bundle)
    return file.getvalue()


def _learn(path: Path) -> Any:
    return prepare(ClassificationDataConfig(data=path), seed=0)


# --- pictures ---------------------------------------------------------------------------------------------------------


def image_seeds() -> Sequence[bytes]:
    colour = Image.fromarray(RANDOM.integers(0, 256, (9, 11, 3), dtype=np.uint8))
    grey, alpha, palette = colour.convert("L"), colour.convert("RGBA"), colour.convert("P")
    deep = Image.fromarray(RANDOM.integers(0, 65_536, (9, 11), dtype=np.uint16))
    fractions = Image.fromarray(RANDOM.random((9, 11), dtype=np.float32))
    turned = Image.Exif()
    turned[0x0112] = 6
    several = {"save_all": True, "append_images": [grey.convert("RGB")]}
    kinds: list[tuple[Image.Image, str, dict[str, Any]]] = [
        *((image, "PNG", {}) for image in (colour, grey, alpha, palette, deep, colour.convert("1"))),
        (palette, "PNG", {"transparency": 3}),
        (colour, "JPEG", {"exif": turned}),
        (grey, "JPEG", {}),
        (colour.convert("CMYK"), "JPEG", {"progressive": True}),
        (colour, "BMP", {}),
        (palette, "BMP", {}),
        (colour, "GIF", several),
        (colour, "WEBP", {"lossless": True}),
        (alpha, "WEBP", {"quality": 10}),
        (colour, "WEBP", several),
        *((colour, "TIFF", {"compression": name}) for name in (None, "tiff_lzw", "tiff_deflate", "jpeg", "packbits")),
        (deep, "TIFF", {}),
        (fractions, "TIFF", several | {"append_images": [fractions]}),
        (colour.convert("1"), "TIFF", {"compression": "group4"}),
        (colour, "PPM", {}),
        (grey, "PPM", {}),
        (deep, "PPM", {}),
    ]
    text = b"P3\n2 2\n255\n0 0 0 1 2 3 255 255 255 9 9 9\n"
    return [*(_encoded(*kind) for kind in kinds), text]


def _encoded(image: Image.Image, kind: str, options: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def read_one_picture(path: Path) -> Any:
    shape, _ = common_shape([path])
    return read_picture(path, shape)


def picture_folder(folder: Path) -> Read:
    """A picture beside one of another class."""
    for name in ("a", "b"):
        (folder / name).mkdir()
        Image.new("L", (3, 3)).save(folder / name / "whole.png")

    def read(content: bytes) -> Any:
        (folder / "a" / "case.png").write_bytes(content)
        return read_image_folder(folder)

    return read


# --- vectors, tables, texts, networks ---------------------------------------------------------------------------------


def vector_seeds(kind: Any) -> Callable[[], Sequence[bytes]]:
    def seeds() -> Sequence[bytes]:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path, packed = Path(folder, "vectors"), Path(folder, "vectors.gz")
            words = ["the", "naïve", "日本", "x" * 20, "a"]
            for each in (path, packed):
                write_vectors(each, words, torch.arange(20.0).reshape(5, 4) / 7, kind)
            whole = path.read_bytes()
            lines = [whole] if kind != "word2vec-binary" else [whole, whole[:4] + _with_line_ends(whole[4:])]
            return [*lines, packed.read_bytes()]

    return seeds


def _with_line_ends(records: bytes) -> bytes:
    """As word2vec.c writes them: a line feed after each vector."""
    place, found = 0, b""
    while place < len(records):
        end = records.index(b" ", place) + 17
        found, place = found + records[place:end] + b"\n", end
    return found


TABLE = (
    "date,size;cm,colour,when,weight,price\n"
    + "".join(
        f"2024-01-{day:02},{day * 1.5},{'red' if day % 2 else 'blue'},,{day % 4},{day * 3}\n" for day in range(1, 25)
    )
).encode()
SERIES = (
    "month,store,value\n" + "".join(f"2020-{m:02}-01,{s},{m * 7 % 5}\n" for s in "ab" for m in range(1, 13))
).encode()
TEXTS = ("text\tlabel\n" + "".join(f"it was {word} indeed\t{word}\n" for word in ("good", "bad") * 8)).encode()
PAIRS = ("en\tde\n" + "".join(f"{n} apples\t{n} Äpfel\n" for n in range(20))).encode()
TAGS = ("the\tDET\ndog\tNOUN\n\n" * 12).encode()
OBJECTS = "".join(f'{{"translation": {{"en": "{n} apples", "de": "{n} \\u00c4pfel"}}}}\n' for n in range(20)).encode()
SHARD = "".join(f'{{"text": "{n} apples, and more of them", "number": {n}}}\n' for n in range(40)).encode()
NETWORK = Path(__file__).parents[2] / "src/neuropil/data/networks/embedded.toml"


def parquet_seeds() -> Sequence[bytes]:
    import pyarrow
    from pyarrow import parquet

    found = []
    for packing in ("none", "snappy", "zstd"):
        file = io.BytesIO()
        table = pyarrow.table({"text": ["it was good indeed"] * 30, "number": list(range(30))})
        parquet.write_table(table, file, compression=packing, row_group_size=10)
        found.append(file.getvalue())
    return found


def read_table(path: Path) -> Any:
    return prepare(ClassificationDataConfig(data=path, target="price"), seed=0)


def read_time_series(path: Path) -> Any:
    return prepare_series(SeriesDataConfig(data=path, horizon=2, window=3))


def read_network_file(path: Path) -> Any:
    network = load_network(path)
    SpikingSimulator.require(network, 0.1, 1.0)
    return network


text, table = mutations.packed(mutations.any_text), "table"
DATA_READERS = (
    Reader(
        "idx",
        "IDX images, their labels beside them",
        mutations.packed(mutations.any_bytes),
        idx_seeds,
        written("train-images-idx3-ubyte", read_idx, train_labels_idx1_ubyte=idx_bytes(CLASSES, 0x08)),
        written("train-images-idx3-ubyte", _learn, train_labels_idx1_ubyte=idx_bytes(CLASSES, 0x08)),
        cases=MILLION,
    ),
    Reader(
        "npz",
        "NPZ bundles of arrays",
        mutations.in_zip(mutations.npy),
        npz_seeds,
        written("arrays.npz", read_arrays),
        written("arrays.npz", _learn),
        cases=MILLION,
    ),
    Reader(
        "images",
        "PNG, JPEG, BMP, GIF, WebP, TIFF, PPM",
        mutations.picture,
        image_seeds,
        written("picture.png", read_one_picture),
        picture_folder,
        each=64,
        cases=MILLION,
        bound=1_400 * MB,
    ),
    Reader(
        "word2vec-binary",
        "word2vec's binary files",
        mutations.packed(mutations.any_bytes),
        vector_seeds("word2vec-binary"),
        written("vectors.bin", read_vectors),
        cases=MILLION,
    ),
    Reader("word2vec", "word2vec's text files", text, vector_seeds("word2vec"), written("vectors.vec", read_vectors)),
    Reader("glove", "GloVe's text files", text, vector_seeds("glove"), written("vectors.txt", read_vectors)),
    Reader(
        "csv",
        "tables of examples",
        text,
        lambda: [TABLE, gzip.compress(TABLE, mtime=0)],
        written("table.csv", read_table),
        cases=20_000,
    ),
    Reader(
        "series", "tables of time series", text, lambda: [SERIES], written("series.csv", read_time_series), cases=3_000
    ),
    Reader(
        "labelled-texts",
        "TSV of texts and labels",
        text,
        lambda: [TEXTS],
        written("texts.tsv", lambda path: prepare_labelled_texts(LabelledTextConfig(data=path), 0)),
    ),
    Reader(
        "pairs",
        "TSV of sentence pairs",
        text,
        lambda: [PAIRS],
        written("pairs.tsv", lambda path: prepare_pairs(PairDataConfig(data=(path,)), 0)),
    ),
    Reader(
        "jsonl",
        "JSON Lines of sentence pairs",
        text,
        lambda: [OBJECTS],
        written("pairs.jsonl", lambda path: prepare_pairs(PairDataConfig(data=(path,)), 0)),
    ),
    Reader(
        "tags",
        "tokens and tags",
        text,
        lambda: [TAGS],
        written("tags.txt", lambda path: prepare_tagged_texts(TaggedTextConfig(data=path), 0)),
    ),
    Reader(
        "text",
        "plain text",
        text,
        lambda: [TEXTS * 20],
        written("text.txt", lambda path: prepare_text(TextDataConfig(data=(path,)))),
    ),
    Reader(
        "text-shards",
        "JSON Lines of texts",
        text,
        lambda: [SHARD],
        written("texts.jsonl", lambda path: prepare_text(TextDataConfig(data=(path,)))),
    ),
    Reader(
        "parquet",
        "Parquet of texts",
        mutations.any_bytes,
        parquet_seeds,
        written("texts.parquet", lambda path: prepare_text(TextDataConfig(data=(path,)))),
        cases=MILLION,
        # Arrow asks for what a page states before it reads any of it: its bytes, at most 2.1 GB, and 16 bytes for each
        # text of a dictionary. A dictionary of more texts than bytes is refused, and so is what is not free, which is 8
        # times the bound here.
        bound=300 * MB,
    ),
    Reader(
        "network",
        "spiking networks in TOML",
        mutations.any_text,
        lambda: [NETWORK.read_bytes()],
        written("network.toml", read_network_file),
    ),
)
