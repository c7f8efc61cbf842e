import torch

from neuropil.tasks.fingerprint import fingerprint


def test_any_number_and_any_letter_changes_it():
    tensors = [torch.arange(4), torch.rand(2, 3)]
    before = fingerprint(tensors, "a")
    assert before == fingerprint([tensor.clone() for tensor in tensors], "a")
    assert len(before) == 16
    changed = tensors[1].clone()
    changed[1, 2] += 1
    assert (
        len(
            {
                before,
                fingerprint([tensors[0], changed], "a"),
                fingerprint(tensors, "b"),
                fingerprint(tensors[::-1], "a"),
            }
        )
        == 4
    )


def test_a_view_is_read_in_its_own_order():
    table = torch.arange(6).reshape(2, 3)
    assert fingerprint([table.T]) == fingerprint([table.T.contiguous()]) != fingerprint([table])
