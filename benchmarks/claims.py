"""`make claims`: recompute every figure that the docs quote, and write it where they quote it from (docs/claims/).

make claims                             the figures on embedded data
make claims MNIST=path/to/mnist         also those on a folder of MNIST's four IDX files
make claims PAIRS=path/to/pairs.tsv.gz  also those on a file of sentence pairs
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from sklearn.neural_network import MLPClassifier

import neuropil
from benchmarks.translation import HELD_OUT, compare
from neuropil.cli.arguments import parse
from neuropil.config import Config, option
from neuropil.data.pair_sources import PairDataConfig, prepare_pairs
from neuropil.data.sources import DataConfig, prepare
from neuropil.files import write_text
from neuropil.recipes.environment import environment

PAGES = Path(__file__).parents[1] / "docs" / "claims"
SEEDS = range(5)
MINUTES, TRANSLATION_MINUTES = 4.5, 20.0
DATE_SEEDS, NUM_DATES = range(1), 2_000


@dataclass(frozen=True)
class Score:
    accuracy: float
    baseline: float
    seconds: float


class Arguments(Config):
    mnist: Path | None = option(None, "a folder of MNIST's four IDX files")
    pairs: Path | None = option(None, "a file of sentence pairs")
    only: tuple[str, ...] = option((), "recompute these figures alone: digits, dates, mnist, translation")


def main(words: Sequence[str]) -> None:
    arguments = parse(Arguments(), words, command="claims", about="Recompute the figures that the docs quote.")
    wanted = arguments.only or ("digits", "dates", "mnist", "translation")
    if "digits" in wanted:
        publish("digits", "Accuracy on the 20 % of the embedded digits that are held out, another split for each of five seeds.", digits())
    if "dates" in wanted:
        about = f"Share of {NUM_DATES:,} unseen dates that `neuropil train transformer` reads exactly right, by language."
        publish("dates", about, dates())
    if "mnist" in wanted and arguments.mnist is not None:
        about = f"Accuracy on MNIST's own 10,000 test pictures after `neuropil train NAME --data mnist --minutes {MINUTES}`."
        publish("mnist", about, mnist(arguments.mnist))
    if "translation" in wanted and arguments.pairs is not None:
        about = f"Scores on {HELD_OUT:,} held-out pairs after {TRANSLATION_MINUTES:g} minutes, both at the same time on a thread each."
        publish("translation", about, translation(arguments.pairs))


def dates() -> list[str]:
    """Each language and all of them, for several seeds."""
    shares: list[dict[str, float]] = []
    durations: list[float] = []
    for seed in DATE_SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            run = neuropil.train("transformer", out=Path(folder) / "run", seed=seed, show_progress=sys.stderr.isatty())
            test = prepare_pairs(PairDataConfig(), seed).test
            right = [ours == theirs for ours, theirs in zip(run.translate(test.sources), test.targets, strict=True)]
            durations.append(max(row.get("seconds", 0.0) for row in run.history))
        by_language: dict[str, list[bool]] = {"all": right}
        for group, correct in zip(test.groups, right, strict=True):
            by_language.setdefault(group, []).append(correct)
        shares.append({name: sum(values) / len(values) for name, values in by_language.items()})
    rows = [[name, *(percent(share[name]) for share in shares)] for name in sorted(shares[0], key=lambda name: (name != "all", name))]
    rows.append(["seconds of training", *(f"{duration:,.0f}" for duration in durations)])
    return table(["language", *(f"seed {seed}" for seed in DATE_SEEDS)], rows)


def translation(path: Path) -> list[str]:
    rows = [
        [name, f"{scores['bleu']:.1f}", f"{scores['chrf']:.1f}", f"{speed:,.0f}" if speed else ""]
        for name, scores, speed in compare(path, TRANSLATION_MINUTES)  # each on one thread, at the same time
    ]
    return table(["model", "BLEU", "chrF", "training tokens a second"], rows)


def digits() -> list[str]:
    cnn, mlp = ([train(name, seed=seed) for seed in SEEDS] for name in ("cnn", "mlp"))
    rows = [[f"neuropil {name}", *spread([s.accuracy for s in scores]), seconds(scores)] for name, scores in (("cnn", cnn), ("mlp", mlp))]
    rows.append(["scikit-learn MLPClassifier", *spread([sklearn_mlp(seed) for seed in SEEDS]), ""])
    rows.append(["scikit-learn LogisticRegression", *spread([score.baseline for score in mlp]), ""])
    return table(["model", "mean accuracy", "lowest", "highest", "seconds of training"], rows)


def mnist(path: Path) -> list[str]:
    scores = {name: train(name, data=path, minutes=MINUTES) for name in ("cnn", "mlp")}
    rows = [[f"neuropil {name}", percent(score.accuracy), seconds([score])] for name, score in scores.items()]
    rows.append(["logistic regression on 10,000 pictures", percent(scores["mlp"].baseline), ""])
    return table(["model", "accuracy", "seconds of training"], rows)


def train(name: str, **options: Any) -> Score:
    with tempfile.TemporaryDirectory() as folder:
        run = neuropil.train(name, out=Path(folder) / "run", show_progress=sys.stderr.isatty(), **options)
        own, baseline, *_ = run.results
        return Score(own.metrics["accuracy"], baseline.metrics["accuracy"], max(row.get("seconds", 0.0) for row in run.history))


def sklearn_mlp(seed: int) -> float:
    """The same split and hidden layers, with scikit-learn's own defaults for everything else, until it converges."""
    splits = prepare(DataConfig(), seed)
    model = MLPClassifier((256, 256), max_iter=400, random_state=seed)
    model.fit(splits.train.inputs.flatten(1).numpy() / 255, splits.train.targets.numpy())
    return float(model.score(splits.test.inputs.flatten(1).numpy() / 255, splits.test.targets.numpy()))


def publish(name: str, about: str, lines: Sequence[str]) -> None:
    machine = environment()
    where = f"{machine['processor']}, {machine['threads']} threads, torch {machine['torch']}"
    made = f"Made by `make claims` on {date.today().isoformat()}: {where}."
    text = "\n".join([about, "", *lines, "", made])
    write_text(PAGES / f"{name}.md", f"{text}\n")
    print(f"\n{text}")


def spread(values: Sequence[float]) -> list[str]:
    return [percent(statistics.mean(values)), percent(min(values)), percent(max(values))]


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def seconds(scores: Sequence[Score]) -> str:
    return f"{statistics.mean(score.seconds for score in scores):,.0f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]


if __name__ == "__main__":
    start = time.perf_counter()
    main(sys.argv[1:])
    print(f"\n{time.perf_counter() - start:,.0f} seconds")
