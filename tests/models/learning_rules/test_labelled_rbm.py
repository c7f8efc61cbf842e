"""A machine of inputs and classes, beside the restricted Boltzmann machine."""

import torch

from neuropil.models.learning_rules.labelled_rbm import JointContrastiveDivergence, LabelledRBM
from neuropil.models.rbm import ContrastiveDivergence
from real_data import few_digits


def machine() -> tuple[LabelledRBM, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    inputs, targets = few_digits(60)
    return LabelledRBM((1, 8, 8), 10, 20).fit(inputs, targets), inputs, targets


def test_answers_are_the_free_energies_of_the_inputs_with_each_class():
    model, inputs, _ = machine()
    joint = [model.joint(inputs, torch.full((60,), number)) for number in range(10)]
    free = torch.stack([model.rbm.free_energy(v) for v in joint], 1).detach()
    answers = model(inputs).detach()
    torch.testing.assert_close(answers - answers[:, :1], -(free - free[:, :1]), rtol=1e-4, atol=1e-4)


def test_it_learns_by_the_contrastive_divergence_of_inputs_and_classes():
    model, inputs, targets = machine()
    torch.manual_seed(5)
    own = torch.autograd.grad(
        JointContrastiveDivergence(model).loss({"input": inputs, "target": targets}), list(model.parameters())
    )
    torch.manual_seed(5)
    reference = ContrastiveDivergence(model.rbm).loss({"input": model.joint(inputs, targets)})
    for a, b in zip(own, torch.autograd.grad(reference, list(model.rbm.parameters())), strict=True):
        assert torch.equal(a, b)


def test_without_weights_every_unit_is_as_often_on_as_in_the_data():
    model, inputs, targets = machine()
    with torch.no_grad():
        model.rbm.weight.zero_()
    share = model.rbm.visible_mean(torch.zeros(1, 20))[0]
    torch.testing.assert_close(share, model.joint(inputs, targets).mean(0).clamp(0.01, 0.99))


def test_what_the_machine_is_given_is_not_scaled_again():
    model, inputs, targets = machine()
    joint = model.joint(inputs, targets)
    assert torch.equal(model.rbm.encode(joint), joint)
    assert joint[:, :64].max() > 0.9
