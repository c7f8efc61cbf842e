"""A plain recurrent network that learns a text and generates more of it; the recipes of the other cells follow from
this one."""

import torch

from neuropil.config import Config, from_data, option
from neuropil.data.corpus.files import TextDataConfig, prepare_text
from neuropil.data.corpus.streams import TextStreams
from neuropil.data.corpus.token_file import Tokens
from neuropil.data.tokenizers.learned import Kind, Tokenizer
from neuropil.models.recurrent import CellName, RecurrentLayersConfig, RecurrentNetwork, RecurrentNetworkConfig
from neuropil.parts.activations import ActivationName
from neuropil.parts.objectives import NextToken
from neuropil.randomness import initialised
from neuropil.tasks.language_modelling.experiment import LanguageModellingExperiment
from neuropil.tasks.language_modelling.recurrent import TOKENIZER_FILE, RecurrentLanguageModel
from neuropil.tasks.language_modelling.report import gates_section
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.time_limit import Ladder, Size
from neuropil.training.config import TrainingConfig

EVALUATION_STREAMS = 8


class CorpusTokensConfig(Config):
    tokens: Kind = option("characters", "tokens: words, characters, or bpe (byte-pair encoding)")
    vocabulary_size: int = option(8_000, "maximum vocabulary size", low=8)


class LanguageConfig(RecurrentLayersConfig):
    """One direction only: what comes next must not be seen. Each cell is a system of its own."""

    cell: CellName = from_data("lstm", "recurrent cell")

    def of(self, size: int) -> RecurrentNetworkConfig:
        return RecurrentNetworkConfig(**self.to_dict(), shape="aligned", vocabulary_size=size, output_size=size)


class StreamsConfig(Config):
    steps: int = option(64, "tokens of a segment: the length of truncated back-propagation through time", low=1)
    carry_state: bool = option(True, "start each segment from the final state of the one before it")

    def training_batches(self, tokens: Tokens, batch_size: int, seed: int, device: torch.device) -> TextStreams:
        return TextStreams(tokens, batch_size, self.steps, seed=seed, device=device)

    def evaluation_batches(self, tokens: Tokens, device: torch.device) -> TextStreams:
        return TextStreams(tokens, EVALUATION_STREAMS, self.steps, device=device)


class RecurrentOptions(Config):
    data: TextDataConfig = TextDataConfig()
    tokens: CorpusTokensConfig = CorpusTokensConfig()
    model: LanguageConfig = LanguageConfig()
    streams: StreamsConfig = StreamsConfig()
    training: TrainingConfig = TrainingConfig(batch_size=32, updates=1_500, learning_rate=4e-3, clip=1.0)


GROWTH = ((1.0, 0), (1.5, 5_000), (2.0, 10_000), (3.0, 22_000))
"""Of the hidden size, and the fewest updates for it: about fifteen characters for each weight."""


def recipe_for(options: RecurrentOptions) -> Recipe:
    """The recipe of the cell that the options name."""
    cell, hidden_size = options.model.cell, options.model.hidden_size
    sizes = [Size({"hidden_size": round(factor * hidden_size)}, updates) for factor, updates in GROWTH]
    ladder = Ladder(sizes, dropout=((0, 0.0), (10, 0.1), (30, 0.2)))
    return Recipe(options, build, RecurrentNetwork, RecurrentLanguageModel, ladder=ladder, about=f"models.{cell}")


def build(options: RecurrentOptions, seed: int) -> LanguageModellingExperiment:
    corpus = prepare_text(options.data)
    tokenizer = Tokenizer.train(corpus.learned_texts, options.tokens.tokens, options.tokens.vocabulary_size)
    config = options.model.of(len(tokenizer))
    model = initialised(lambda: RecurrentNetwork(config), seed)
    language_model = RecurrentLanguageModel(model, tokenizer)
    return LanguageModellingExperiment(
        language_model,
        corpus,
        options.streams,
        options.training,
        seed=seed,
        name=config.cell,
        learner=NextToken(model, carry_state=options.streams.carry_state),
        scorer=NextToken(model),
        save=lambda folder: tokenizer.save(folder / TOKENIZER_FILE),
        inside=lambda text: [gates_section(language_model, text)],
    )


class RNNLanguageConfig(LanguageConfig):
    activation: ActivationName = option("tanh", "activation φ of the hidden units")


class RNNOptions(RecurrentOptions):
    model: RNNLanguageConfig = RNNLanguageConfig(cell="rnn", hidden_size=444)


RECIPE = recipe_for(RNNOptions())
