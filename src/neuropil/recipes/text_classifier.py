"""A recurrent network beside a bag of words that classifies texts: docstrings by library, or the user's by label."""

import dataclasses

from neuropil.config import Config
from neuropil.data.labelled_texts.files import LabelledTextConfig, prepare_labelled_texts
from neuropil.models.text_classifier import RecurrentTextClassifier, RecurrentTextClassifierConfig
from neuropil.randomness import initialised
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.text_classification.bag import fit_bag
from neuropil.tasks.text_classification.experiment import TextClassificationExperiment, TextObjective
from neuropil.tasks.text_classification.predictor import LearnedEncoder, TextClassifier, TokensConfig
from neuropil.tasks.texts import shrink_embeddings
from neuropil.tasks.time_limit import Ladder, Size
from neuropil.training.config import TrainingConfig


class TextClassifierOptions(Config):
    data: LabelledTextConfig = LabelledTextConfig()
    tokens: TokensConfig = TokensConfig(tokens="bpe", vocabulary_size=8_000)
    model: RecurrentTextClassifierConfig = RecurrentTextClassifierConfig(
        cell="gru", hidden_size=128, embedding_size=128, bidirectional=True, pooling="max", dropout=0.5
    )
    objective: TextObjective = TextObjective(label_smoothing=0.1, word_dropout=0.2)
    training: TrainingConfig = TrainingConfig(epochs=10, batch_size=64, learning_rate=2e-3, clip=1.0)


OWN_DATA = TextClassifierOptions(
    tokens=TokensConfig(),
    model=dataclasses.replace(TextClassifierOptions().model, hidden_size=64, embedding_size=64),
    objective=TextObjective(label_smoothing=0.1),
    training=TrainingConfig(updates=1_000, batch_size=32, learning_rate=3e-3, clip=1.0),
)
"""Texts of a user's may be long, and have whole words to tell them apart."""

LADDER = Ladder(
    sizes=(
        Size({"hidden_size": 64, "embedding_size": 64}),
        Size({"hidden_size": 128, "embedding_size": 128}, updates=4_000),
    )
)


def build(options: TextClassifierOptions, seed: int) -> TextClassificationExperiment:
    splits = prepare_labelled_texts(options.data, seed)
    encoder = LearnedEncoder.learn(splits.train.texts, options.tokens)
    sizes = {"vocabulary_size": len(encoder.tokenizer), "output_size": len(splits.train.classes)}
    config = dataclasses.replace(options.model, shape="many_to_one", **sizes)
    model = initialised(lambda: RecurrentTextClassifier(config), seed)
    shrink_embeddings(model.network.embedding)
    classifier = TextClassifier(model, encoder, splits.train.classes, options.data.columns)
    naming = {"seed": seed, "name": "text_classifier"}
    experiment = TextClassificationExperiment(
        classifier, splits, options.training, objective=options.objective, **naming
    )
    if config.bag:
        fit_bag(model.bag, experiment.encoded["train"], experiment.encoded["validation"])
    return experiment


RECIPE = Recipe(
    TextClassifierOptions(), build, RecurrentTextClassifier, TextClassifier, own_data=OWN_DATA, ladder=LADDER
)
