"""A bidirectional recurrent network that tags each token of a text: the fields of a date, or the user's own tags."""

import dataclasses

from neuropil.config import Config
from neuropil.data.tagged_texts.files import TaggedTextConfig, prepare_tagged_texts
from neuropil.data.tokenizers.tags import TagVocabulary
from neuropil.models.recurrent import RecurrentNetwork, RecurrentNetworkConfig
from neuropil.randomness import initialised
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.tagging.experiment import TaggingExperiment, TaggingObjective, TagTokensConfig
from neuropil.tasks.tagging.predictor import Tagger
from neuropil.tasks.texts import shrink_embeddings
from neuropil.training.config import TrainingConfig


class TaggerOptions(Config):
    data: TaggedTextConfig = TaggedTextConfig()
    tokens: TagTokensConfig = TagTokensConfig()
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


def build(options: TaggerOptions, seed: int) -> TaggingExperiment:
    splits = prepare_tagged_texts(options.data, seed)
    tags = tuple(sorted({tag for text in splits.train.tags for tag in text}))
    vocabulary = TagVocabulary.learn(splits.train.tokens, splits.train.kind, options.tokens.vocabulary_size)
    config = dataclasses.replace(options.model, shape="aligned", vocabulary_size=len(vocabulary), output_size=len(tags))
    model = initialised(lambda: RecurrentNetwork(config), seed)
    shrink_embeddings(model.embedding)
    tagger = Tagger(model, vocabulary, tags, options.tokens.max_tokens, options.data.columns)
    objective, training = options.objective, options.training
    return TaggingExperiment(tagger, splits, training, seed=seed, name="tagger", objective=objective)


RECIPE = Recipe(TaggerOptions(), build, RecurrentNetwork, Tagger, own_data=OWN_DATA)
