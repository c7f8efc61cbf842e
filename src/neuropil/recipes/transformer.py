"""A Transformer that learns to translate: dates of many languages into ISO form, or the user's own pairs of texts."""

import dataclasses
from typing import Any, Literal

from neuropil.config import Config, option
from neuropil.data.pairs.files import PairDataConfig, prepare_pairs
from neuropil.errors import InputError
from neuropil.models.transformer import SIZES, Transformer, TransformerConfig
from neuropil.randomness import initialised
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.time_limit import Ladder, Size
from neuropil.tasks.translation.experiment import (
    PairTokensConfig,
    TranslationExperiment,
    TranslationObjective,
    columns_of,
)
from neuropil.tasks.translation.predictor import Translator
from neuropil.training.config import TrainingConfig


class TransformerOptions(Config):
    size: Literal["base", "big"] | None = option(
        None, "published size, and how it was trained; further options override it"
    )
    data: PairDataConfig = PairDataConfig()
    vocabulary: PairTokensConfig = PairTokensConfig(tokens="characters")
    model: TransformerConfig = dataclasses.replace(SIZES["tiny"], dropout=0.0)
    objective: TranslationObjective = TranslationObjective(label_smoothing=0.0)
    training: TrainingConfig = TrainingConfig(
        epochs=5, batch_size=32, learning_rate=3e-3, warmup=0.1, weight_decay=0.0, clip=1.0, keep="last"
    )


OWN_DATA = TransformerOptions(
    vocabulary=PairTokensConfig(),
    model=SIZES["small"],
    objective=TranslationObjective(),
    training=TrainingConfig(updates=15_000, batch_size=32, learning_rate=2e-3, warmup=0.1, clip=1.0, keep="last"),
)
"""Pairs of a user's have more words and say more with them than dates do."""

WARM_UP = 4_000


def published(config: TransformerConfig) -> dict[str, Any]:
    """Options by name. The rate is d^−½ min(t^−½, t · 4000^−3/2) at update t, which is highest at t = 4000. That was
    after 4 % of their updates; a shorter run needs a larger share for as gentle a start."""
    return {
        **{each.name: each.default for each in config.options()},
        "vocabulary_size": config.source_vocabulary_size,
        "label_smoothing": 0.1,
        "optimizer": "adam",
        "weight_decay": 0.0,
        "learning_rate": (config.width * WARM_UP) ** -0.5,
        "schedule": "inverse_sqrt",
        "warmup": 0.1,
    }


SHARED = {"vocabulary_size": 4_000, "batch_size": 16, "optimizer": "muon", "learning_rate": 1e-2}
LADDER = Ladder(
    sizes=(
        Size({"width": 64, "layers": 3, **SHARED, "label_smoothing": 0.0}),
        Size({"width": 96, "layers": 3, **SHARED, "label_smoothing": 0.0}, updates=5_000),
        Size({"width": 128, "layers": 3, **SHARED, "label_smoothing": 0.1}, updates=12_000),
        Size({"width": 256, "layers": 3, **SHARED, "label_smoothing": 0.1, "vocabulary_size": 8_000}, updates=50_000),
    ),
    dropout=((0, 0.0), (10, 0.1), (30, 0.2)),
)
"""A small model that passes over the data a few times does not learn it by heart: on 28,000 pairs, dropout of 0.1 takes
it a third more updates to the same validation loss."""


def build(options: TransformerOptions, seed: int) -> TranslationExperiment:
    tokens = options.vocabulary
    if options.model.shared_embeddings and not tokens.shared_vocabulary:
        fix = "add --no-shared-embeddings or leave out --no-shared-vocabulary"
        raise InputError("shared embeddings need one vocabulary for both sides", got="two vocabularies", fix=fix)
    splits = prepare_pairs(options.data, seed)
    vocabulary = tokens.learn(splits.train)
    sizes = {"source_vocabulary_size": len(vocabulary.source), "target_vocabulary_size": len(vocabulary.target)}
    config = dataclasses.replace(options.model, **sizes, context=tokens.max_tokens)
    longest = config.context if config.positions == "learned" else None
    translator = Translator(
        initialised(lambda: Transformer(config), seed), vocabulary, longest, columns_of(options.data)
    )
    return TranslationExperiment(
        translator,
        splits,
        options.training,
        seed=seed,
        name="transformer",
        label_smoothing=options.objective.label_smoothing,
        max_tokens=tokens.max_tokens,
    )


RECIPE = Recipe(
    TransformerOptions(),
    build,
    Transformer,
    Translator,
    own_data=OWN_DATA,
    sizes={name: published(SIZES[name]) for name in ("base", "big")},
    ladder=LADDER,
)
