import pytest

from neuropil.errors import InputError
from neuropil.training.config import TrainingConfig, pick_device, require_validation


def test_early_stopping_without_validation_is_refused():
    with pytest.raises(InputError) as caught:
        require_validation(TrainingConfig(patience=2), [])
    assert str(caught.value) == (
        "early stopping (--patience) needs a validation part, but got one without examples: "
        "give --validation 0.1, or leave --patience out."
    )
    require_validation(TrainingConfig(), [])
    require_validation(TrainingConfig(patience=2), [1])


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(InputError) as error:
        pick_device("cuda:7")
    assert str(error.value) == "device must be one that this machine has, but got 'cuda:7': use auto or cpu."
