"""CLIP learns which caption belongs to which picture: scenes of hand-written digits, or the user's own pictures and
captions.

What is scored is whether the right one is found among a hundred unseen pairs, from the picture and from the caption.
Beside it stand a search for the words that were said of the nearest training picture, and chance. The run's folder
opens in Hugging Face's library."""

import dataclasses

from neuropil.config import Config
from neuropil.data.augmentation import Augment
from neuropil.data.captions.files import CaptionDataConfig, prepare_captions
from neuropil.data.patches import choose_patch, filled_shape, resized_captioned, usual_patch
from neuropil.data.tokenizers.learned import learn_clip_vocabulary
from neuropil.models.clip import CLIP, CLIPConfig, TextTowerConfig, VisionTowerConfig
from neuropil.randomness import initialised
from neuropil.tasks.captioning.predictor import CaptionColumns
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.retrieval.experiment import CaptionBatchesConfig, RetrievalExperiment
from neuropil.tasks.retrieval.predictor import Retriever
from neuropil.training.config import TrainingConfig


class CLIPOptions(Config):
    data: CaptionDataConfig = CaptionDataConfig(scenes=43_000, raster=4)
    captions: CaptionBatchesConfig = CaptionBatchesConfig(short_first=(0.1,), alike=32)
    model: CLIPConfig = CLIPConfig(
        embedding_size=64,
        vision=VisionTowerConfig(width=64, heads=4, layers=3, patch=4, shape=()),
        text=TextTowerConfig(width=64, heads=4, layers=2, context=32),
    )
    augment: Augment = Augment(rotate=5, zoom=0.05)  # more would push digits over the edge
    training: TrainingConfig = TrainingConfig(
        epochs=15, batch_size=64, learning_rate=2e-3, weight_decay=0.05, warmup=0.02, clip=1.0, keep="last"
    )


OWN_DATA = CLIPOptions(
    data=CaptionDataConfig(),
    captions=CaptionBatchesConfig(short_first=()),
    model=CLIPConfig(
        embedding_size=128,
        vision=VisionTowerConfig(width=128, heads=4, layers=4, patch=None, shape=(), dropout=0.1),
        text=TextTowerConfig(width=128, heads=4, layers=2, dropout=0.1),
    ),
    augment=Augment(shift=2, zoom=0.1),
    training=TrainingConfig(updates=3_000, batch_size=128, learning_rate=1e-3, warmup=0.1, clip=1.0),
)
"""What people say of photographs has more words, and is longer."""


def build(options: CLIPOptions, seed: int) -> RetrievalExperiment:
    splits = prepare_captions(options.data, seed)
    shape = splits.train.shape
    patch = options.model.vision.patch or choose_patch(shape) or usual_patch(shape)
    splits = resized_captioned(splits, filled_shape(shape, patch)) if filled_shape(shape, patch) != shape else splits
    tokenizer = learn_clip_vocabulary(splits.train.texts, options.captions.vocabulary_size)
    size = len(tokenizer)
    config = dataclasses.replace(
        options.model,
        vision=dataclasses.replace(options.model.vision, patch=patch, shape=splits.train.shape),
        # The end is the last token, as in the vocabulary that was published.
        text=dataclasses.replace(options.model.text, vocabulary_size=size, end=size - 1),
    )
    model = initialised(lambda: CLIP(config), seed)
    model.vision.standardize.fit(splits.train.pictures)
    columns = CaptionColumns(picture_column=options.data.picture_column, caption_column=options.data.caption_column)
    return RetrievalExperiment(
        Retriever(model, tokenizer, columns),
        splits,
        options.training,
        seed=seed,
        name="clip",
        augment=options.augment,
        captions=options.captions,
    )


RECIPE = Recipe(CLIPOptions(), build, CLIP, Retriever, own_data=OWN_DATA)
