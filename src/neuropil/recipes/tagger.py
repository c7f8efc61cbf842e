"""A recurrent network that reads a text from both sides and tags each of its tokens: the fields of a date, or the user's own tags."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuropil.config import Config
from neuropil.data.tagged_texts.sources import TaggedTextConfig, prepare_tagged_texts
from neuropil.data.tokenizers.tags import TagVocabulary
from neuropil.models.recurrent import RecurrentNetwork, RecurrentNetworkConfig
from neuropil.randomness import initialised
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.tagging.experiment import Tagger, TaggingObjective, TagReadingConfig, TextTagging, restore_tagger
from neuropil.tasks.text_experiment import begin_alike
from neuropil.training.loop import TrainingConfig, pick_device


class TaggerOptions(Config):
    data: TaggedTextConfig = TaggedTextConfig()
    reading: TagReadingConfig = TagReadingConfig()
    model: RecurrentNetworkConfig = RecurrentNetworkConfig(
        hidden_size=64, embedding_size=32, bidirectional=True, dropout=0.1
    )
    objective: TaggingObjective = TaggingObjective(word_dropout=0.02)
    training: TrainingConfig = TrainingConfig(updates=800, batch_size=64, learning_rate=5e-3, clip=1.0)


OWN_DATA = TaggerOptions(
    model=RecurrentNetworkConfig(hidden_size=128, embedding_size=100, bidirectional=True, dropout=0.4),
    objective=TaggingObjective(),
    training=TrainingConfig(updates=2_000, batch_size=32, learning_rate=3e-3, clip=1.0),
)
"""Words of a user's are many, and most of them rare."""


def build(options: TaggerOptions, seed: int) -> TextTagging:
    splits = prepare_tagged_texts(options.data, seed)
    tags = tuple(sorted({tag for text in splits.train.tags for tag in text}))
    vocabulary = TagVocabulary.learn(splits.train.tokens, splits.train.kind, options.reading.vocabulary_size)
    config = dataclasses.replace(options.model, shape="aligned", vocabulary_size=len(vocabulary), output_size=len(tags))
    model = initialised(lambda: RecurrentNetwork(config), seed).to(pick_device(options.training.device))
    begin_alike(model.embedding)
    return TextTagging(
        model,
        config,
        splits,
        Tagger(model, vocabulary, tags, options.reading.max_tokens, options.data.columns),
        options.training,
        seed=seed,
        name="tagger",
        objective=options.objective,
        parameters=model.parameter_table(),
    )


def restore(facts: Mapping[str, Any], folder: Path) -> Tagger:
    return restore_tagger(RecurrentNetwork(RecurrentNetworkConfig.from_dict(facts["model"])), facts, folder)


RECIPE = Recipe(TaggerOptions(), build, restore, own_data=OWN_DATA)
