import pytest

from neuropil.errors import InputError
from neuropil.lab.bounds import require_length


def test_what_is_too_long_or_too_short_is_refused():
    require_length("text", "four", 4, fewest=4)
    with pytest.raises(InputError) as refused:
        require_length("text", "four!", 4)
    assert str(refused.value) == "text must have at most 4 characters, but got 5."
    with pytest.raises(InputError) as refused:
        require_length("words", ("one",), 4, fewest=2)
    assert str(refused.value) == "words must have at least 2 entries, but got 1."
