import torch

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
