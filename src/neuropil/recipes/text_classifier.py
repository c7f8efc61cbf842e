"""A recurrent network that reads a text and names its class: the library of a docstring, or the label of the user's own texts."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuropil.config import Config
from neuropil.data.labelled_texts.dataset import LabelledTextConfig, prepare_labelled_texts
from neuropil.models.recurrent import RecurrentNetwork, RecurrentNetworkConfig
from neuropil.randomness import initialised
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.text_classification.experiment import (
    Reader,
    ReadingConfig,
    TextClassification,
    TextClassifier,
    TextObjective,
    restore_classifier,
)
from neuropil.tasks.text_experiment import begin_alike
from neuropil.training.loop import TrainingConfig, pick_device


class TextClassifierOptions(Config):
    data: LabelledTextConfig = LabelledTextConfig()
    reading: ReadingConfig = ReadingConfig(tokens="bpe", vocabulary_size=8_000)
    model: RecurrentNetworkConfig = RecurrentNetworkConfig(
        cell="gru", hidden_size=128, embedding_size=128, bidirectional=True, pooling="max", dropout=0.5
    )
    objective: TextObjective = TextObjective(label_smoothing=0.1, word_dropout=0.2)
    training: TrainingConfig = TrainingConfig(epochs=10, batch_size=64, learning_rate=2e-3, clip=1.0)


OWN_DATA = TextClassifierOptions(
    reading=ReadingConfig(),
    model=RecurrentNetworkConfig(
        cell="gru", hidden_size=64, embedding_size=64, bidirectional=True, pooling="max", dropout=0.5
    ),
    objective=TextObjective(label_smoothing=0.1),
    training=TrainingConfig(updates=1_000, batch_size=32, learning_rate=3e-3, clip=1.0),
)
"""Texts of a user's may be long, and have whole words to tell them apart."""


def build(options: TextClassifierOptions, seed: int) -> TextClassification:
    splits = prepare_labelled_texts(options.data, seed)
    reader = Reader.learn(splits.train.texts, options.reading)
    config = dataclasses.replace(
        options.model, shape="many_to_one", vocabulary_size=len(reader.tokenizer), output_size=len(splits.train.classes)
    )
    model = initialised(lambda: RecurrentNetwork(config), seed).to(pick_device(options.training.device))
    begin_alike(model.embedding)
    return TextClassification(
        model,
        config,
        splits,
        reader,
        options.training,
        seed=seed,
        name="text_classifier",
        objective=options.objective,
        parameters=model.parameter_table(),
        columns=options.data.columns,
    )


def restore(facts: Mapping[str, Any], folder: Path) -> TextClassifier:
    return restore_classifier(RecurrentNetwork(RecurrentNetworkConfig.from_dict(facts["model"])), facts, folder)


RECIPE = Recipe(TextClassifierOptions(), build, restore, own_data=OWN_DATA)
