"""Texts coloured by numbers."""

import re

import pytest
import torch

from neuropil.errors import InputError
from neuropil.inspection.report.coloured_text import BLUE, RED, coloured_text


def spans(markup: str) -> list[tuple[str, float, str]]:
    return [
        (colour, float(share), text)
        for colour, share, text in re.findall(
            r"rgba\((\d+, \d+, \d+),([\d.]+)\)\" title=\"[^\"]*\">(.*?)</span>", markup, flags=re.DOTALL
        )
    ]


def test_colour_grows_with_the_value_up_to_the_highest():
    assert spans(coloured_text(["a", "b", "c"], torch.tensor([0.0, 4.0, 20.0]), high=8)) == [
        (RED, 0, "a"),
        (RED, 0.5, "b"),
        (RED, 1, "c"),
    ]


def test_below_zero_is_blue_where_there_is_a_below():
    assert spans(coloured_text(["a", "b"], torch.tensor([-0.5, 0.25]), low=-1)) == [(BLUE, 0.5, "a"), (RED, 0.25, "b")]


def test_a_users_text_is_only_text():
    markup = coloured_text(["<script>", "\n", '"'], torch.zeros(3))
    assert "<script>" not in markup
    assert [text for _, _, text in spans(markup)] == ["&lt;script&gt;", "⏎\n", "&quot;"]


def test_every_token_needs_its_number():
    with pytest.raises(InputError) as error:
        coloured_text(["a"], torch.zeros(2))
    assert str(error.value) == "a coloured text needs a number for each token, but got 2 for 1 tokens."
