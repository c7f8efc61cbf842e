"""The result of a run in one sentence, made from its numbers."""

import pytest

from neuropil.inspection.report.page import render
from neuropil.runs.overview import comparable, margin, metric_names, overview
from neuropil.tasks.experiment import Result, headline

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
        ([Result("lstm", {"loss": 3.5}), Result("a", {"loss": 0.5})], "lstm: loss 3.5, 7.0 TIMES that of a (0.5)."),
        ([Result("lstm", {"loss": 0.5}), Result("a", {"loss": 0.0})], "lstm: loss 0.5, against a (0)."),
        ([Result("x", {"spikes": 9.0}), Result("a", {"spikes": 10.0})], "x: spikes 9, 10 % away from a (10)."),
        (
            [Result("x", {"gradient_kept": 0.9}), Result("a", {"gradient_kept": 1e-9}), Result("b", {"loss": 1.0})],
            "x: gradient kept 0.9, against a (1e-09).",
        ),
        ([Result("x", {"loss": 0.5, "accuracy": 0.25})], "x: loss 0.5, accuracy 25.00 %."),
        (
            [
                Result("transformer", {"exact_accuracy": 0.02, "chrf": 30.0, "bleu": 7.0}),
                Result("the most similar pair", {"exact_accuracy": 0.01, "chrf": 35.0, "bleu": 21.0}),
            ],
            "transformer: BLEU 7.0, 14.0 points BELOW the most similar pair (21.0).",
        ),
        (
            [Result("a", {"rate_hz": 10.0, "cv": 0.4}), Result("a, Poisson", {"rate_hz": 10.01, "cv": 0.8})],
            "a: CV 0.4, 50 % away from a, Poisson (0.8).",
        ),
    ],
)
def test_the_margin_is_one_sentence_whatever_was_measured(results, sentence):
    assert margin(results) == sentence


@pytest.mark.parametrize(("own", "spoken"), [(0.95, ">good: <"), (0.85, ">poor: <"), (0.9, None)])
def test_only_a_difference_is_called_good_or_poor(own, spoken):
    report = overview("cnn", SETTINGS, [accuracy("cnn", own), accuracy("a", 0.9)], [])
    page = render(report)
    assert [word for word in (">good: <", ">poor: <") if word in page] == ([spoken] if spoken else [])


@pytest.mark.parametrize(
    ("metrics", "first"),
    [
        ({"loss": 1.0, "perplexity": 2.7, "bits_per_character": 2.0, "bits_per_byte": 1.9}, "bits_per_byte"),
        ({"exact_accuracy": 0.5, "chrf": 40.0}, "chrf"),
        ({"pinball_loss": 0.1, "coverage": 0.8, "mase": 0.9}, "mase"),
        ({"token_accuracy": 0.9, "exact_accuracy": 0.8, "f1": 0.7}, "f1"),
        ({"loss": 0.1, "accuracy": 0.9}, "accuracy"),
        ({"energy": 2.0, "drift_percent_per_s": 1.0}, "energy"),
    ],
)
def test_a_run_is_compared_by_what_its_field_uses(metrics: dict[str, float], first: str):
    results = [Result("own", metrics), Result("other", metrics)]
    metric = headline(results)
    assert metric is not None
    assert metric.name == first == metric_names(results)[0]


def test_a_metric_that_no_other_result_has_is_nothing_to_compare_by():
    results = [Result("own", {"mase": 1.0, "loss": 2.0}), Result("other", {"loss": 1.0})]
    metric = headline(results)
    assert metric is not None
    assert metric.name == "loss"


def test_results_without_a_metric_in_common_stand_in_tables_of_their_own():
    memory, oscillator = Result("memory", {"drift_percent_per_s": 1.0}), Result("oscillator", {"frequency_hz": 1.0})
    wanted, still = Result("as wanted", {"frequency_hz": 1.0, "amplitude": 1.0}), Result("still", {"cv": 0.0})
    wide = Result("both", {"amplitude": 1.0, "cv": 0.0})
    assert comparable([memory, oscillator, wanted, still]) == [[memory], [oscillator, wanted], [still]]
    assert comparable([memory, oscillator, wanted, still, wide]) == [[memory], [oscillator, wanted, still, wide]]
    assert comparable([memory]) == [[memory]]
