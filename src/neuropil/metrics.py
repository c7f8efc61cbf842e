"""Every metric that a run writes: what it is called, whether more or less of it is better, and how it is written."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from neuropil.errors import InputError

Better: TypeAlias = Literal["higher", "lower"] | None
Format: TypeAlias = Literal["number", "percent", "points"]


@dataclass(frozen=True)
class Metric:
    """`better` is None where a value should be near what theory says, and neither large nor small."""

    name: str
    better: Better = None
    format: Format = "number"

    @property
    def title(self) -> str:
        return TITLES.get(self.name, self.name.replace("_", " "))

    def text(self, value: float) -> str:
        """Fractions as per cent, scores out of 100 with one decimal, everything else with four digits."""
        if self.format == "percent":
            return f"{100 * value:,.2f} %"
        return f"{value:.1f}" if self.format == "points" else number_text(value)

    def improves(self, value: float, best: float | None) -> bool:
        """On the best so far, or as the first; what is not a number never does."""
        if best is None:
            return not math.isnan(value)
        return value > best if self.better == "higher" else self.better == "lower" and value < best


def number_text(value: float, digits: int = 4) -> str:
    """With so many significant digits, and the whole part in full, as people write it: 143,444, not 1.434e+05."""
    if not 10 ** (digits - 1) <= abs(value) < 1e15:
        return f"{value:.{digits}g}"
    return f"{value:,.0f}"


PHASE_LOSS = "_loss"
"""Where a learner has several phases, the loss of each is written as `<phase>_loss`."""
PHASE_RATE = "_learning_rate"
"""Where they have different learning rates, each is written as `<phase>_learning_rate`."""

ACCURACY_OF = "accuracy_of_"
"""Where a test set has sections, the accuracy of each is written as `accuracy_of_<section>`."""

TITLES = {
    "mase": "MASE",
    "coverage_80": "coverage of the 80 % interval",
    "f1": "F1",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "hamming_loss": "Hamming loss",
    "auc": "AUC",
    "natural_risk": "natural risk R(f)",
    "robust_risk": "robust risk R_rob(f)",
    "r2": "R²",
    "squared_error": "mean squared error",
    "absolute_error": "mean absolute error",
    "bleu": "BLEU",
    "chrf": "chrF",
    "spearman": "Spearman correlation",
    "pearson": "Pearson correlation",
    "text_recall_at_1": "text recall@1",
    "image_recall_at_1": "image recall@1",
    "frechet_distance": "Fréchet distance",
    "kl": "KL divergence",
    "rate_hz": "rate (Hz)",
    "mean_rate_hz": "mean rate (Hz)",
    "oscillation_hz": "oscillation (Hz)",
    "frequency_hz": "frequency (Hz)",
    "peak_mv": "peak (mV)",
    "latency_ms": "latency (ms)",
    "ms_of_spike_time_error": "spike time error (ms)",
    "drift_percent_per_s": "drift (% per s)",
    "largest_drift_percent_per_s": "largest drift (% per s)",
    "cv": "CV",
    "fano_factor": "Fano factor",
    "rmse_of_exact_rates": "RMSE of exact rates",
    "rmse_of_noisy_rates": "RMSE of noisy rates",
    "rmse_of_spikes": "RMSE of spikes",
}
"""How the field writes them, and their units; the others are written as they are called."""

TABLE: tuple[tuple[Better, Format, tuple[str, ...]], ...] = (
    ("lower", "number", ("loss", "train_loss", "excess_loss", "pinball_loss", "gap", "energy", "steps_to_converge")),
    ("lower", "number", ("error", "squared_error", "absolute_error", "root_mean_square_error", "mase")),
    ("lower", "number", ("largest_error", "hidden_error", "visible_error", "reconstruction_error")),
    ("lower", "number", ("largest_rate_error", "ms_of_spike_time_error")),
    ("lower", "number", ("perplexity", "bits_per_character", "bits_per_byte")),
    ("higher", "number", ("log_likelihood", "pseudo_likelihood")),
    ("higher", "percent", ("accuracy", "train_accuracy", "token_accuracy", "exact_accuracy", "f1")),
    ("higher", "percent", ("balanced_accuracy", "macro_f1", "robust_accuracy")),
    ("higher", "percent", ("micro_f1", "exact_match")),
    ("lower", "percent", ("natural_risk", "robust_risk", "hamming_loss")),
    ("higher", "number", ("auc", "r2", "spearman", "pearson")),
    (None, "percent", ("out_of_vocabulary",)),
    ("higher", "percent", ("text_recall_at_1", "image_recall_at_1")),
    ("lower", "number", ("frechet_distance", "reconstruction", "bound", "energy_distance")),
    ("higher", "percent", ("precision", "recall", "class_coverage", "class_accuracy", "probe_accuracy")),
    ("lower", "percent", ("memorised",)),
    ("higher", "percent", ("recalled", "overlap")),
    ("higher", "number", ("recall_distance",)),
    ("higher", "points", ("bleu", "chrf")),
    (None, "percent", ("coverage_80", "coverage_share", "near_zero_share")),
    (None, "number", ("kl", "sample_spread")),
    (None, "number", ("learning_rate", "gradient_kept", "largest_difference", "alignment")),
    (None, "number", ("peak_mv", "latency_ms")),
    (None, "number", ("spikes", "rate_hz", "mean_rate_hz", "oscillation_hz", "cv", "fano_factor", "synchrony")),
    (None, "number", ("rmse_of_exact_rates", "rmse_of_noisy_rates", "rmse_of_spikes")),
    (None, "number", ("drift_percent_per_s", "largest_drift_percent_per_s", "frequency_hz", "amplitude")),
    (None, "number", tuple(f"deviation_{variable}" for variable in "xyzuvw")),
)
METRICS = {name: Metric(name, better, form) for better, form, names in TABLE for name in names}
HEADLINES = (
    "robust_risk",
    "bits_per_byte",
    "bleu",
    "chrf",
    "mase",
    "f1",
    "micro_f1",
    "accuracy",
    "frechet_distance",
    "reconstruction_error",
    "recalled",
    "root_mean_square_error",
    "squared_error",
    "cv",
)
"""What each field compares by, where a run has it. The rate of a network equals that of random spikes by construction,
the CV of its intervals does not."""


def find_metric(name: str) -> Metric:
    if name in METRICS:
        return METRICS[name]
    if name.endswith(PHASE_LOSS):
        return Metric(name, "lower")
    if name.endswith(PHASE_RATE):
        return Metric(name)
    if name.startswith(ACCURACY_OF):
        return Metric(name, "higher", "percent")
    fix = f"declare it there, or use one of {', '.join(METRICS)}"
    raise InputError("a metric must be declared in neuropil.metrics", got=f"{name!r}", fix=fix)
