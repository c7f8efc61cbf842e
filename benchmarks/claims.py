"""`make claims`: recompute every figure that the docs quote, and write it where they quote it from (docs/claims/).

make claims                             the figures on embedded data
make claims MNIST=path/to/mnist         also those on a folder of MNIST's four IDX files
make claims PAIRS=path/to/pairs.tsv.gz  also those on a file of sentence pairs
make claims TEXTS=path/to/texts.tsv.gz  also those on a file of labelled texts
make claims BOOK=path/to/book.txt.gz    also those on one long text
"""

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

from sklearn.neural_network import MLPClassifier

import neuropil
from benchmarks import (
    big_corpus,
    decoding,
    directions,
    generation,
    gru_conventions,
    parallel_trials,
    plan_memory,
    quantisation_quality,
    recall_distance,
    recurrence_speed,
    robustness,
    serving,
    serving_soak,
    slips,
    small_tables,
    torture,
    transformations,
    word2vec,
)
from benchmarks.forecasting import HEADER as EIGHT_HEADER
from benchmarks.forecasting import rows as eight_series
from benchmarks.gpt2_learning import compare as compare_gpt2
from benchmarks.sentence_embeddings import mini_lm
from benchmarks.translation import HELD_OUT, compare
from neuropil.cli.arguments import parse
from neuropil.config import Config, option
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.data.pairs.files import PairDataConfig, prepare_pairs
from neuropil.files import write_text
from neuropil.metrics import find_metric
from neuropil.parts.blocks import NormName
from neuropil.parts.convolution import NormOrder
from neuropil.recipes.heads import HeadsOptions
from neuropil.runs.environment import environment
from neuropil.runs.run import Run
from neuropil.tasks.retrieval.scores import POOL
from neuropil.tasks.translation.report import by_length

PAGES = Path(__file__).parents[1] / "docs" / "claims"
SEEDS = range(5)
MINUTES, TRANSLATION_MINUTES = 4.5, 20.0
CLASSIFIERS = {"cnn": MINUTES, "mlp": MINUTES}
NEURONS = {"spiking_classifier": MINUTES, "predictive_coding": 10.0}
"""Minutes for which each learns MNIST."""
ATTENTIONS = ("bahdanau", "general", "none")
NORM_SEEDS = range(3)
DATE_SEEDS, NUM_DATES = range(1), 2_000
NORM_LAYERS, NORM_RATES = 6, (1e-3, 3e-3)
HEADS = (
    "One head and several at equal width and equal parameters after `neuropil train heads`: the mean squared error of "
    "gathering four of sixteen things at once, and the accuracy of a Vision Transformer on unseen digits, of which "
    "heads are then removed; means of three networks."
)
NORMS = (
    f"The Transformer of {NORM_LAYERS} layers, as many as published, after one pass over the dates: `neuropil train "
    f"transformer --layers {NORM_LAYERS} --epochs 1 --norm NORM --learning-rate RATE`, equal in all else."
)
FORECAST_SEEDS, CAPTION_SEEDS, TRACK_SEEDS = range(3), range(1), range(1)
GPT2_MINUTES, VIT_MINUTES = (3, 20), 10.0
TIME_LIMITS = (5, 20)
VIT_PATCH = 7
"""Sixteen patches of MNIST's pictures in place of 49: three times as many passes in the same time."""
ROUNDED_MINUTES = 10
SMALL_TABLES = (
    "Four small tables of scikit-learn after `neuropil train mlp --data TABLE --target COLUMN`, beside scikit-learn's "
    "own models, which learn from the validation part too: means over ten splits, in each of which a fifth is held out."
)
TUNING = (
    f"What `neuropil tune mlp --data TABLE --target COLUMN --trials {small_tables.TRIALS}` brings on two small "
    "tables of scikit-learn, beside the default options: means over "
    f"{len(small_tables.TUNED_SEEDS)} splits, in each of which a fifth is held out for the test and a tenth of the "
    "rest for validation."
)
LEARNING_RULES = (
    "`neuropil train learning_rules` on the embedded digits: accuracy on the held-out 20 %, mean cosine of the updates "
    "to the gradient over training, and learning rate that was chosen on the validation part."
)
EIGHT_SERIES = (
    "MASE of `neuropil train forecaster` and of four methods of statsmodels on the test part of eight series, from the "
    "same origins and over the horizons of the M4 competition; six come with statsmodels, two are made."
)
FORECASTS = (
    "Forecasts of eleven years of sunspots and of one year of carbon dioxide from every origin in the last part of "
    "the series, means over three seeds; MASE is the error in units of the seasonal-naive forecast's on the training "
    "part."
)


@dataclass(frozen=True)
class Score:
    accuracy: float
    baseline: float
    seconds: float


class Arguments(Config):
    mnist: Path | None = option(None, "a folder of MNIST's four IDX files")
    pairs: Path | None = option(None, "a file of sentence pairs")
    texts: Path | None = option(None, "a file of labelled texts")
    book: Path | None = option(None, "one long text")
    only: tuple[str, ...] = option((), "recompute these figures alone, by their files in docs/claims")


def main(words: Sequence[str]) -> None:
    arguments = parse(Arguments(), words, command="claims", about="Recompute the figures that the docs quote.")
    figures = available(arguments)
    if unknown := sorted(set(arguments.only) - set(figures)):
        raise SystemExit(
            f"Figures that can be recomputed with these options are {', '.join(figures)}, and not {unknown[0]}."
        )
    for name in arguments.only or figures:
        about, compute = figures[name]
        publish(name, about, compute())


def available(arguments: Arguments) -> dict[str, tuple[str, Callable[[], list[str]]]]:
    """What each figure is, and how it is made."""
    exact = f"Share of {NUM_DATES:,} unseen dates that `neuropil train"
    figures: dict[str, tuple[str, Callable[[], list[str]]]] = {
        "digits": (
            "Accuracy on the 20 % of the embedded digits that are held out, another split for each of five seeds.",
            digits,
        ),
        "norm-order": (
            "The validation part of the embedded digits at the end of `neuropil train cnn --norm-order ORDER`, for "
            f"{len(NORM_SEEDS)} seeds.",
            norm_orders,
        ),
        "small-tables": (SMALL_TABLES, small_tables_beside),
        "tuning": (TUNING, tuned_tables),
        "parallel-trials": (parallel_trials.ABOUT, lambda: table(parallel_trials.HEADER, [*parallel_trials.rows()])),
        "plan": (plan_memory.ABOUT, lambda: table(plan_memory.HEADER, [*plan_memory.rows()])),
        "plan-parallel": (
            plan_memory.PARALLEL_ABOUT,
            lambda: table(plan_memory.PARALLEL_HEADER, [*plan_memory.parallel_rows()]),
        ),
        "serving": (serving.ABOUT, served),
        "serving-soak": (serving_soak.ABOUT, soaked),
        "big-corpus": (big_corpus.ABOUT, lambda: table(big_corpus.HEADER, [*big_corpus.rows()])),
        "learning-rules": (LEARNING_RULES, learning_rules),
        "dates": (f"{exact} transformer` reads exactly right, by language.", dates),
        "norms": (NORMS, norms),
        "heads": (HEADS, heads),
        "seq2seq": (f"{exact} seq2seq --attention NAME` reads exactly right, by the length of what is read.", seq2seq),
        "forecasts": (FORECASTS, forecasts),
        "eight-series": (EIGHT_SERIES, lambda: table(EIGHT_HEADER, eight_series())),
        "language-models": (
            "Bits per character of held-out Python documentation after `neuropil train NAME`.",
            language_models,
        ),
        "gru-conventions": (
            "Bits per character of the validation part of Python's documentation after `neuropil train gru "
            f"--hidden-size {gru_conventions.HIDDEN_SIZE} --updates {gru_conventions.UPDATES} --gate GATE --reset "
            f"RESET`, means over {len(gru_conventions.SEEDS)} seeds.",
            lambda: table(gru_conventions.HEADER, gru_conventions.rows()),
        ),
        "mingru-speed": (recurrence_speed.ABOUT, lambda: table(recurrence_speed.HEADER, recurrence_speed.rows())),
        "recall-distance": (
            "The longest distance in steps that each network solves after `neuropil train recall_distance`, with about "
            f"{recall_distance.PARAMETERS:,} parameters, for two seeds; {recall_distance.LONGEST} is the longest that "
            "is tried. The settings were chosen with another seed.",
            lambda: table(recall_distance.HEADER, recall_distance.rows(trained)),
        ),
        "captioner": ("Captions of unseen combinations of unseen digits after `neuropil train captioner`.", captions),
        "tracker": (
            "Mean distance in pixels from the true place of an unseen digit after `neuropil train tracker`.",
            tracks,
        ),
        "tags": ("Tags of the letters of unseen dates after `neuropil train tagger`.", tags),
        "docstrings": (
            "From which library an unseen docstring comes, after `neuropil train text_classifier`.",
            docstrings,
        ),
        "gpt2": ("Bits per byte of held-out Python documentation after `neuropil train gpt2 --minutes N`.", gpt2),
        "rounding": (
            f"What rounded weights cost: GPT-2 after `neuropil train gpt2{' --data book' if arguments.book else ''} "
            f"--minutes {ROUNDED_MINUTES}`, {quantisation_quality.ABOUT}",
            lambda: rounding(arguments.book),
        ),
        "decoding": (decoding.ABOUT, decoded),
        "bert": ("Hidden tokens of held-out Python documentation that are found after `neuropil train bert`.", bert),
        "vit": (
            "Accuracy on the 20 % of the embedded digits that are held out, another split for each of five seeds.",
            vit,
        ),
        "samples": (
            "Examples made after `neuropil train NAME` on the embedded digits, as a classifier of them sees it.",
            samples,
        ),
        "samplers": (
            "One diffusion model of the embedded digits by its samplers and, with the default one, by its guidance; "
            f"{generation.COMPARED} samples each.",
            samplers,
        ),
        "modes": (
            "Modes of a mixture of Gaussians that `neuropil train gan` finds, for each of five seeds.",
            lambda: table(
                ["mixture", "modes found", "samples within 3 σ of a mode", "seconds of training"],
                generation.modes(trained, training_seconds),
            ),
        ),
        "capacity": (
            "The load, in patterns for each unit, up to which a Hopfield network with Hebb's rule keeps its patterns; "
            f"in theory {generation.CRITICAL_LOAD:g}.",
            lambda: table(["units", "capacity", "beside theory"], generation.capacities()),
        ),
        "trades": (
            f"Accuracy on held-out digits after `neuropil train cnn --defence trades --eps {robustness.DIGITS_EPS:g} "
            "--beta B`, and under PGD of 40 steps with five restarts.",
            lambda: table(["β", "clean", "attacked"], robustness.betas(trained)),
        ),
        "directions": (directions.ABOUT, lambda: table(directions.HEADER, directions.rows(trained))),
        "error-nodes": (directions.ERROR_NODES_ABOUT, error_nodes),
        "transformations": (
            "Processor time of a step of two populations of N spiking neurons, and how far decoded values differ.",
            decode_and_encode,
        ),
        "notes-slips": (
            "Each number is computed by `python -m benchmarks.slips`, and a test computes it in another way.",
            lambda: table(slips.HEADER, slips.rows()),
        ),
        "torture": (torture.TORTURE, tortured_runs),
        "clip": (f"The right one of {POOL} unseen scenes or captions, after `neuropil train clip`.", clip),
    }
    if (folder := arguments.mnist) is not None:
        about = "Accuracy on MNIST's own 10,000 test pictures after `neuropil train NAME --data mnist --minutes N`."
        figures["mnist"] = (about, lambda: mnist(folder, CLASSIFIERS))
        figures["mnist-neurons"] = (about, lambda: mnist(folder, NEURONS))
        options = f"--patch {VIT_PATCH} --minutes {VIT_MINUTES:g}"
        about = f"Accuracy on MNIST's own 10,000 test pictures after `neuropil train vit --data mnist {options}`."
        figures["vit-mnist"] = (about, lambda: vit_mnist(folder))
        figures |= imagined_mnist(folder)
        flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in robustness.MNIST_OPTIONS.items())
        figures["robust-mnist"] = (
            f"Accuracy on {robustness.ATTACKED:,} of MNIST's own test pictures that may change by ε = "
            f"{robustness.MNIST_EPS:g} (L∞), after `neuropil train cnn --data mnist --minutes "
            f"{robustness.MNIST_MINUTES:g} {flags}`, and after {robustness.NATURAL_MINUTES:g} minutes without one.",
            lambda: table(robustness.HEADER, robustness.mnist(trained, training_seconds, folder)),
        )
    if (pairs := arguments.pairs) is not None:
        about = (
            f"Scores on {HELD_OUT:,} held-out pairs after {TRANSLATION_MINUTES:g} minutes, both at the same time on a "
            "thread each."
        )
        figures["translation"] = (about, lambda: translation(pairs))
        figures["translation-minutes"] = (
            "Scores on the held-out pairs after `neuropil train transformer --data pairs --minutes N`.",
            lambda: limited(["transformer"], "bleu", data=pairs),
        )
    if (path := arguments.texts) is not None:
        about = (
            "Accuracy on the held-out fifth of 5,000 film reviews after `neuropil train text_classifier --data "
            "reviews --cell NAME`."
        )
        figures["reviews"] = (about, lambda: reviews(path))
        figures["mini-lm"] = (
            "Accuracy on the same reviews after `neuropil train bert_classifier --data reviews`, from scratch, and "
            "with `--start MiniLM --precision bfloat16`.",
            lambda: mini_lm_reviews(path),
        )
    if (book := arguments.book) is not None:
        figures["word2vec"] = (
            "Skip-gram of 100 dimensions, five passes over a text with two threads, in turns with gensim's; means over "
            "three seeds, with standard errors.",
            lambda: table(word2vec.HEADER, word2vec.beside_gensim(book)),
        )
        figures["word2vec-speed"] = (
            "Words per second of our skip-gram with two threads, by vocabulary and dimension.",
            lambda: table(["vocabulary", *map(str, word2vec.WIDTHS)], word2vec.speeds(word2vec.Arguments(text=book))),
        )
        about = (
            "Bits per byte of the held-out end of a text, ours beside Hugging Face's, both at the same time on a "
            "thread each."
        )
        figures["gpt2-beside"] = (about, lambda: gpt2_beside(book))
        figures["book-minutes"] = (
            "Bits per byte of the held-out end of a text after `neuropil train NAME --data book --minutes N`.",
            lambda: limited(["gpt2", "mingru"], "bits_per_byte", data=book),
        )
    return figures


def imagined_mnist(path: Path) -> dict[str, tuple[str, Callable[[], list[str]]]]:
    minutes, samples = generation.MINUTES, generation.MINUTES_OF_SAMPLES
    command = "`neuropil train {} --data mnist {}--minutes {:g}`"
    return {
        "autoencoder-mnist": (
            "Squared error of MNIST's test pictures, of values from 0 to 1, from codes of 16 numbers, after "
            f"{command.format('autoencoder', '', minutes['autoencoder'])}.",
            lambda: codes(path),
        ),
        "vae-mnist": (
            "Mean log-likelihood of binarised test pictures of MNIST, in nats, by 5,000 importance samples, after "
            f"{command.format('vae', '--likelihood bernoulli --binarize ', minutes['vae'])}.",
            lambda: likelihood("vae", path, generation.BINARISED_VAE),
        ),
        "rbm-mnist": (
            "Mean log-likelihood of binarised test pictures of MNIST, in nats, by annealed importance sampling, after "
            f"{command.format('rbm', '--hidden-size 500 --binarize ', minutes['rbm'])}.",
            lambda: likelihood("rbm", path, generation.BINARISED_RBM),
        ),
        **{
            f"{name}-samples-mnist": (
                f"Examples made after {command.format(name, '', limit)}, as a classifier of MNIST sees them.",
                partial(samples_of_mnist, name, path, limit),
            )
            for name, limit in samples.items()
        },
    }


def decode_and_encode() -> list[str]:
    measured = [*transformations.measure(transformations.Arguments())]
    rows = transformations.written(measured)
    return [*table(transformations.HEADER, rows), "", transformations.in_words(measured)]


def served() -> list[str]:
    rows = [row for precision in ("float32", "int8") for row in serving.rows(["--precision", precision])]
    return table(serving.HEADER, rows)


def soaked() -> list[str]:
    found = serving_soak.soak(serving_soak.Arguments().minutes)
    found.require_floor()
    return table(serving_soak.HEADER, [*found.rows()])


def tortured_runs() -> list[str]:
    found = [*torture.torture(torture.Arguments())]
    if wrong := [difference for each in found for difference in each.differences]:
        raise SystemExit("\n".join(wrong))
    return table(torture.HEADER, [*(each.row() for each in found), torture.total(found)])


def error_nodes() -> list[str]:
    with trained("predictive_coding") as run:
        return table(directions.ERROR_NODES_HEADER, directions.error_nodes(run))


def samples() -> list[str]:
    return table(generation.scores_header(), generation.scored(runs_of(generation.MADE_BY), training_seconds))


def runs_of(names: Sequence[str], **options: Any) -> Iterator[tuple[str, Run]]:
    for name in names:
        with trained(name, **options) as run:
            yield name, run


def samples_of_mnist(name: str, path: Path, minutes: float) -> list[str]:
    with trained(name, data=path, minutes=minutes) as run:
        return table(generation.scores_header(), generation.scored([(name, run)], training_seconds))


def samplers() -> list[str]:
    with trained("diffusion") as run:
        by_sampler = table(generation.SAMPLERS_HEADER, generation.samplers(run))
        by_guidance = table(generation.GUIDANCE_HEADER, generation.guidances(run))
    return [*by_sampler, "", "The class is the one that was asked for:", "", *by_guidance]


def codes(path: Path) -> list[str]:
    minutes = generation.MINUTES["autoencoder"]
    metrics = {"reconstruction_error": lambda value: f"{value:.5f}", "probe_accuracy": percent}
    rows = results("autoencoder", metrics, range(1), data=path, minutes=minutes)
    return table(["code", "squared error", "accuracy of a linear classifier of it", "seconds of training"], rows)


def likelihood(name: str, path: Path, options: Mapping[str, Any]) -> list[str]:
    metrics = {"log_likelihood": lambda value: f"{value:.1f}"}
    rows = results(name, metrics, range(1), data=path, minutes=generation.MINUTES[name], **options)[:1]
    return table(["model", "log-likelihood", "seconds of training"], rows)


def small_tables_beside() -> list[str]:
    header = ["table", "score", "neuropil mlp", "logistic or ridge regression", "gradient boosting"]
    return table(header, [*small_tables.rows()])


def tuned_tables() -> list[str]:
    validation, test = ["validation loss: default", "tuned"], ["default", "tuned", "tuned is better"]
    return table(["table", *validation, "test", *test], [*small_tables.tuned_rows()])


def seq2seq() -> list[str]:
    """Each attention and none, by the length of the source."""
    test = prepare_pairs(PairDataConfig(), 0).test
    columns: list[list[str]] = []
    for attention in ATTENTIONS:
        with trained("seq2seq", attention=attention) as run:
            right = [ours == theirs for ours, theirs in zip(run.translate(test.sources), test.targets, strict=True)]
            groups = [right, *(within for _, _, within in by_length(test.sources, right))]
            columns.append([*(percent(statistics.mean(group)) for group in groups), f"{training_seconds(run):,.0f}"])
    labels = [f"{low} to {high} characters" for low, high, _ in by_length(test.sources, [True] * len(test.sources))]
    return table(
        ["source", *ATTENTIONS],
        [list(row) for row in zip(["all", *labels, "seconds of training"], *columns, strict=True)],
    )


def forecasts() -> list[str]:
    metrics = {"mase": decimals, "pinball_loss": decimals, "coverage_80": percent}
    rows = [
        [data, *row]
        for data in ("sunspots", "co2")
        for row in results("forecaster", metrics, FORECAST_SEEDS, dataset=data)
    ]
    return table(["series", "forecast", "MASE", "pinball loss", "inside the 80 % band", "seconds of training"], rows)


def language_models() -> list[str]:
    rows = [
        row
        for name in ("rnn", "lstm", "gru", "mingru")
        for row in results(name, {"bits_per_character": decimals}, range(1))[: None if name == "rnn" else 1]
    ]
    return table(["model", "bits per character", "seconds of training"], rows)


def gpt2() -> list[str]:
    rows = [
        [f"{row[0]}, {minutes} minutes" if place == 0 else row[0], *row[1:]]
        for number, minutes in enumerate(GPT2_MINUTES)
        for place, row in enumerate(
            results("gpt2", {"bits_per_byte": decimals}, range(1), minutes=minutes)[: None if number else 1]
        )
    ]
    return table(["model", "bits per byte", "seconds of training"], rows)


def limited(names: Sequence[str], metric: str, **options: Any) -> list[str]:
    """Systems under each time limit, then what the last was compared with."""
    rows = [
        [f"{row[0]}, {minutes} minutes" if place == 0 else row[0], *row[1:]]
        for minutes in TIME_LIMITS
        for name in names
        for place, row in enumerate(
            results(name, {metric: decimals}, range(1), minutes=minutes, **options)[
                : None if (minutes, name) == (TIME_LIMITS[-1], names[-1]) else 1
            ]
        )
    ]
    return table(["model", find_metric(metric).title, "seconds of training"], rows)


def decoded() -> list[str]:
    speeds, prompts = decoding.tables(decoding.Arguments())
    second = table(decoding.PROMPT_HEADER, prompts)
    return [*table(decoding.HEADER, speeds), "", decoding.PROMPT_ABOUT, "", *second]


def rounding(data: Path | None) -> list[str]:
    with trained("gpt2", minutes=ROUNDED_MINUTES, **({"data": data} if data else {})) as run:
        return table(quantisation_quality.HEADER, quantisation_quality.rows(run))


def gpt2_beside(path: Path) -> list[str]:
    rows = [
        [each.name, decimals(each.bits_per_byte), f"{each.tokens / each.seconds:,.0f}", f"{each.seconds:,.0f}"]
        for each in compare_gpt2(path)
    ]
    return table(["model", "bits per byte", "training tokens a second", "seconds"], rows)


def bert() -> list[str]:
    metrics = {"accuracy": percent, "loss": decimals}
    return table(["model", "found", "nats a token", "seconds of training"], results("bert", metrics, range(1)))


def vit() -> list[str]:
    scores = [train("vit", seed=seed) for seed in SEEDS]
    rows = [["neuropil vit", *spread([score.accuracy for score in scores]), seconds(scores)]]
    rows.append(["logistic regression", *spread([score.baseline for score in scores]), ""])
    return table(["model", "mean accuracy", "lowest", "highest", "seconds of training"], rows)


def vit_mnist(path: Path) -> list[str]:
    score = train("vit", data=path, patch=VIT_PATCH, minutes=VIT_MINUTES)
    rows = [
        ["neuropil vit", percent(score.accuracy), seconds([score])],
        ["logistic regression", percent(score.baseline), ""],
    ]
    return table(["model", "accuracy", "seconds of training"], rows)


def clip() -> list[str]:
    metrics = {"text_recall_at_1": percent, "image_recall_at_1": percent}
    return table(
        ["model", "caption of a scene", "scene of a caption", "seconds of training"],
        results("clip", metrics, CAPTION_SEEDS),
    )


def mini_lm_reviews(path: Path) -> list[str]:
    fine_tuned: dict[str, Any] = {"start": mini_lm(), "precision": "bfloat16"}
    options: dict[str, dict[str, Any]] = {"BERT from scratch": {}, "MiniLM, fine-tuned": fine_tuned}
    rows = [
        row
        for number, (named, given) in enumerate(options.items())
        for row in results("bert_classifier", {"accuracy": percent}, range(1), named=named, data=path, **given)[
            : 1 if number == 0 else None
        ]
    ]
    return table(["classifier", "accuracy", "seconds of training"], rows)


def captions() -> list[str]:
    rows = results("captioner", {"exact_accuracy": percent}, CAPTION_SEEDS)
    return table(["captions", "exactly right", "seconds of training"], rows)


def tracks() -> list[str]:
    metrics = {"hidden_error": decimals, "visible_error": decimals}
    return table(
        ["tracker", "while hidden", "while seen", "seconds of training"], results("tracker", metrics, TRACK_SEEDS)
    )


def tags() -> list[str]:
    metrics = {"token_accuracy": percent, "exact_accuracy": percent}
    return table(
        ["tagger", "of letters", "of whole dates", "seconds of training"], results("tagger", metrics, range(1))
    )


def docstrings() -> list[str]:
    return table(
        ["classifier", "accuracy", "seconds of training"], results("text_classifier", {"accuracy": percent}, range(1))
    )


def reviews(path: Path) -> list[str]:
    rows = [
        row
        for number, cell in enumerate(("lstm", "gru"))
        for row in results("text_classifier", {"accuracy": percent}, range(1), named=cell, cell=cell, data=path)[
            : 1 if number == 0 else None
        ]
    ]
    return table(["classifier", "accuracy", "seconds of training"], rows)


def results(
    name: str,
    metrics: Mapping[str, Callable[[float], str]],
    seeds: Sequence[int],
    *,
    named: str | None = None,
    **options: Any,
) -> list[list[str]]:
    """A row for a system and for each that its run compares it with: means over the seeds."""
    found: dict[str, list[Mapping[str, float]]] = {}
    durations: list[float] = []
    for seed in seeds:
        with trained(name, seed=seed, **options) as run:
            durations.append(training_seconds(run))
            for number, result in enumerate(run.results):
                found.setdefault((named or name) if number == 0 else result.name, []).append(result.metrics)
    rows: list[list[str]] = []
    for label, scores in found.items():
        values = [
            shown(statistics.mean(score[metric] for score in scores)) if metric in scores[0] else ""
            for metric, shown in metrics.items()
        ]
        rows.append([label, *values, "" if rows else f"{statistics.mean(durations):,.0f}"])
    return rows


@contextmanager
def trained(name: str, **options: Any) -> Iterator[Run]:
    with tempfile.TemporaryDirectory() as folder:
        yield neuropil.train(name, out=Path(folder) / "run", show_progress=sys.stderr.isatty(), **options)


def training_seconds(run: Run) -> float:
    return max(row.get("seconds", 0.0) for row in run.rows)


def dates() -> list[str]:
    """Each language and all of them, for several seeds."""
    shares: list[dict[str, float]] = []
    durations: list[float] = []
    for seed in DATE_SEEDS:
        with trained("transformer", seed=seed) as run:
            test = prepare_pairs(PairDataConfig(), seed).test
            right = [ours == theirs for ours, theirs in zip(run.translate(test.sources), test.targets, strict=True)]
            durations.append(training_seconds(run))
        by_language: dict[str, list[bool]] = {"all": right}
        for group, correct in zip(test.groups, right, strict=True):
            by_language.setdefault(group, []).append(correct)
        shares.append({name: sum(values) / len(values) for name, values in by_language.items()})
    rows = [
        [name, *(percent(share[name]) for share in shares)]
        for name in sorted(shares[0], key=lambda name: (name != "all", name))
    ]
    rows.append(["seconds of training", *(f"{duration:,.0f}" for duration in durations)])
    return table(["language", *(f"seed {seed}" for seed in DATE_SEEDS)], rows)


def norms() -> list[str]:
    rows = []
    for norm, rate in itertools.product(get_args(NormName), NORM_RATES):
        given = {"norm": norm, "learning_rate": rate, "layers": NORM_LAYERS, "epochs": 1, "report": False}
        with trained("transformer", **given) as run:
            loss = [row["loss"] for row in run.rows if row["kind"] == "validation"][-1]
            figures = [decimals(loss), percent(run.metrics["exact_accuracy"])]
            rows.append([f"{norm}-norm", f"{rate:g}", f"{run.rows[-1]['step']:,}", *figures])
    return table(["layer norm", "peak learning rate", "updates", "validation loss", "dates exactly right"], rows)


def heads() -> list[str]:
    with trained("heads") as run:
        scores = {result.name: result.metrics for result in run.results}
        options = cast(HeadsOptions, run.options)
    rows = []
    for number in options.heads:
        name = "one head" if number == 1 else f"{number} heads"
        least, error = (
            options.least_error(number, options.width // number),
            scores[f"gathering, {name}"]["squared_error"],
        )
        accuracy = percent(scores[f"pictures, {name}"]["accuracy"]) if number in options.picture_heads else ""
        rows.append([f"{number}", f"{options.width // number}", decimals(least), decimals(error), accuracy])
    rows += [
        [name.removeprefix("pictures, "), "", "", "", percent(metrics["accuracy"])]
        for name, metrics in scores.items()
        if "removed" in name or name == "logistic regression"
    ]
    return table(["heads", "width of each", "least possible error", "error of gathering", "accuracy on digits"], rows)


def translation(path: Path) -> list[str]:
    rows = [
        [name, f"{scores['bleu']:.1f}", f"{scores['chrf']:.1f}", f"{speed:,.0f}" if speed else ""]
        for name, scores, speed in compare(path, TRANSLATION_MINUTES)  # each on one thread, at the same time
    ]
    return table(["model", "BLEU", "chrF", "training tokens a second"], rows)


def digits() -> list[str]:
    scores = {name: [train(name, seed=seed) for seed in SEEDS] for name in (*CLASSIFIERS, *NEURONS)}
    rows = [
        [f"neuropil {name}", *spread([each.accuracy for each in own]), seconds(own)] for name, own in scores.items()
    ]
    rows.append(["scikit-learn MLPClassifier", *spread([sklearn_mlp(seed) for seed in SEEDS]), ""])
    rows.append(["scikit-learn LogisticRegression", *spread([score.baseline for score in scores["mlp"]]), ""])
    return table(["model", "mean accuracy", "lowest", "highest", "seconds of training"], rows)


def norm_orders() -> list[str]:
    """Batch norm before and after the activation."""
    rows = []
    for order in get_args(NormOrder):
        last = []
        for seed in NORM_SEEDS:
            with trained("cnn", norm_order=order, seed=seed) as run:
                last.append([row for row in run.rows if row["kind"] == "validation"][-1])
        accuracies = [row["accuracy"] for row in last]
        rows.append([order, *spread(accuracies), decimals(statistics.mean(row["loss"] for row in last))])
    return table(["batch norm", "mean accuracy", "lowest", "highest", "mean loss"], rows)


def learning_rules() -> list[str]:
    """A row for each rule and for the baselines."""
    formats = {"accuracy": percent, "alignment": "{:.2f}".format, "learning_rate": "{:g}".format}
    with trained("learning_rules") as run:
        rows = [
            [
                result.name,
                *(shown(result.metrics[name]) if name in result.metrics else "" for name, shown in formats.items()),
            ]
            for result in run.results
        ]
    return table(["learning rule", "accuracy", "cosine", "learning rate"], rows)


def mnist(path: Path, minutes: Mapping[str, float]) -> list[str]:
    scores = {name: train(name, data=path, minutes=limit) for name, limit in minutes.items()}
    rows = [[f"neuropil {name}", percent(score.accuracy), seconds([score])] for name, score in scores.items()]
    rows.append(["logistic regression on 10,000 pictures", percent(next(iter(scores.values())).baseline), ""])
    return table(["model", "accuracy", "seconds of training"], rows)


def train(name: str, **options: Any) -> Score:
    with trained(name, **options) as run:
        own, baseline, *_ = run.results
        return Score(own.metrics["accuracy"], baseline.metrics["accuracy"], training_seconds(run))


def sklearn_mlp(seed: int) -> float:
    """The same split and hidden layers, with scikit-learn's own defaults for everything else, until it converges."""
    splits = prepare(DataConfig(), seed)
    model = MLPClassifier((256, 256), max_iter=400, random_state=seed)
    model.fit(splits.train.inputs.flatten(1).numpy() / 255, splits.train.targets.numpy())
    return float(model.score(splits.test.inputs.flatten(1).numpy() / 255, splits.test.targets.numpy()))


def publish(name: str, about: str, lines: Sequence[str], *, command: str = "make claims") -> None:
    machine = environment()
    threads = f"{machine['threads']} thread{'s' * (machine['threads'] != '1')}"
    where = f"{machine['processor']}, {threads}, torch {machine['torch']}"
    made = f"Made by `{command}` on {date.today().isoformat()}: {where}."
    text = "\n".join([about, "", *lines, "", made])
    write_text(PAGES / f"{name}.md", f"{text}\n")
    print(f"\n{text}")


def spread(values: Sequence[float]) -> list[str]:
    return [percent(statistics.mean(values)), percent(min(values)), percent(max(values))]


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def decimals(value: float) -> str:
    return f"{value:.3f}"


def seconds(scores: Sequence[Score]) -> str:
    return f"{statistics.mean(score.seconds for score in scores):,.0f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]


if __name__ == "__main__":
    start = time.perf_counter()
    main(sys.argv[1:])
    print(f"\n{time.perf_counter() - start:,.0f} seconds")
