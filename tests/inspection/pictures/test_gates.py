"""Maps of gates over tokens."""

import numpy as np
import pytest
import torch

from neuropil.errors import InputError
from neuropil.inspection import pictures


def test_the_map_shows_the_chosen_units_over_the_tokens_that_were_read():
    gates = {"forget": torch.rand(5, 8), "c": 3 * torch.randn(5, 8)}
    rows = {"forget": [(3, "inside quotes"), (0, "")], "c": [(7, "digit")]}
    figure = pictures.gate_maps(gates, list("ab\nc "), rows)
    forget, memory = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert forget.get_title(loc="left") == "forget gate"
    assert memory.get_title(loc="left") == "memory c"
    np.testing.assert_allclose(np.asarray(forget.images[0].get_array()), gates["forget"][:, [3, 0]].T)
    assert [label.get_text() for label in forget.get_yticklabels()] == ["inside quotes  3", "0"]
    assert [label.get_text() for label in memory.get_xticklabels()] == ["a", "b", "⏎", "c", "␣"]
    assert forget.images[0].get_clim() == (0, 1)
    low, high = memory.images[0].get_clim()
    assert -low == high >= float(gates["c"][:, 7].abs().max())


def test_without_a_gate_there_is_no_picture():
    with pytest.raises(InputError) as error:
        pictures.gate_maps({}, [], {})
    assert str(error.value) == "a picture of gates needs a gate and units to show, but got 0 gates."
