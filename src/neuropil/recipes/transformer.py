"""A Transformer that learns to translate: dates of many languages into ISO form, or the user's own pairs of texts."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuropil.config import Config
from neuropil.data.pairs.sources import PairDataConfig, prepare_pairs
from neuropil.errors import InputError
from neuropil.models.transformer import SIZES, Transformer, TransformerConfig
from neuropil.randomness import initialised
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.translation.experiment import (
    Translating,
    TranslationObjective,
    Translator,
    Vocabulary,
    VocabularyConfig,
    columns_of,
)
from neuropil.training.loop import TrainingConfig


class TransformerOptions(Config):
    data: PairDataConfig = PairDataConfig()
    vocabulary: VocabularyConfig = VocabularyConfig(tokens="characters")
    model: TransformerConfig = dataclasses.replace(SIZES["tiny"], dropout=0.0)
    objective: TranslationObjective = TranslationObjective(label_smoothing=0.0)
    training: TrainingConfig = TrainingConfig(
        epochs=5, batch_size=32, learning_rate=3e-3, warmup=0.1, weight_decay=0.0, clip=1.0, keep="last"
    )


OWN_DATA = TransformerOptions(
    vocabulary=VocabularyConfig(),
    model=SIZES["small"],
    objective=TranslationObjective(),
    training=TrainingConfig(updates=15_000, batch_size=32, learning_rate=2e-3, warmup=0.1, clip=1.0, keep="last"),
)
"""Pairs of a user's have more words and say more with them than dates do."""


def build(options: TransformerOptions, seed: int) -> Translating:
    if options.model.shared_embeddings and not options.vocabulary.shared_vocabulary:
        raise InputError(
            "shared embeddings need one vocabulary for both sides",
            got="two vocabularies",
            fix="add --no-shared-embeddings or leave out --no-shared-vocabulary",
        )
    splits = prepare_pairs(options.data, seed)
    vocabulary = Vocabulary.learn(splits.train, options.vocabulary)
    config = dataclasses.replace(
        options.model,
        source_vocabulary_size=len(vocabulary.source),
        target_vocabulary_size=len(vocabulary.target),
        context=options.vocabulary.max_tokens,
    )
    model = initialised(lambda: Transformer(config), seed)
    return Translating(
        model,
        config,
        splits,
        vocabulary,
        options.training,
        seed=seed,
        name="transformer",
        label_smoothing=options.objective.label_smoothing,
        max_tokens=options.vocabulary.max_tokens,
        parameters=model.parameter_table(),
        longest=longest_text(config),
        columns=columns_of(options.data),
    )


def restore(facts: Mapping[str, Any], folder: Path) -> Translator:
    config = TransformerConfig.from_dict(facts["model"])
    return Translator(Transformer(config), Vocabulary.load(folder), longest_text(config), facts["columns"])


def longest_text(config: TransformerConfig) -> int | None:
    return config.context if config.positions == "learned" else None


RECIPE = Recipe(TransformerOptions(), build, restore, own_data=OWN_DATA)
