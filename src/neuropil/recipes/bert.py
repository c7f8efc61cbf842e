"""BERT that learns to fill in masked words, in Python's own documentation or the user's text; its folder opens in
Hugging Face too."""

import dataclasses

from neuropil.config import Config
from neuropil.data.corpus.files import TextDataConfig, prepare_text
from neuropil.data.tokenizers.learned import learn_word_pieces
from neuropil.models.bert import SIZES, BERTConfig, MaskedBERT
from neuropil.randomness import initialised
from neuropil.tasks.masked_language_modelling.experiment import MaskedLanguageModellingExperiment, MaskingConfig
from neuropil.tasks.masked_language_modelling.predictor import TextFiller
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.time_limit import Ladder, Size
from neuropil.training.config import TrainingConfig


class BERTOptions(Config):
    data: TextDataConfig = TextDataConfig()
    masking: MaskingConfig = MaskingConfig()
    model: BERTConfig = dataclasses.replace(SIZES["tiny"], dropout=0.0, attention_dropout=0.0)
    training: TrainingConfig = TrainingConfig(batch_size=16, updates=2_500, learning_rate=2e-3, warmup=0.1, clip=1.0)


LADDER = Ladder(
    sizes=(
        Size({"width": 128, "layers": 2}),
        Size({"width": 192, "layers": 4, "learning_rate": 1e-3}, updates=15_000),
        Size({"width": 256, "layers": 6, "learning_rate": 1e-3}, updates=35_000),
    ),
    dropout=((0, 0.0), (20, 0.1)),
)


def build(options: BERTOptions, seed: int) -> MaskedLanguageModellingExperiment:
    corpus = prepare_text(options.data)
    tokenizer = learn_word_pieces(corpus.learned_texts, options.masking.vocabulary_size)
    config = dataclasses.replace(options.model, vocabulary_size=len(tokenizer), pooler=False)
    filler = TextFiller(initialised(lambda: MaskedBERT(config), seed), tokenizer)
    masking, training = options.masking, options.training
    return MaskedLanguageModellingExperiment(filler, corpus, training, seed=seed, name="bert", masking=masking)


RECIPE = Recipe(BERTOptions(), build, MaskedBERT, TextFiller, ladder=LADDER)
