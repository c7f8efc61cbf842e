"""What a code keeps, beside scikit-learn's own PCA and errors by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from neuropil.data.examples.dataset import Examples, Schema
from neuropil.data.examples.embedded import load_digits
from neuropil.parts.standardize import UnitRange
from neuropil.tasks.reconstruction.scores import PrincipalComponents, probe_accuracy, squared_errors


@settings(deadline=None, max_examples=10)
@given(st.integers(1, 30))
def test_principal_components_reconstruct_as_those_of_scikit_learn(components: int):
    unit = load_digits().inputs[:200].float() / 255
    theirs = PCA(components).fit(unit.flatten(1).double().numpy())
    expected = theirs.inverse_transform(theirs.transform(unit.flatten(1).double().numpy()))
    ours = PrincipalComponents.fit(unit, components).reconstruct(unit)
    torch.testing.assert_close(ours.flatten(1).double(), torch.from_numpy(expected), atol=1e-5, rtol=0)


def test_more_components_than_numbers_reconstruct_everything():
    unit = torch.rand(50, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(PrincipalComponents.fit(unit, 16).reconstruct(unit), unit)


def test_errors_are_means_over_the_pixels_in_the_unit_range():
    scale = UnitRange((1, 1, 2))
    inputs = torch.tensor([[[[0, 255]]], [[[51, 102]]]], dtype=torch.uint8)
    scale.fit(inputs)
    made = torch.tensor([[[[0.5, 1.0]]], [[[0.2, 0.1]]]])
    assert squared_errors(scale, inputs, made).tolist() == pytest.approx([0.125, 0.045])


def test_codes_that_tell_classes_apart_are_probed_so_and_random_ones_are_not():
    targets = torch.arange(200) % 2
    examples = Examples(torch.zeros(200, 1), targets, Schema(kind="table", shape=(1,), classes=("a", "b")), "made")
    random = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    telling = random + 10 * targets[:, None]
    assert probe_accuracy(telling, examples, telling, examples) == {"probe_accuracy": 1.0}
    assert probe_accuracy(random, examples, random.flip(0), examples)["probe_accuracy"] < 0.65


def test_without_classes_nothing_is_probed():
    examples = Examples(torch.zeros(2, 1), torch.zeros(2).long(), Schema(kind="table", shape=(1,), classes=()), "made")
    assert probe_accuracy(torch.zeros(2, 1), examples, torch.zeros(2, 1), examples) == {}
