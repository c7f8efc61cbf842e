"""Losses of attacks, beside what their definitions say of single examples."""

import pytest
import torch

from neuropil.adversarial.losses import (
    difference_of_logits_ratio,
    margin,
    require_classes,
    targeted_difference_of_logits_ratio,
    tempered_cross_entropy,
)
from neuropil.errors import InputError

LOGITS = torch.tensor([[4.0, 1.0, 3.0, 0.0], [4.0, 1.0, 3.0, 0.0]])
CLASSES = torch.tensor([0, 1])


def test_margin_is_above_zero_where_the_class_is_wrong():
    assert margin(LOGITS, CLASSES).tolist() == [-1, 3]


def test_difference_of_logits_ratio_by_hand():
    # (3 − 4) / (4 − 1)  and  (4 − 1) / (4 − 1)
    assert difference_of_logits_ratio(LOGITS, CLASSES).tolist() == pytest.approx([-1 / 3, 1])
    # (z_t − z_y) / (4 − (1 + 0) / 2)
    target = torch.tensor([3, 2])
    found = targeted_difference_of_logits_ratio(LOGITS, CLASSES, target)
    assert found.tolist() == pytest.approx([-4 / 3.5, 2 / 3.5])


def test_difference_of_logits_ratio_does_not_change_with_shift_and_scale():
    logits, y = torch.randn(50, 10, generator=torch.Generator().manual_seed(0)).double(), torch.arange(50) % 10
    for ratio in (
        difference_of_logits_ratio,
        lambda z, y: targeted_difference_of_logits_ratio(z, y, (y + 1) % 10),
    ):
        assert torch.allclose(ratio(100 * logits - 7, y), ratio(logits, y))


@pytest.mark.parametrize("classes", [2, 3])
def test_few_classes_have_ratios_too(classes: int):
    logits, y = torch.tensor([[2.0, 1.0, -1.0][:classes]]), torch.tensor([0])
    expected = -1.0 if classes == 2 else -1 / 3
    assert difference_of_logits_ratio(logits, y).item() == pytest.approx(expected)
    assert targeted_difference_of_logits_ratio(logits, y, torch.tensor([1])).item() == pytest.approx(expected)


def test_tempered_cross_entropy_has_a_gradient_where_cross_entropy_has_none():
    logits = torch.tensor([[900.0, 0.0, 1.0]], requires_grad=True)
    y = torch.tensor([0])
    assert torch.autograd.grad(torch.nn.functional.cross_entropy(logits, y), logits)[0].abs().max() == 0
    assert torch.autograd.grad(tempered_cross_entropy(logits, y).sum(), logits)[0].abs().max() > 1e-8
    small = torch.tensor([[2.0, 0.0, 1.0]])
    assert torch.equal(tempered_cross_entropy(small, y), torch.nn.functional.cross_entropy(small, y, reduction="none"))


def test_labels_without_a_logit_are_refused():
    with pytest.raises(InputError) as error:
        require_classes(LOGITS, torch.tensor([0, 4]), None)
    assert str(error.value) == "labels and target must be classes from 0 to 3, one for each logit, but got 4."
    with pytest.raises(InputError) as error:
        require_classes(LOGITS, CLASSES, 9)
    assert str(error.value) == "labels and target must be classes from 0 to 3, one for each logit, but got 9."
    with pytest.raises(InputError) as error:
        require_classes(LOGITS[:, :1], CLASSES, None)
    assert str(error.value) == (
        "a classifier must answer 2 inputs with 2 rows of at least two logits, but got the shape [2, 1]."
    )
