import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from neuropil.errors import InputError
from neuropil.parts.standardize import EXAMPLES_AT_ONCE, Standardize, UnitRange
from real_data import diabetes, digits


def test_a_table_is_standardised_as_scikit_learn_does_it():
    _, table, _ = diabetes()
    ours = Standardize((10,)).fit(torch.from_numpy(table))(torch.from_numpy(table))
    np.testing.assert_allclose(ours.numpy(), StandardScaler().fit_transform(table), atol=1e-5)


def test_pictures_are_standardised_per_channel_and_may_stay_bytes():
    images = torch.randint(0, 256, (200, 3, 5, 6), dtype=torch.uint8) // torch.tensor([1, 2, 4])[:, None, None]
    standardize = Standardize((3, 5, 6)).fit(images.to(torch.uint8))
    z = standardize(images.to(torch.uint8))
    assert z.dtype == torch.float32
    torch.testing.assert_close(z.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(z.std((0, 2, 3), correction=0), torch.ones(3))
    torch.testing.assert_close(standardize(images.double()), z)


def test_large_data_is_taken_a_piece_at_a_time_without_a_difference():
    digit_images = torch.from_numpy(digits()[0])[:, None]
    many = digit_images.repeat(3, 1, 1, 1)
    assert len(many) > EXAMPLES_AT_ONCE
    standardize = Standardize((1, 8, 8)).fit(many)
    torch.testing.assert_close(standardize.mean.item(), digit_images.double().mean().item(), rtol=1e-6, atol=0)
    torch.testing.assert_close(
        standardize.std.item(), digit_images.double().std(correction=0).item(), rtol=1e-6, atol=0
    )


def test_a_constant_feature_becomes_zero():
    table = torch.tensor([[0.1, 1.0], [0.1, 2.0], [0.1, 3.0]])
    standardize = Standardize((2,)).fit(table)
    assert standardize.std[0] == 1
    torch.testing.assert_close(standardize(table)[:, 0], torch.zeros(3))


@settings(deadline=None, max_examples=30)
@given(st.floats(-1e4, 1e4), st.floats(1e-2, 1e4))
def test_inverse_undoes_forward(mean: float, std: float):
    standardize = Standardize((1,)).fit(torch.tensor([[mean - std], [mean + std]], dtype=torch.double)).double()
    x = torch.linspace(-1e4, 1e4, 9, dtype=torch.double)[:, None]
    torch.testing.assert_close(standardize.inverse(standardize(x)), x)


def test_before_fit_nothing_is_changed():
    x = torch.randn(3, 4)
    assert torch.equal(Standardize((4,))(x), x)


def test_it_follows_the_precision_of_the_model():
    assert Standardize((4,)).double()(torch.zeros(2, 4)).dtype == torch.double
    assert Standardize((4,)).bfloat16()(torch.zeros(2, 4, dtype=torch.uint8)).dtype == torch.bfloat16


def test_inputs_of_another_shape_are_refused():
    with pytest.raises(InputError) as error:
        Standardize((1, 8, 8))(torch.zeros(2, 8, 8))
    assert (
        str(error.value)
        == "inputs must have the shape [batch, 1, 8, 8] that the model was made for, but got [2, 8, 8]."
    )
    with pytest.raises(InputError, match="inputs must have the shape"):
        Standardize((4,)).fit(torch.zeros(4, 8))  # which four features of eight could be taken for
    with pytest.raises(InputError) as error:
        Standardize((4,)).fit(torch.zeros(0, 4))
    assert str(error.value) == "Standardize.fit needs at least one example, but got none."


def test_bytes_are_pictures_whose_range_is_known_before_any_is_seen():
    images = torch.randint(0, 100, (5, 1, 3, 3), dtype=torch.uint8)
    u = UnitRange((1, 3, 3)).fit(images)(images)
    torch.testing.assert_close(u, images.float() / 255)


def test_a_table_is_brought_into_the_unit_range_as_scikit_learn_does_it():
    _, table, _ = diabetes()
    ours = UnitRange((10,)).fit(torch.from_numpy(table))
    np.testing.assert_allclose(
        ours(torch.from_numpy(table)).numpy(), MinMaxScaler().fit_transform(table), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(ours.inverse(ours(torch.from_numpy(table))).numpy(), table, rtol=1e-5, atol=1e-6)


def test_a_constant_feature_becomes_zero_in_the_unit_range():
    unit = UnitRange((2,)).fit(torch.tensor([[3.0, 1.0], [3.0, 2.0]]))
    torch.testing.assert_close(unit(torch.tensor([[3.0, 1.5]])), torch.tensor([[0.0, 0.5]]))


@given(st.floats(-(2.0**126), 2.0**126, width=32), st.sampled_from([torch.float, torch.double]))
def test_any_constant_becomes_zero_in_the_unit_range_and_comes_back(constant: float, dtype: torch.dtype):
    x = torch.full((3, 1), constant, dtype=dtype)
    unit = UnitRange((1,)).fit(x)
    assert torch.equal(unit(x), torch.zeros(3, 1))
    assert torch.equal(unit.inverse(unit(x)), x.float())


def test_numbers_that_differ_by_less_than_single_precision_can_tell_are_constant_in_the_unit_range():
    x = torch.tensor([[1e9], [1e9 + 1]], dtype=torch.double)
    assert torch.equal(UnitRange((1,)).fit(x)(x), torch.zeros(2, 1))


def test_the_unit_range_refuses_inputs_of_another_shape():
    with pytest.raises(InputError) as error:
        UnitRange((1, 8, 8))(torch.zeros(2, 1, 9, 8))
    assert (
        str(error.value)
        == "inputs must have the shape [batch, 1, 8, 8] that the model was made for, but got [2, 1, 9, 8]."
    )
