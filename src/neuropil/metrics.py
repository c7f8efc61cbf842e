"""Every metric that a run writes: what it is called, whether more or less of it is better, and how it is written."""

from dataclasses import dataclass
from typing import Literal

from neuropil.errors import InputError


@dataclass(frozen=True)
class Metric:
    """`better` is None where a value should be near what theory says, and neither large nor small."""

    name: str
    better: Literal["higher", "lower"] | None = None
    format: Literal["number", "percent", "points"] = "number"

    @property
    def title(self) -> str:
        return self.name.replace("_", " ")

    def text(self, value: float) -> str:
        """Fractions as per cent, scores out of 100 with one decimal, everything else with four digits."""
        if self.format == "percent":
            return f"{100 * value:.2f} %"
        return f"{value:.1f}" if self.format == "points" else f"{value:.4g}"

    def improves(self, value: float, best: float) -> bool:
        return value > best if self.better == "higher" else self.better == "lower" and value < best


PHASE_LOSS = "_loss"
"""Where a learner has several phases, the loss of each is written as `<phase>_loss`."""

METRICS = {
    metric.name: metric
    for metric in (
        # learning
        Metric("loss", "lower"),
        Metric("train_loss", "lower"),
        Metric("excess_loss", "lower"),
        Metric("pinball_loss", "lower"),
        Metric("energy", "lower"),
        Metric("gap", "lower"),
        Metric("learning_rate"),
        Metric("steps_to_arrive", "lower"),
        Metric("gradient_kept"),
        # classes and tags
        Metric("accuracy", "higher", "percent"),
        Metric("train_accuracy", "higher", "percent"),
        Metric("token_accuracy", "higher", "percent"),
        Metric("exact_accuracy", "higher", "percent"),
        Metric("caption_accuracy", "higher", "percent"),
        Metric("picture_accuracy", "higher", "percent"),
        Metric("f1", "higher", "percent"),
        Metric("near_zero_share", None, "percent"),
        # numbers, forecasts and tracks
        Metric("error", "lower"),
        Metric("squared_error", "lower"),
        Metric("absolute_error", "lower"),
        Metric("root_mean_square_error", "lower"),
        Metric("largest_error", "lower"),
        Metric("hidden_error", "lower"),
        Metric("visible_error", "lower"),
        Metric("mase", "lower"),
        Metric("log_likelihood", "higher"),
        Metric("coverage", None, "percent"),
        Metric("coverage_share", None, "percent"),
        # text
        Metric("perplexity", "lower"),
        Metric("bits_per_character", "lower"),
        Metric("bits_per_byte", "lower"),
        Metric("bleu", "higher", "points"),
        Metric("chrf", "higher", "points"),
        # neurons and networks of them
        Metric("spikes"),
        Metric("rate_hz"),
        Metric("mean_rate_hz"),
        Metric("oscillation_hz"),
        Metric("frequency_hz"),
        Metric("amplitude"),
        Metric("cv"),
        Metric("fano_factor"),
        Metric("synchrony"),
        Metric("largest_rate_error", "lower"),
        Metric("ms_of_spike_time_error", "lower"),
        Metric("largest_difference"),
        Metric("drift_percent_per_s"),
        Metric("largest_drift_percent_per_s"),
        Metric("rmse_of_exact_rates"),
        Metric("rmse_of_noisy_rates"),
        Metric("rmse_of_spikes"),
        *(Metric(f"deviation_{variable}") for variable in "xyzuvw"),
    )
}


def find_metric(name: str) -> Metric:
    if name in METRICS:
        return METRICS[name]
    if name.endswith(PHASE_LOSS):
        return Metric(name, "lower")
    raise InputError(
        "a metric must be declared in neuropil.metrics",
        got=f"{name!r}",
        fix=f"declare it there, or use one of {', '.join(METRICS)}",
    )
