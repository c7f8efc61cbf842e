"""Recurrent language models: what the recipes of all cells have in common. A network reads a text and learns what comes next."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int64, Integer
from torch import Tensor

from neuropil.config import Config, from_data, option
from neuropil.data.corpus.dataset import TextDataConfig, prepare_text
from neuropil.data.corpus.streams import TextStreams
from neuropil.data.tokenizers.encoding import encode_text
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.errors import InputError
from neuropil.inspection.gates import Passage
from neuropil.models.recurrent import CellName, RecurrentLayersConfig, RecurrentNetwork, RecurrentNetworkConfig
from neuropil.parts.losses import categorical_cross_entropy
from neuropil.parts.next_token import NextToken
from neuropil.protocols import END, PADDING, START, UNKNOWN
from neuropil.randomness import initialised
from neuropil.sampling.text.recurrent import RecurrentDecoderState, step_of
from neuropil.tasks.language_modelling import report as language_report
from neuropil.tasks.language_modelling.experiment import LanguageModelling
from neuropil.tasks.language_modelling.predictor import Beginning, LanguageModel
from neuropil.tasks.recipe import Recipe
from neuropil.training.evaluation import evaluate
from neuropil.training.loop import TrainingConfig, pick_device

TOKENIZER_FILE = "tokenizer.json"
NEVER_WRITTEN = (PADDING, START, END, UNKNOWN)
EVALUATION_STREAMS = 8


class TokensConfig(Config):
    tokens: Literal["characters", "bpe", "words"] = option(
        "characters", "what the text is cut into; bpe learns frequent pieces of words"
    )
    vocabulary_size: int = option(8_000, "maximum vocabulary size", low=8)


class LanguageConfig(RecurrentLayersConfig):
    """One direction only: what comes next must not be seen. Each cell is a system of its own."""

    cell: CellName = from_data("lstm", "recurrent cell")
    hidden_size: int = option(256, "hidden size", low=1)

    def of(self, size: int) -> RecurrentNetworkConfig:
        return RecurrentNetworkConfig(**self.to_dict(), shape="aligned", vocabulary_size=size, output_size=size)


class StreamsConfig(Config):
    steps: int = option(64, "tokens in a piece of the text, which is as far back as a gradient goes", low=1)
    carry_state: bool = option(True, "begin each piece with the state that the one before it ended with")

    def learned(
        self, tokens: Integer[Tensor, " token"], batch_size: int, seed: int, device: torch.device
    ) -> TextStreams:
        return TextStreams(tokens, batch_size, self.steps, seed=seed, device=device)

    def scored(self, tokens: Integer[Tensor, " token"], device: torch.device) -> TextStreams:
        return TextStreams(tokens, EVALUATION_STREAMS, self.steps, device=device)


class LanguageOptions(Config):
    data: TextDataConfig = TextDataConfig()
    cut: TokensConfig = TokensConfig()
    model: LanguageConfig = LanguageConfig()
    streams: StreamsConfig = StreamsConfig()
    training: TrainingConfig = TrainingConfig(batch_size=32, updates=1_500, learning_rate=4e-3, clip=1.0)


def recipe_for(cell: CellName, **model: Any) -> Recipe:
    """The recipe of one cell, with what it needs to be different."""
    options = LanguageOptions(model=LanguageConfig(cell=cell, **model))
    return Recipe(options, build, restore)


def build(options: LanguageOptions, seed: int) -> LanguageModelling:
    corpus = prepare_text(options.data)
    tokenizer = Tokenizer.train([corpus.train], options.cut.tokens, options.cut.vocabulary_size)
    config = options.model.of(len(tokenizer))
    model = initialised(lambda: RecurrentNetwork(config), seed).to(pick_device(options.training.device))
    language_model = RecurrentLanguageModel(model, tokenizer)
    return LanguageModelling(
        language_model,
        config,
        corpus,
        options.streams,
        options.training,
        seed=seed,
        name=config.cell,
        learner=NextToken(model, carry_state=options.streams.carry_state),
        judge=NextToken(model),
        parameters=model.parameter_table(),
        save=lambda folder: tokenizer.save(folder / TOKENIZER_FILE),
        inside=lambda experiment: [language_report.gates_section(experiment, language_model)],
    )


def restore(facts: Mapping[str, Any], folder: Path) -> "RecurrentLanguageModel":
    return RecurrentLanguageModel(
        RecurrentNetwork(RecurrentNetworkConfig.from_dict(facts["model"])), Tokenizer.load(folder / TOKENIZER_FILE)
    )


class RecurrentLanguageModel(LanguageModel[RecurrentNetwork]):
    """It reads texts of any length, and its gates can be watched."""

    def __init__(self, model: RecurrentNetwork, tokenizer: Tokenizer):
        super().__init__(model, tokenizer, never=NEVER_WRITTEN)

    def begin(self, rows: int, room: int | None, precision: str) -> Beginning:
        if precision != "float32":
            raise InputError("a recurrent model writes in float32", got=precision)
        return Beginning(step_of(self.model.stream), RecurrentDecoderState())

    @torch.no_grad()
    def judge(self, tokens: Int64[Tensor, " time"]) -> tuple[Float[Tensor, " following"], Float[Tensor, " token"]]:
        logits = self.model.stream(tokens.unsqueeze(0)).outputs[0].cpu()
        return categorical_cross_entropy(logits[:-1], tokens[1:].cpu()), logits[-1]

    def losses(self, text: str) -> dict[str, float]:
        streams = TextStreams(encode_text(self.tokenizer, text), 1, 1_024, device=self.device)
        return evaluate(NextToken(self.model), streams)

    def passage(self, text: str) -> Passage:
        tokens = self.tokens_of(text)
        return Passage(lambda: self.model.stream(tokens.unsqueeze(0)), lambda _: self.tokenizer.tokens(tokens.tolist()))
