"""The result of a run in one sentence, made from its numbers."""

import pytest

from neuropil.inspection.report.page import render
from neuropil.runs.overview import margin, overview
from neuropil.tasks.experiment import Result

SETTINGS = {"facts": {}, "environment": {}, "seed": 0, "created": "", "command": ""}


def accuracy(name: str, value: float) -> Result:
    return Result(name, {"accuracy": value})


@pytest.mark.parametrize(
    ("results", "sentence"),
    [
        ([accuracy("cnn", 0.99), accuracy("a", 0.9)], "cnn: accuracy 99.00 %, 9.00 points above a (90.00 %)."),
        ([accuracy("cnn", 0.8), accuracy("a", 0.9)], "cnn: accuracy 80.00 %, 10.00 points BELOW a (90.00 %)."),
        ([accuracy("cnn", 1.0), accuracy("a", 1.0)], "cnn: accuracy 100.00 %, equal to a (100.00 %)."),
        ([Result("lstm", {"loss": 0.5}), Result("a", {"loss": 1.0})], "lstm: loss 0.5, 50.0 % below a (1)."),
        ([Result("lstm", {"loss": 0.5}), Result("a", {"loss": 0.0})], "lstm: loss 0.5, against a (0)."),
        ([Result("x", {"spikes": 9.0}), Result("a", {"spikes": 10.0})], "x: spikes 9, 10 % away from a (10)."),
        (
            [Result("x", {"gradient_kept": 0.9}), Result("a", {"gradient_kept": 1e-9}), Result("b", {"loss": 1.0})],
            "x: gradient kept 0.9, against a (1e-09).",
        ),
        ([Result("x", {"loss": 0.5, "accuracy": 0.25})], "x: loss 0.5, accuracy 25.00 %."),
    ],
)
def test_the_margin_is_one_sentence_whatever_was_measured(results, sentence):
    assert margin(results) == sentence


@pytest.mark.parametrize(("own", "spoken"), [(0.95, ">good: <"), (0.85, ">poor: <"), (0.9, None)])
def test_only_a_difference_is_called_good_or_poor(own, spoken):
    report = overview("cnn", SETTINGS, [accuracy("cnn", own), accuracy("a", 0.9)], [])
    page = render(report)
    assert [word for word in (">good: <", ">poor: <") if word in page] == ([spoken] if spoken else [])
