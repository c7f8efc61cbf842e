"""BERT fine-tuned to classify texts: from pretrained weights (`--start`), or a small one from scratch."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from neuropil.config import Config, flag_of, option
from neuropil.data.labelled_texts.files import LabelledTextConfig, prepare_labelled_texts
from neuropil.data.tokenizers.learned import learn_word_pieces
from neuropil.data.tokenizers.published import PublishedTokenizer, fitting_tokenizer
from neuropil.errors import InputError
from neuropil.models.bert import SIZES, BERTClassifier, BERTConfig
from neuropil.pretrained.folders import located
from neuropil.randomness import initialised
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.text_classification.experiment import TextClassificationExperiment, TextObjective
from neuropil.tasks.text_classification.predictor import MaskedTextClassifier, WordPieceConfig, WordPieceEncoder
from neuropil.tasks.time_limit import Ladder, Size
from neuropil.training.config import TrainingConfig

ADJUSTABLE = ("dropout", "attention_dropout")
"""What a model to start from may have differently."""


class StartConfig(Config):
    start: Path | None = option(None, "folder of a pretrained BERT to fine-tune; without it, from scratch")
    vocabulary_size: int = option(4_000, "maximum vocabulary size, from scratch", low=100)


class BERTClassifierOptions(Config):
    data: LabelledTextConfig = LabelledTextConfig()
    begin: StartConfig = StartConfig()
    tokens: WordPieceConfig = WordPieceConfig()
    model: BERTConfig = dataclasses.replace(SIZES["tiny"], context=256)
    objective: TextObjective = TextObjective(word_dropout=0.0)
    training: TrainingConfig = TrainingConfig(epochs=4, batch_size=32, learning_rate=2e-4, warmup=0.1, clip=1.0)


FINE_TUNING = BERTClassifierOptions(
    model=dataclasses.replace(BERTClassifierOptions().model, attention_dropout=0.0),
    training=TrainingConfig(epochs=2, batch_size=16, learning_rate=1e-4, warmup=0.1, clip=1.0),
)
"""Weights that know much already move little and not for long. Without dropout of the attention weights, which the
fused kernel does not have, an update takes less time."""

LADDER = Ladder(sizes=(Size({"max_tokens": 128}), Size({"max_tokens": WordPieceConfig().max_tokens}, updates=1_500)))
"""In little time more texts are better than longer ones; the model may have a size of its own (`--start`)."""


def build(options: BERTClassifierOptions, seed: int) -> TextClassificationExperiment:
    splits = prepare_labelled_texts(options.data, seed)
    model, tokenizer = initial_model(options, splits.train.texts, len(splits.train.classes), seed)
    encoder = WordPieceEncoder(tokenizer, fitting_tokens(options.tokens, model.config.context))
    classifier = MaskedTextClassifier(model, encoder, splits.train.classes, options.data.columns)
    naming = {"seed": seed, "name": "bert_classifier"}
    return TextClassificationExperiment(classifier, splits, options.training, objective=options.objective, **naming)


def fitting_tokens(tokens: WordPieceConfig, context: int) -> WordPieceConfig:
    """The default limit gives way to a shorter context; one that was given must fit."""
    if context < tokens.max_tokens != WordPieceConfig().max_tokens:
        rule = f"--max-tokens must fit into the model's context of {context} tokens"
        raise InputError(rule, got=f"{tokens.max_tokens}")
    return dataclasses.replace(tokens, max_tokens=min(tokens.max_tokens, context))


def initial_model(
    options: BERTClassifierOptions, texts: Sequence[str], classes: int, seed: int
) -> tuple[BERTClassifier, PublishedTokenizer]:
    """From a folder with a new last layer, or from scratch."""
    start = options.begin.start
    if start is None:
        tokenizer = learn_word_pieces(texts, options.begin.vocabulary_size)
        config = dataclasses.replace(options.model, vocabulary_size=len(tokenizer), classes=classes)
        return initialised(lambda: BERTClassifier(config), seed), tokenizer
    require_own_sizes(options)
    folder = located(start, "a classifier")
    changes = {name: getattr(options.model, name) for name in ADJUSTABLE} | {"classes": classes}
    model = initialised(lambda: BERTClassifier.from_pretrained(folder, **changes), seed)
    return model.train(), fitting_tokenizer(folder, model.config.vocabulary_size)


def require_own_sizes(options: BERTClassifierOptions) -> None:
    pairs = zip(BERTClassifierOptions().model.options(), options.model.options(), strict=True)
    changed = [given.name for usual, given in pairs if given.default != usual.default and given.name not in ADJUSTABLE]
    if changed:
        raise InputError(
            "a model to start from has sizes of its own",
            got=f"{flag_of(changed[0])} too",
            fix="leave it out",
        )


RECIPE = Recipe(
    BERTClassifierOptions(), build, BERTClassifier, MaskedTextClassifier, fine_tuning=FINE_TUNING, ladder=LADDER
)
