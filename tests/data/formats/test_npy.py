"""Arrays in files whose header may say anything."""

import io
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from neuropil import memory
from neuropil.data.formats.npy import DamagedArrayError, ObjectArrayError, read_npy
from neuropil.errors import InputError


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def with_header(header: str, values: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values


def read(content: bytes) -> np.ndarray:
    return read_npy(io.BytesIO(content), len(content), "x of a.npz")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(24, dtype=">i4").reshape(2, 3, 4)),
        np.array(["a", "日本"]),
        np.array([b"a", b"bc"]),
        np.zeros((0, 3)),
        np.array(2.5),
    ],
    ids=["rows", "columns first", "text", "bytes", "empty", "one value"],
)
def test_what_numpy_writes_comes_back(array: np.ndarray):
    found = read(npy(array))
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


@pytest.mark.parametrize(
    "content",
    [
        b"",
        npy(np.arange(3))[:-1],
        npy(np.arange(3)) + b"x",
        with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }"),
        with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }"),
        with_header("{'descr': '|V8', 'fortran_order': False, 'shape': (1,), }", b"12345678"),
        with_header("{'descr': '|S0', 'fortran_order': False, 'shape': (9999999999,), }"),
        with_header("(" * 5_000),
        with_header("{'descr': '<f8', 'shape': (" + "1," * 60 + "), 'fortran_order': False}", b"12345678"),
    ],
)
def test_damage_is_found_before_memory_is_asked_for(content: bytes):
    tracemalloc.start()
    with pytest.raises(DamagedArrayError):
        read(content)
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def test_objects_are_not_read():
    with pytest.raises(ObjectArrayError):
        read(npy(np.array([{}, []], dtype=object)))


@pytest.mark.parametrize("code", [0x110000, 0xFFFFFFFF, 0xD800])
def test_text_must_be_of_characters(code: int):
    with pytest.raises(InputError) as error:
        read(npy(np.array(["a"]))[:-4] + struct.pack("<I", code))
    assert str(error.value) == "x of a.npz must hold text, but got numbers that are no characters."


def test_what_does_not_fit_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "meminfo").write_text("MemAvailable: 1 kB\n")
    monkeypatch.setattr(memory, "MACHINE", tmp_path / "meminfo")
    with pytest.raises(InputError) as error:
        read(npy(np.zeros(1_000)))
    sentence = "x of a.npz must fit into memory, but got at least 8 kB, of 1.02 kB free: choose smaller sizes."
    assert str(error.value) == sentence
