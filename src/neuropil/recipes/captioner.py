"""A captioner that learns to say what is on a picture: scenes of hand-written digits, or the user's own pictures and
captions.

Beside it stand the same network without attention, what was said of the nearest training picture, and the most common
caption."""

import dataclasses

from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.captions.files import CaptionDataConfig, prepare_captions
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.models.captioner import SIZES, Captioner, CaptionerConfig
from neuropil.randomness import initialised
from neuropil.tasks.captioning.experiment import CaptioningExperiment, CaptionTokensConfig
from neuropil.tasks.captioning.predictor import CaptionColumns, CaptionWriter
from neuropil.tasks.recipe import Recipe
from neuropil.training.config import TrainingConfig


class CaptionObjective(Config):
    label_smoothing: float = option(0.0, "label smoothing of the training loss", low=0, high=0.9)
    compare: bool = option(True, "ablation: also train the same network without attention (or with it)")


class CaptionerOptions(Config):
    data: CaptionDataConfig = CaptionDataConfig()
    words: CaptionTokensConfig = CaptionTokensConfig()
    model: CaptionerConfig = SIZES["base"]
    objective: CaptionObjective = CaptionObjective()
    augment: Augment = Augment(rotate=5, zoom=0.05)  # more would push digits over the edge
    training: TrainingConfig = TrainingConfig(
        epochs=5, batch_size=32, learning_rate=6e-3, warmup=0.03, clip=1.0, keep="last"
    )


OWN_DATA = CaptionerOptions(
    model=CaptionerConfig(width=32, hidden_size=256, embedding_size=128, attention_size=128, dropout=0.3),
    objective=CaptionObjective(label_smoothing=0.1, compare=False),
    augment=Augment(shift=2, zoom=0.1),
    training=TrainingConfig(updates=3_000, batch_size=32, learning_rate=2e-3, warmup=0.05, clip=1.0),
)
"""What people say of photographs has more words, and few of them are certain."""


def build(options: CaptionerOptions, seed: int) -> CaptioningExperiment:
    splits, words = prepare_captions(options.data, seed), options.words
    tokenizer = Tokenizer.train(splits.train.texts, words.tokens, words.vocabulary_size)
    config = dataclasses.replace(options.model, shape=splits.train.shape, vocabulary_size=len(tokenizer))
    other = dataclasses.replace(config, attention=not config.attention)

    def initial_model(config: CaptionerConfig) -> Captioner:
        model = initialised(lambda: Captioner(config), seed)
        model.standardize.fit(splits.train.pictures)
        return model

    columns = CaptionColumns(picture_column=options.data.picture_column, caption_column=options.data.caption_column)
    name = f"the same {'with' if other.attention else 'without'} attention"
    return CaptioningExperiment(
        CaptionWriter(initial_model(config), tokenizer, words.max_tokens, words.beam, columns),
        splits,
        options.training,
        seed=seed,
        name="captioner",
        label_smoothing=options.objective.label_smoothing,
        augment=options.augment,
        ablation=(name, initial_model(other)) if options.objective.compare else None,
    )


RECIPE = Recipe(CaptionerOptions(), build, Captioner, CaptionWriter, own_data=OWN_DATA)
