"""A small translator of dates, trained for a few seconds on a file of the user's."""

from pathlib import Path

import neuropil
from neuropil.data.pairs.embedded import make_dates
from neuropil.runs.run import Run

SMALL = {
    "width": 16,
    "heads": 2,
    "layers": 1,
    "feed_forward": 32,
    "epochs": 2,
    "batch_size": 64,
    "tokens": "characters",
}


def write_pairs(path: Path, count: int = 300) -> Path:
    dates = make_dates(count, 0, 0).train
    lines = [f"{source}\t{target}\n" for source, target in zip(dates.sources, dates.targets, strict=True)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def train_small(folder: Path, **options: object) -> Run:
    data = write_pairs(folder / "pairs.tsv")
    return neuropil.train("transformer", data=data, out=folder / "run", show_progress=False, **{**SMALL, **options})
