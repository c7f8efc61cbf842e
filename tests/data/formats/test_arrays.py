import pytest

from neuropil.data.formats.arrays import as_array
from neuropil.errors import InputError


@pytest.mark.parametrize(
    ("values", "got"), [(None, "None"), ([1, None], "a list without numbers"), ({"a": 1}, "a dict without numbers")]
)
def test_what_holds_no_numbers_is_no_array(values: object, got: str):
    with pytest.raises(InputError) as caught:
        as_array(values)
    assert str(caught.value) == f"inputs must be an array, a tensor, pictures or paths of files, but got {got}."
