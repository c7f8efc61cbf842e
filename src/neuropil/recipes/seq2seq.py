"""A recurrent encoder-decoder that learns to translate, with attention or without: dates of many languages, or the
user's pairs."""

import dataclasses

from neuropil.config import Config
from neuropil.data.pairs.files import PairDataConfig, prepare_pairs
from neuropil.models.seq2seq import SIZES, Seq2Seq, Seq2SeqConfig
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


class Seq2SeqOptions(Config):
    data: PairDataConfig = PairDataConfig()
    vocabulary: PairTokensConfig = PairTokensConfig(tokens="characters")
    model: Seq2SeqConfig = SIZES["tiny"]
    objective: TranslationObjective = TranslationObjective(label_smoothing=0.0)
    training: TrainingConfig = TrainingConfig(
        epochs=5, batch_size=64, learning_rate=3e-3, warmup=0.1, weight_decay=0.0, clip=1.0, keep="last"
    )


OWN_DATA = Seq2SeqOptions(
    vocabulary=PairTokensConfig(),
    model=SIZES["small"],
    objective=TranslationObjective(),
    training=TrainingConfig(updates=15_000, batch_size=32, learning_rate=2e-3, warmup=0.1, clip=1.0, keep="last"),
)
"""Pairs of a user's have more words and say more with them than dates do."""

LADDER = Ladder(
    sizes=(
        Size({"embedding_size": 128, "hidden_size": 256, "vocabulary_size": 4_000}),
        Size({"embedding_size": 256, "hidden_size": 384, "vocabulary_size": 8_000}, updates=15_000),
    ),
    dropout=((0, 0.0), (4, 0.1), (15, 0.2)),
)


def build(options: Seq2SeqOptions, seed: int) -> TranslationExperiment:
    splits = prepare_pairs(options.data, seed)
    vocabulary = options.vocabulary.learn(splits.train)
    sizes = {"source_vocabulary_size": len(vocabulary.source), "target_vocabulary_size": len(vocabulary.target)}
    config = dataclasses.replace(options.model, **sizes)
    model = initialised(lambda: Seq2Seq(config), seed)
    return TranslationExperiment(
        Translator(model, vocabulary, columns=columns_of(options.data)),
        splits,
        options.training,
        seed=seed,
        name="seq2seq",
        label_smoothing=options.objective.label_smoothing,
        max_tokens=options.vocabulary.max_tokens,
    )


RECIPE = Recipe(Seq2SeqOptions(), build, Seq2Seq, Translator, own_data=OWN_DATA, ladder=LADDER)
