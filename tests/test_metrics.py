import pytest

from neuropil.errors import InputError
from neuropil.metrics import METRICS, TITLES, Metric, find_metric


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("loss", "lower"),
        ("mase", "lower"),
        ("perplexity", "lower"),
        ("energy", "lower"),
        ("bits_per_byte", "lower"),
        ("accuracy", "higher"),
        ("f1", "higher"),
        ("chrf", "higher"),
        ("log_likelihood", "higher"),
        ("generator_loss", "lower"),
        ("coverage_80", None),
        ("rate_hz", None),
    ],
)
def test_a_metric_says_whether_more_or_less_is_better(name: str, better: str | None):
    metric = find_metric(name)
    assert metric.better == better
    assert [metric.improves(2.0, 1.0), metric.improves(1.0, 2.0)] == [better == "higher", better == "lower"]
    assert not metric.improves(1.0, 1.0)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("accuracy", "43.21 %"),
        ("coverage_80", "43.21 %"),
        ("bleu", "0.4"),
        ("loss", "0.4321"),
        ("learning_rate", "0.4321"),
    ],
)
def test_a_value_is_written_as_its_metric_is(name: str, text: str):
    assert find_metric(name).text(0.43212) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (143_444.2, "143,444"),
        (-1_434.4, "-1,434"),
        (999.96, "1000"),
        (543.21, "543.2"),
        (0.043212, "0.04321"),
        (0.0, "0"),
        (1.2e-7, "1.2e-07"),
        (3.2e20, "3.2e+20"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_a_number_is_written_as_people_write_it(value: float, text: str):
    assert find_metric("loss").text(value) == text


def test_every_metric_is_declared_once_under_its_own_name():
    assert all(name == metric.name for name, metric in METRICS.items())
    assert set(TITLES) <= set(METRICS)
    assert Metric("anything").better is None


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("exact_accuracy", "exact accuracy"),
        ("mase", "MASE"),
        ("chrf", "chrF"),
        ("mean_rate_hz", "mean rate (Hz)"),
        ("text_recall_at_1", "text recall@1"),
        ("generator_loss", "generator loss"),
    ],
)
def test_a_metric_is_titled_as_the_field_writes_it_with_its_unit(name: str, title: str):
    assert find_metric(name).title == title


def test_an_undeclared_metric_is_refused_with_those_that_are_declared():
    with pytest.raises(InputError) as error:
        find_metric("perplexities")
    assert str(error.value) == (
        "a metric must be declared in neuropil.metrics, but got 'perplexities': "
        f"declare it there, or use one of {', '.join(METRICS)}."
    )
