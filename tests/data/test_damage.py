"""Whatever happens to a file on its way, it is read or refused with one sentence."""

import contextlib
import gzip
import io
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from data.written_files import idx_bytes, noise
from neuropil.data.examples.dataset import Schema
from neuropil.data.examples.files import DataConfig, prepare, read_inputs
from neuropil.errors import InputError

SCHEMA = Schema(kind="image", shape=(1, 6, 6), classes=("a", "b"))


def saved(write) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def picture(kind: str) -> bytes:
    return saved(lambda buffer: Image.fromarray(noise(6, 6, 3)).save(buffer, kind))


TABLE = 'x,colour,y\n1,red,0\n2,"blue",1\n3.5,red,0\n4,grün,1\n'.encode()
FILES = {
    "a.npz": saved(lambda buffer: np.savez(buffer, x=noise(4, 6, 6), y=np.array([0, 1, 0, 1]))),
    "b.npz": saved(lambda buffer: np.savez_compressed(buffer, x=noise(4, 6, 6), y=np.array([0, 1, 0, 1]))),
    "images-idx3-ubyte": idx_bytes(noise(4, 6, 6)),
    "images-idx3-ubyte.gz": gzip.compress(idx_bytes(noise(4, 6, 6)), mtime=0),
    "a.csv": TABLE,
    "a.csv.gz": gzip.compress(TABLE, mtime=0),
    **{f"a.{kind}": picture(kind) for kind in ("png", "jpeg", "gif", "bmp", "tiff", "webp", "ppm")},
}


def read(path: Path) -> None:
    if "csv" in path.name:
        prepare(DataConfig(data=path, target="y"), 0)
    else:
        read_inputs([path], SCHEMA)


@st.composite
def damage(draw: st.DrawFn, content: bytes) -> bytes:
    """Some bytes changed, some cut off at the end."""
    damaged = bytearray(content)
    for position, value in draw(st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=4)):
        damaged[position] = value
    return bytes(damaged[: draw(st.integers(0, len(content)) | st.just(len(content)))])


@pytest.mark.parametrize("name", FILES)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(name: str, data: st.DataObject):
    content = data.draw(damage(FILES[name]))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a decoder may warn of what it mends
        path = Path(folder) / name
        path.write_bytes(content)
        with contextlib.suppress(InputError):
            read(path)


def test_the_files_are_good_before_they_are_damaged(tmp_path: Path):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    assert len(prepare(DataConfig(data=tmp_path / "a.csv", target="y"), 0).train) == 2
    names = [name for name in FILES if "csv" not in name]
    assert len(read_inputs([tmp_path / name for name in names], SCHEMA)[0]) == 4 * 4 + 7
