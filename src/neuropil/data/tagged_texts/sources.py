"""Tagged texts in three parts: the fields of the embedded dates, or the user's own file."""

from pathlib import Path

import torch

from neuropil.config import Config, option
from neuropil.data.copies import TEST, TRAIN, VALIDATION, part_texts
from neuropil.data.tagged_texts.dataset import TaggedTextSplits
from neuropil.data.tagged_texts.embedded import make_date_fields
from neuropil.data.tagged_texts.files import TagColumns, read_tagged_texts
from neuropil.errors import InputError

NUM_DATES = 10_000


class TaggedTextConfig(Config):
    data: Path | None = option(
        None,
        "your own tags: a token and its tag on each line, or texts and tags in a TSV or CSV; without it, the fields of dates",
    )
    text_column: str | None = option(None, "the column of a TSV or CSV that holds the texts, where it is not clear")
    tags_column: str | None = option(None, "the column of a TSV or CSV that holds their tags, where it is not clear")
    validation: float = option(0.1, "share of the training part held out for early stopping", low=0, high=0.5)
    test: float = option(0.2, "share held out for the final score", low=0.01, high=0.9)

    @property
    def columns(self) -> TagColumns:
        return TagColumns(self.text_column, self.tags_column)


def prepare_tagged_texts(config: TaggedTextConfig, seed: int) -> TaggedTextSplits:
    """The same for the same seed; each part is in the order of the data."""
    if config.data is None:
        return _embedded(config, seed)
    texts, notes = read_tagged_texts(config.data, config.columns)
    tags = {tag for text in texts.tags for tag in text}
    if len(tags) < 2:
        raise InputError(f"{config.data.name} must have at least 2 tags", got=f"only {tags.pop()!r}")
    alike = torch.zeros(len(texts), dtype=torch.int64)
    part_of = part_texts([*map(tuple, texts.tokens)], alike, config.validation, config.test, seed)
    train, validation, test = (texts.take((part_of == part).nonzero().flatten()) for part in (TRAIN, VALIDATION, TEST))
    if not len(train) or not len(test):
        rule = f"{config.data.name} must hold at least 2 different texts, one to learn from and one to score"
        raise InputError(rule, got=f"{len(set(map(tuple, texts.tokens)))}", fix="part texts by empty lines")
    return TaggedTextSplits(train, validation, test, notes)


def _embedded(config: TaggedTextConfig, seed: int) -> TaggedTextSplits:
    if config.text_column is not None or config.tags_column is not None:
        raise InputError("columns are named in a TSV or CSV", got="names for the embedded dates", fix="leave them out")
    num_test = round(config.test * NUM_DATES)
    num_validation = round(config.validation * (NUM_DATES - num_test))
    return make_date_fields(NUM_DATES - num_validation - num_test, num_validation, num_test, seed)
