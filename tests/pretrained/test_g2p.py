"""g2p-en's weights as a Seq2Seq: what fits comes back as it was, and what does not is refused. The pronunciations are
in parity/."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from neuropil.errors import InputError
from neuropil.models.seq2seq import Seq2Seq, Seq2SeqConfig
from neuropil.pretrained import g2p
from neuropil.pretrained.g2p import LETTERS, PHONEMES, from_g2p, to_g2p
from neuropil.protocols import END, PADDING, UNKNOWN

CONFIG = Seq2SeqConfig(
    attention="none",
    embedding_size=3,
    hidden_size=4,
    bidirectional=False,
    source_vocabulary_size=len(LETTERS),
    target_vocabulary_size=len(PHONEMES),
)
RULE = "from_g2p reads checkpoint20.npz of the package g2p-en, but got "


def written(folder: Path, **changes: Any) -> Path:
    """A checkpoint of a small model; a change of None leaves an array out."""
    torch.manual_seed(0)
    model = Seq2Seq(CONFIG)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
        model.source.weight[1] = 0  # letters have no start
    arrays = to_g2p(model) | changes
    return save(folder / "checkpoint20.npz", {name: array for name, array in arrays.items() if array is not None})


def save(path: Path, arrays: dict[str, Any]) -> Path:
    np.savez(path, **arrays)
    return path


def test_weights_come_back_from_a_round_trip_bit_for_bit(tmp_path: Path):
    first = to_g2p(from_g2p(written(tmp_path)).model)
    second = to_g2p(from_g2p(save(tmp_path / "again.npz", first)).model)
    assert first.keys() == second.keys() == g2p.THEIRS
    assert all(np.array_equal(array, second[name]) for name, array in first.items())
    assert first["enc_emb"].shape == (29, 3)
    assert first["fc_w"].shape == (74, 4)


def test_two_biases_of_a_gate_become_their_sum(tmp_path: Path):
    b = np.arange(12, dtype=np.float32)
    cell: Any = from_g2p(written(tmp_path, enc_b_ih=b, enc_b_hh=10 * b)).model.encoder.cells[0]
    assert cell.bias.tolist() == [*(11 * b[:8]), *b[8:]]
    assert cell.state_bias.tolist() == [*(10 * b[8:])]


def test_words_are_letters_and_an_end(tmp_path: Path):
    speller = from_g2p(written(tmp_path))
    assert speller.encode(["ab", "ñ"]).tolist() == [[4, 5, END], [UNKNOWN, END, PADDING]]
    assert speller.encode([]).shape == (0, 0)
    assert speller.decode([4, 5]) == ["AA0", "AA1"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fc_b": None}, "a file without 'fc_b'."),
        ({"more": np.zeros(3)}, "a file with 'more'."),
        ({"fc_b": np.zeros(74)}, "a file whose 'fc_b' has 1 axes of float64."),
        ({"enc_w_hh": np.float32(1)}, "a file whose 'enc_w_hh' has 0 axes of float32."),
        (
            {"dec_emb": np.zeros((74, 2), np.float32)},
            "a file whose 'dec_emb' has the shape (74, 2) where (74, 3) would fit the others.",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_other_checkpoints_are_refused(tmp_path: Path, changes: dict[str, Any], message: str):
    with pytest.raises(InputError) as error:
        from_g2p(written(tmp_path, **changes))
    assert str(error.value) == RULE + message


def test_other_files_are_refused_and_nothing_is_unpickled(tmp_path: Path):
    path = tmp_path / "checkpoint20.npz"
    with pytest.raises(InputError) as error:
        from_g2p(path)
    assert str(error.value) == f"{RULE}'{path}', which is no file."
    whole = written(tmp_path).read_bytes()
    for content in (b"", b"not an archive", whole[:200]):
        path.write_bytes(content)
        with pytest.raises(InputError) as error:
            from_g2p(str(path))
        assert (
            str(error.value)
            == "checkpoint20.npz must be a whole NPZ file, but got a damaged or different one: write it with np.savez."
        )
    with pytest.raises(InputError) as error:
        from_g2p(written(tmp_path, fc_b=np.array([{}], dtype=object)))
    assert str(error.value) == (
        "the arrays of checkpoint20.npz must hold numbers or text, "
        "but got Python objects, which could run code when they are read: "
        "give the array a dtype before np.savez."
    )


def test_a_package_that_is_not_installed_is_missed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(g2p.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError) as error:
        from_g2p()
    assert (
        str(error.value) == f"{RULE}no such package installed: pip install --no-deps g2p-en, or give the file's path."
    )


@pytest.mark.parametrize(
    ("options", "different"),
    [
        ({"cell": "lstm"}, "cell='lstm'"),
        ({"attention": "dot"}, "attention='dot'"),
        ({"target_vocabulary_size": 5}, "target_vocabulary_size=5"),
    ],
)
def test_models_of_another_form_are_refused(options: dict[str, Any], different: str):
    with pytest.raises(InputError) as error:
        to_g2p(Seq2Seq(dataclasses.replace(CONFIG, **options)))
    rule = "g2p-en has one layer of GRU in one direction without attention, for its letters and phonemes"
    assert str(error.value) == f"{rule}, but got {different}."
