"""Recurrent networks that learn to translate, with attention and without: dates of many languages into ISO form, or the user's pairs."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuropil.config import Config
from neuropil.data.pairs.sources import PairDataConfig, prepare_pairs
from neuropil.models.seq2seq import SIZES, Seq2Seq, Seq2SeqConfig
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


class Seq2SeqOptions(Config):
    data: PairDataConfig = PairDataConfig()
    vocabulary: VocabularyConfig = VocabularyConfig(tokens="characters")
    model: Seq2SeqConfig = SIZES["tiny"]
    objective: TranslationObjective = TranslationObjective(label_smoothing=0.0)
    training: TrainingConfig = TrainingConfig(
        epochs=5, batch_size=64, learning_rate=3e-3, warmup=0.1, weight_decay=0.0, clip=1.0, keep="last"
    )


OWN_DATA = Seq2SeqOptions(
    vocabulary=VocabularyConfig(),
    model=SIZES["small"],
    objective=TranslationObjective(),
    training=TrainingConfig(updates=15_000, batch_size=32, learning_rate=2e-3, warmup=0.1, clip=1.0, keep="last"),
)
"""Pairs of a user's have more words and say more with them than dates do."""


def build(options: Seq2SeqOptions, seed: int) -> Translating:
    splits = prepare_pairs(options.data, seed)
    vocabulary = Vocabulary.learn(splits.train, options.vocabulary)
    config = dataclasses.replace(
        options.model, source_vocabulary_size=len(vocabulary.source), target_vocabulary_size=len(vocabulary.target)
    )
    model = initialised(lambda: Seq2Seq(config), seed)
    return Translating(
        model,
        config,
        splits,
        vocabulary,
        options.training,
        seed=seed,
        name="seq2seq",
        label_smoothing=options.objective.label_smoothing,
        max_tokens=options.vocabulary.max_tokens,
        parameters=model.parameter_table(),
        longest=None,
        columns=columns_of(options.data),
    )


def restore(facts: Mapping[str, Any], folder: Path) -> Translator:
    return Translator(
        Seq2Seq(Seq2SeqConfig.from_dict(facts["model"])), Vocabulary.load(folder), columns=facts["columns"]
    )


RECIPE = Recipe(Seq2SeqOptions(), build, restore, own_data=OWN_DATA)
