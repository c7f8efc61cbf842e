"""GPT-2 that learns a text, Python's own documentation or the user's files, and generates more; its folder opens in
Hugging Face too."""

import dataclasses

import torch

from neuropil.config import Config, option
from neuropil.data.corpus.files import TextDataConfig, prepare_text
from neuropil.data.corpus.token_file import Tokens
from neuropil.data.corpus.windows import SlidingWindows, TextWindows
from neuropil.data.tokenizers.learned import learn_merges
from neuropil.inspection.report.attention import attention_section, lens_section
from neuropil.models.gpt2 import GPT2, SIZES, GPT2Config
from neuropil.parts.objectives import NextTokenInWindow
from neuropil.randomness import initialised
from neuropil.tasks.language_modelling.experiment import LanguageModellingExperiment
from neuropil.tasks.language_modelling.gpt2 import EVALUATION_WINDOWS, GPT2LanguageModel
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.time_limit import Ladder, Size
from neuropil.training.config import TrainingConfig

SHOWN_CHARACTERS = 400


class MergesConfig(Config):
    vocabulary_size: int = option(1_000, "maximum vocabulary size (byte-level BPE)", low=257)


@dataclasses.dataclass(frozen=True)
class ContextWindows:
    """As many tokens at a time as the model can see."""

    context: int

    def training_batches(self, tokens: Tokens, batch_size: int, seed: int, device: torch.device) -> TextWindows:
        return TextWindows(tokens, batch_size, self.context, seed=seed, device=device)

    def evaluation_batches(self, tokens: Tokens, device: torch.device) -> SlidingWindows:
        return SlidingWindows(tokens, EVALUATION_WINDOWS, self.context, device=device)


class GPT2Options(Config):
    data: TextDataConfig = TextDataConfig()
    tokens: MergesConfig = MergesConfig()
    model: GPT2Config = dataclasses.replace(SIZES["tiny"], context=128, dropout=0.15)
    # The embedded text is short: it is passed over often, in small steps, and what was learned by heart must be
    # forgotten again.
    training: TrainingConfig = TrainingConfig(
        batch_size=4, updates=2_500, learning_rate=2e-3, weight_decay=0.1, clip=1.0
    )


OWN_DATA = GPT2Options(
    tokens=MergesConfig(vocabulary_size=4_000),
    model=SIZES["tiny"],
    training=dataclasses.replace(GPT2Options().training, batch_size=8, updates=3_000, learning_rate=3e-3),
)
"""A user's text is mostly longer."""

SHARED = {"vocabulary_size": 2_000, "context": 128, "batch_size": 16, "optimizer": "muon", "learning_rate": 7e-3}
LADDER = Ladder(
    sizes=(
        Size({"width": 64, "layers": 4, **SHARED}),
        Size({"width": 96, "layers": 4, **SHARED}, updates=3_000),
        Size({"width": 128, "layers": 4, **SHARED}, updates=5_000),
        Size({"width": 192, "layers": 5, **SHARED, "vocabulary_size": 4_000}, updates=15_000),
        Size({"width": 256, "layers": 6, **SHARED, "vocabulary_size": 8_000, "context": 256}, updates=30_000),
    ),
    dropout=((0, 0.0), (10, 0.1), (30, 0.2)),
)
"""About fifteen tokens for each weight outside the embeddings."""


def build(options: GPT2Options, seed: int) -> LanguageModellingExperiment:
    corpus = prepare_text(options.data)
    tokenizer = learn_merges(corpus.learned_texts, options.tokens.vocabulary_size)
    config = dataclasses.replace(options.model, vocabulary_size=len(tokenizer))
    model = initialised(lambda: GPT2(config), seed)
    language_model = GPT2LanguageModel(model, tokenizer)
    return LanguageModellingExperiment(
        language_model,
        corpus,
        ContextWindows(config.context),
        options.training,
        seed=seed,
        name="gpt2",
        learner=NextTokenInWindow(model),
        save=tokenizer.save,
        inside=lambda text: [
            attention_section(language_model, text[:SHOWN_CHARACTERS]),
            lens_section(language_model, model, text[:SHOWN_CHARACTERS]),
        ],
    )


RECIPE = Recipe(GPT2Options(), build, GPT2, GPT2LanguageModel, own_data=OWN_DATA, ladder=LADDER)
