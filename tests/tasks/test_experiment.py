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


def test_copies_that_leave_nothing_to_score_are_refused_before_a_folder_is_made(tmp_path: Path):
    (tmp_path / "few.csv").write_text("a,y\n" + "1,x\n2,z\n" * 30)
    with pytest.raises(InputError) as caught:
        neuropil.train("mlp", data=tmp_path / "few.csv", target="y", out=tmp_path / "run", show_progress=False)
    assert str(caught.value) == (
        "there must be examples for the training part and others for the test part, but got none for the test part: "
        "give more data; copies of an example are always in one part."
    )
    assert not (tmp_path / "run").exists()
