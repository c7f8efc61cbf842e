"""Tokens in a file are read as a tensor of them would be."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from neuropil.data.corpus import token_file
from neuropil.data.corpus.token_file import TokenFile, count_tokens, write_tokens


def stored(folder: Path, tokens: torch.Tensor, vocabulary: int) -> TokenFile:
    rows = [row.numpy() for row in tokens.split(7)]
    write_tokens(folder / "tokens", rows, vocabulary)
    return TokenFile(folder / "tokens", vocabulary, "known by this")


@pytest.mark.parametrize(("vocabulary", "num_bytes"), [(2**16, 2), (2**16 + 1, 4)])
def test_a_file_holds_two_bytes_a_token_where_these_are_enough(tmp_path: Path, vocabulary: int, num_bytes: int):
    tokens = torch.tensor([0, 5, vocabulary - 1, 7] * 25, dtype=torch.int32)
    found = stored(tmp_path, tokens, vocabulary)
    assert (tmp_path / "tokens").stat().st_size == num_bytes * len(tokens)
    assert len(found) == len(tokens)
    assert torch.equal(found[:], tokens)
    assert found[:].dtype == torch.int32


@given(begin=st.integers(-120, 120), end=st.integers(-120, 120))
def test_slices_are_those_of_a_tensor(tmp_path_factory: pytest.TempPathFactory, begin: int, end: int):
    tokens = torch.arange(100, dtype=torch.int32)
    found = stored(tmp_path_factory.mktemp("tokens"), tokens, 100)
    assert torch.equal(found[begin:end], tokens[begin:end])
    assert torch.equal(found[begin:], tokens[begin:])


def test_what_is_read_stays_right_when_pages_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(token_file, "READS_BETWEEN_RELEASES", 3)
    monkeypatch.setattr(token_file, "TOKENS_AT_ONCE", 1_000)
    tokens = torch.randint(0, 50_000, (10_000,), dtype=torch.int32)
    found = stored(tmp_path, tokens, 50_000)
    pieces = [found[begin : begin + 64] for begin in range(0, 10_000, 64)]
    assert torch.equal(torch.cat(pieces), tokens)
    assert torch.equal(torch.cat([*found.blocks()]), tokens)
    assert torch.equal(count_tokens(found, 50_000), count_tokens(tokens, 50_000))


def test_a_file_of_no_tokens_is_empty(tmp_path: Path):
    found = stored(tmp_path, torch.empty(0, dtype=torch.int32), 10)
    assert len(found) == 0
    assert found[:].tolist() == []


def test_what_fails_while_tokens_are_written_leaves_no_file(tmp_path: Path):
    def rows():
        yield np.arange(5, dtype=np.int32)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_tokens(tmp_path / "tokens", rows(), 10)
    assert [*tmp_path.iterdir()] == []
