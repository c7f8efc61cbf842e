from pathlib import Path

import pytest
import torch

import neuropil
from neuropil.errors import InputError
from neuropil.tasks.experiment import fingerprint


def test_the_fingerprint_changes_with_any_number():
    tensors = [torch.arange(4), torch.rand(2, 3)]
    before = fingerprint(tensors)
    assert before == fingerprint([tensor.clone() for tensor in tensors])
    assert len(before) == 16
    changed = tensors[1].clone()
    changed[1, 2] += 1
    assert len({before, fingerprint([tensors[0], changed]), fingerprint(tensors[::-1])}) == 3


def test_the_fingerprint_of_a_view_is_read_in_its_own_order():
    table = torch.arange(6).reshape(2, 3)
    assert fingerprint([table.T]) == fingerprint([table.T.contiguous()]) != fingerprint([table])


def test_early_stopping_without_a_validation_part_is_refused_before_a_folder_is_made(tmp_path: Path):
    with pytest.raises(InputError, match="needs a validation part"):
        neuropil.train("mlp", out=tmp_path / "run", validation=0.0, patience=2, show_progress=False)
    assert not (tmp_path / "run").exists()
