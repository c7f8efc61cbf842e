import numpy as np

from neuropil.data.messages import describe_array, describe_inputs, did_you_mean, listed


def test_the_nearest_name_is_found_whatever_its_case():
    assert did_you_mean("sise", ["Prices", "Size"]) == "did you mean 'Size'?"
    assert did_you_mean("xyz", ["Prices", "Size"]) is None


def test_a_long_list_is_cut_off():
    assert listed(["a", "b"]) == "a, b"
    assert listed([f"c{i}" for i in range(2000)], most=2) == "c0, c1 and 1,998 more"


def test_arrays_and_inputs_are_put_in_words():
    assert describe_array(np.zeros((2, 3), dtype=np.int16)) == "2×3 values of type int16"
    assert [describe_inputs(shape) for shape in ((13,), (1, 8, 9), (3, 8, 9), (4, 8, 9))] == [
        "rows of 13 features",
        "grey images of 8×9",
        "colour images of 8×9",
        "4-channel images of 8×9",
    ]
