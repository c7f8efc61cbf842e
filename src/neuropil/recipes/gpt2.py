"""GPT-2 that learns a text, Python's own documentation or the user's files, and goes on with it; its folder opens in Hugging Face too."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Integer
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.corpus.dataset import TextDataConfig, prepare_text
from neuropil.data.corpus.windows import SlidingWindows, TextWindows
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.data.tokenizers.training import learn_merges
from neuropil.inspection.report.attention import attention_section, lens_section
from neuropil.inspection.report.page import Section
from neuropil.models.gpt2 import GPT2, SIZES, GPT2Config
from neuropil.parts.next_token import NextTokenInWindow
from neuropil.randomness import initialised
from neuropil.tasks.language_modelling.experiment import LanguageModelling
from neuropil.tasks.language_modelling.gpt2 import EVALUATION_WINDOWS, GPT2LanguageModel
from neuropil.tasks.recipe import Recipe
from neuropil.training.loop import TrainingConfig, pick_device

SHOWN_CHARACTERS = 400


class MergesConfig(Config):
    vocabulary_size: int = option(
        1_000, "maximum vocabulary size: 256 bytes, and frequent neighbours that were merged", low=257
    )


@dataclasses.dataclass(frozen=True)
class Windows:
    """As many tokens at a time as the model can see."""

    context: int

    def learned(
        self, tokens: Integer[Tensor, " token"], batch_size: int, seed: int, device: torch.device
    ) -> TextWindows:
        return TextWindows(tokens, batch_size, self.context, seed=seed, device=device)

    def scored(self, tokens: Integer[Tensor, " token"], device: torch.device) -> SlidingWindows:
        return SlidingWindows(tokens, EVALUATION_WINDOWS, self.context, device=device)


class GPT2Options(Config):
    data: TextDataConfig = TextDataConfig()
    cut: MergesConfig = MergesConfig()
    model: GPT2Config = dataclasses.replace(SIZES["tiny"], context=128, dropout=0.15)
    training: TrainingConfig = TrainingConfig(
        batch_size=4, updates=2_500, learning_rate=2e-3, weight_decay=0.1, clip=1.0
    )
    """The embedded text is short: it is passed over often, in small steps, and what was learned by heart must be forgotten again."""


OWN_DATA = GPT2Options(
    cut=MergesConfig(vocabulary_size=4_000),
    model=SIZES["tiny"],
    training=dataclasses.replace(GPT2Options().training, batch_size=8, updates=3_000, learning_rate=3e-3),
)
"""A user's text is mostly longer."""


def build(options: GPT2Options, seed: int) -> LanguageModelling:
    corpus = prepare_text(options.data)
    tokenizer = learn_merges([corpus.train], options.cut.vocabulary_size)
    config = dataclasses.replace(options.model, vocabulary_size=len(tokenizer))
    model = initialised(lambda: GPT2(config), seed).to(pick_device(options.training.device))
    learner = NextTokenInWindow(model)
    return LanguageModelling(
        GPT2LanguageModel(model, tokenizer),
        config,
        corpus,
        Windows(config.context),
        options.training,
        seed=seed,
        name="gpt2",
        learner=learner,
        judge=learner,
        parameters=model.parameter_table(),
        save=tokenizer.save,
        inside=inside,
    )


def inside(experiment: LanguageModelling) -> list[Section]:
    language_model, text = experiment.language_model, experiment.held_out_text(SHOWN_CHARACTERS)
    return [attention_section(language_model, text), lens_section(language_model, language_model.model, text)]


def restore(facts: Mapping[str, Any], folder: Path) -> GPT2LanguageModel:
    return GPT2LanguageModel(GPT2(GPT2Config.from_dict(facts["model"])), PublishedTokenizer.load(folder))


RECIPE = Recipe(GPT2Options(), build, restore, own_data=OWN_DATA)
