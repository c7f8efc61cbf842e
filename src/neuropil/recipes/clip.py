"""CLIP learns which caption belongs to which picture: scenes of hand-written digits, or the user's own pictures and captions.

What is scored is whether the right one is found among a hundred unseen pairs, from the picture and from the caption. Beside it stand a
search for the words that were said of the nearest training picture, and a guess. The run's folder opens in Hugging Face's library.
"""

from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.captions.files import CaptionDataConfig, prepare_captions
from neuropil.data.patches import choose_patch, filled_shape, resized_captioned, usual_patch
from neuropil.data.tokenizers.learned import learn_clip_vocabulary
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.models.clip import CLIP, CLIPConfig
from neuropil.randomness import initialised
from neuropil.tasks.captioning.predictor import CaptionColumns
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.retrieval.experiment import CaptionBatchesConfig, RetrievalExperiment
from neuropil.tasks.retrieval.predictor import Retriever
from neuropil.training.loop import TrainingConfig


class TowersConfig(Config):
    shared: int = option(64, "numbers in the space where pictures and captions meet", low=1)
    patch: int | None = option(
        4,
        "height and width of a patch in pixels; without it the smallest that fills a picture with at most 8 a side",
        low=1,
    )
    width: int = option(64, "numbers that stand for a patch", low=2)
    heads: int = option(4, "attention heads in each layer that sees; they divide the width", low=1)
    layers: int = option(3, "blocks that see", low=1)
    text_width: int = option(64, "numbers that stand for a token", low=2)
    text_heads: int = option(4, "attention heads in each layer that reads; they divide its width", low=1)
    text_layers: int = option(2, "blocks that read", low=1)
    context: int = option(
        32, "tokens that can be read at once, start and end among them; a longer caption loses its end", low=3
    )
    dropout: float = option(0.0, "share of each sublayer's output that is silenced in training", low=0, high=0.95)

    def of(self, shape: tuple[int, ...], patch: int, tokenizer: PublishedTokenizer) -> CLIPConfig:
        return CLIPConfig(
            **{name: value for name, value in self.to_dict().items() if name != "patch"},
            patch=patch,
            feed_forward=4 * self.width,
            text_feed_forward=4 * self.text_width,
            shape=shape,
            vocabulary=len(tokenizer),
            end=len(tokenizer) - 1,  # as in the vocabulary that was published
        )


class CLIPOptions(Config):
    data: CaptionDataConfig = CaptionDataConfig(scenes=43_000, raster=4)
    captions: CaptionBatchesConfig = CaptionBatchesConfig(short_first=(0.1,), alike=32)
    model: TowersConfig = TowersConfig()
    augment: Augment = Augment(rotate=5, zoom=0.05)  # more would push digits over the edge
    training: TrainingConfig = TrainingConfig(
        epochs=15, batch_size=64, learning_rate=2e-3, weight_decay=0.05, warmup=0.02, clip=1.0, keep="last"
    )


OWN_DATA = CLIPOptions(
    data=CaptionDataConfig(),
    captions=CaptionBatchesConfig(short_first=()),
    model=TowersConfig(shared=128, patch=None, width=128, layers=4, text_width=128, context=77, dropout=0.1),
    augment=Augment(shift=2, zoom=0.1),
    training=TrainingConfig(updates=3_000, batch_size=128, learning_rate=1e-3, warmup=0.1, clip=1.0),
)
"""What people say of photographs has more words, and is longer."""


def build(options: CLIPOptions, seed: int) -> RetrievalExperiment:
    splits = prepare_captions(options.data, seed)
    shape = splits.train.shape
    patch = options.model.patch or choose_patch(shape) or usual_patch(shape)
    splits = resized_captioned(splits, filled_shape(shape, patch)) if filled_shape(shape, patch) != shape else splits
    tokenizer = learn_clip_vocabulary(splits.train.texts, options.captions.vocabulary_size)
    config = options.model.of(splits.train.shape, patch, tokenizer)
    model = initialised(lambda: CLIP(config), seed)
    model.seeing.standardize.fit(splits.train.pictures)
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
