"""Signs of false safety, on classifiers that were made to show them and on one that has nothing to hide."""

import pytest
import torch
from torch import Tensor

from digit_classifiers import cnn, held_out, mlp
from neuropil.adversarial.classifier import Classifier
from neuropil.adversarial.false_safety import Sign, signs
from neuropil.adversarial.threat_model import ThreatModel
from neuropil.errors import InputError

THREAT = ThreatModel("linf", 0.1)
NAMES = [
    "zero gradients",
    "masked gradients",
    "iterated attack",
    "larger eps",
    "random noise",
    "gradient-free attack",
    "transfer",
]


def of(model: Classifier, surrogate: Classifier | None = None) -> dict[str, Sign]:
    x, y = held_out(60)
    measured = signs(
        model, x, y, THREAT, surrogate=surrogate, steps=10, queries=60, generator=torch.Generator().manual_seed(0)
    )
    assert [sign.name for sign in measured] == NAMES
    return {sign.name: sign for sign in measured}


def rounded(x: Tensor) -> Tensor:
    """A defence by steps, whose derivative is 0 almost everywhere."""
    return cnn()((8 * x).round() / 8)


def backwards(x: Tensor) -> Tensor:
    """Gradients that point downhill, by a straight-through trick."""
    return cnn()(2 * x.detach() - x)


def test_a_plain_network_shows_none():
    found = of(cnn(), surrogate=mlp())
    assert {name: sign.words for name, sign in found.items() if sign.found} == {}
    assert found["zero gradients"].numbers == {"zero": 0, "not finite": 0}
    assert found["iterated attack"].numbers["pgd"] >= found["iterated attack"].numbers["fgsm"]


def test_steps_give_zero_gradients_that_transfer_and_square_see_through():
    found = of(rounded, surrogate=cnn())
    assert found["zero gradients"].numbers["zero"] == 1
    for name in ("zero gradients", "masked gradients", "larger eps", "gradient-free attack", "transfer"):
        assert found[name].found, name
    assert found["zero gradients"].words == (
        "the gradient with respect to the input is exactly zero for 100.0 % of the examples and not finite for 0.0 %: "
        "gradient attacks cannot see them."
    )


def test_gradients_that_point_downhill_are_masked():
    found = of(backwards)
    assert not found["zero gradients"].found
    assert found["masked gradients"].found
    assert found["masked gradients"].numbers["raised"] < 0.1
    assert found["gradient-free attack"].found
    raised = found["masked gradients"].numbers["raised"]
    assert found["masked gradients"].words == (
        f"a step of 0.02 eps along the gradient raises the loss of {100 * raised:.1f} % of the examples: gradients do "
        "not point uphill."
    )


def test_an_attack_that_cannot_run_is_a_sign_with_its_sentence():
    found = of(lambda x: cnn()(x).detach())
    assert found["zero gradients"].found
    assert found["iterated attack"].words == (
        "not measured: a gradient attack needs logits that depend differentiably on the input, but got logits without "
        "a gradient: attack with square, which needs none."
    )
    assert found["iterated attack"].found


def test_without_another_model_transfer_is_not_measured():
    sign = of(cnn())["transfer"]
    assert (sign.found, sign.words, sign.numbers) == (
        False,
        "not measured: no other model was given to attack from.",
        {},
    )


def test_examples_that_are_all_wrong_are_refused():
    x, _ = held_out(20)
    with torch.no_grad():
        wrong = (cnn()(x).argmax(1) + 1) % 10
    with pytest.raises(InputError) as error:
        signs(cnn(), x, wrong, THREAT)
    assert str(error.value) == "signs of false safety need examples that are classified rightly, but got none of 20."
