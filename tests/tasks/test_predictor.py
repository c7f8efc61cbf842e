import pytest
import torch

from neuropil.errors import InputError
from neuropil.tasks.predictor import Predictions, as_texts


def test_predicted_numbers_have_values_and_no_labels():
    found = Predictions(torch.tensor([[1.5], [2.5]]), ())
    assert found.values.tolist() == [1.5, 2.5]
    with pytest.raises(InputError) as caught:
        _ = found.labels
    assert str(caught.value) == "labels are read of predicted classes, but got predicted numbers: read values."


def test_one_text_or_several_are_texts_and_nothing_else_is():
    assert as_texts("a text") == ["a text"]
    assert as_texts(("a", "b")) == ["a", "b"]
    for inputs, got in ((None, "None"), (["a", 3], "3")):
        with pytest.raises(InputError) as caught:
            as_texts(inputs)
        assert str(caught.value) == f"texts must be a string or a list of strings, but got {got}."
