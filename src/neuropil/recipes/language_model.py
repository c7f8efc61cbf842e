"""Language models: what the recipes of all recurrent cells have in common. A network reads a text and learns what comes next."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int32
from torch import Tensor

from neuropil.config import Config, from_data, option
from neuropil.data.text_corpus import Corpus, TextDataConfig, prepare_text, read_text
from neuropil.data.text_streams import TextStreams
from neuropil.data.tokenizers import Tokenizer
from neuropil.errors import InputError
from neuropil.inspection.gates import Passage
from neuropil.inspection.report import Section
from neuropil.models.sequence import CellName, SequenceConfig
from neuropil.models.sequence import Sequence as SequenceModel
from neuropil.parts.losses import categorical_cross_entropy
from neuropil.parts.next_token import NextToken
from neuropil.protocols import END, PADDING, START, UNKNOWN
from neuropil.recipes import language_report
from neuropil.recipes.fingerprint import fingerprint
from neuropil.recipes.language_baselines import ORDERS, PACKERS, n_gram_losses, packed_nats
from neuropil.recipes.recipe import Recipe, Result
from neuropil.recipes.supervised import initialised
from neuropil.sampling.choosing import Choosing
from neuropil.sampling.recurrent import Carried, step_of
from neuropil.sampling.streaming import streamed
from neuropil.sampling.writing import Writing
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig, fit, pick_device, require_monitor

TOKENIZER_FILE = "tokenizer.json"
NEVER_WRITTEN = (PADDING, START, END, UNKNOWN)
EVALUATION_STREAMS = 8


class TokensConfig(Config):
    tokens: Literal["characters", "bpe", "words"] = option("characters", "what the text is cut into; bpe learns frequent pieces of words")
    vocabulary: int = option(8_000, "tokens to tell apart, at most", low=8)


class LanguageConfig(Config):
    cell: CellName = from_data("lstm", "what is repeated at every step")
    units: int = option(256, "numbers that a layer remembers from step to step", low=1)
    layers: int = option(1, "layers, each of which reads the one below", low=1)
    residual: bool = option(False, "layers in blocks that add to what they read, each with a feed-forward net")
    embedding: int = option(64, "width of a token's vector", low=1)
    dropout: float = option(0.0, "share of the numbers between layers that are silenced in each training step", low=0, high=0.95)

    def of(self, vocabulary: int) -> SequenceConfig:
        return SequenceConfig(**self.to_dict(), shape="aligned", tokens=vocabulary, outputs=vocabulary)


class StreamsConfig(Config):
    steps: int = option(64, "tokens in a piece of the text, which is as far back as a gradient goes", low=1)
    carry_state: bool = option(True, "begin each piece with the state that the one before it ended with")


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


def build(options: LanguageOptions, seed: int) -> "LanguageModelling":
    corpus = prepare_text(options.data)
    tokenizer = Tokenizer.train([corpus.train], options.cut.tokens, options.cut.vocabulary)
    config = options.model.of(len(tokenizer))
    model = initialised(lambda: SequenceModel(config), seed)
    return LanguageModelling(model, corpus, tokenizer, options.streams, options.training, seed=seed)


def restore(facts: Mapping[str, Any], folder: Path) -> "LanguageModel":
    return LanguageModel(SequenceModel(SequenceConfig.from_dict(facts["model"])), Tokenizer.load(folder / TOKENIZER_FILE))


class Surprise(NamedTuple):
    """How unexpected each token of a text was, and what it would have been."""

    tokens: list[str]
    """The read ones, from the second on: nothing comes before the first."""
    nats: Float[Tensor, " token"]
    characters: int
    following: list[tuple[str, float]]
    """The likeliest tokens after the text, with their probabilities."""


@dataclass(frozen=True)
class Surprises:
    texts: list[Surprise]

    def __len__(self) -> int:
        return len(self.texts)

    def lines(self) -> list[list[str]]:
        return [
            [
                f"{float(text.nats.sum()) / math.log(2) / max(text.characters, 1):.3f} bits per character",
                *(f"{token!r} {100 * share:.1f} %" for token, share in text.following),
            ]
            for text in self.texts
        ]


@dataclass(frozen=True)
class LanguageModel:
    """A trained model and its tokenizer: it goes on with texts, and says how much each token of one surprised it."""

    model: SequenceModel
    tokenizer: Tokenizer

    def predict(self, inputs: str | Sequence[str]) -> Surprises:
        return Surprises([self.surprise(text) for text in ([inputs] if isinstance(inputs, str) else inputs)])

    def read(self, paths: Sequence[Path]) -> tuple[list[str], list[str]]:
        """A text for each file."""
        return [read_text([path]) for path in paths], [path.name for path in paths]

    def evaluate(self, paths: Sequence[Path]) -> dict[str, float]:
        text = read_text(paths)
        streams = TextStreams(encode(self.tokenizer, text), 1, 1_024, device=self._device)
        return scores(evaluate(NextToken(self.model), streams), text, self.tokenizer)

    def continued(self, prompt: str, *, length: int = 400, temperature: float = 0.8, seed: int = 0) -> Iterator[str]:
        """`length` more tokens after the prompt, as text and as soon as they are known; the same seed gives the same text."""
        prompts = [self._tokens(prompt).tolist()]
        writing = Writing(
            step_of(self.model.stream),
            Carried(),
            prompts,
            choosing=Choosing(temperature=temperature),
            length=length,
            never=NEVER_WRITTEN,
            seed=seed,
            device=self._device,
        )
        return (piece.text for piece in streamed(writing, self.tokenizer.decode, prompts))

    def surprise(self, text: str) -> Surprise:
        tokens = self._tokens(text)
        with torch.no_grad():
            logits = self.model.stream(tokens.unsqueeze(0)).outputs[0].cpu()
        ids = tokens.tolist()
        names = self.tokenizer.tokens(ids)
        share, token = logits[-1].softmax(-1).topk(3)
        following = list(zip(self.tokenizer.tokens(token.tolist()), share.tolist(), strict=True))
        nats = categorical_cross_entropy(logits[:-1], tokens[1:].cpu())
        return Surprise(names[1:], nats, len(text) - len(names[0]), following)

    def passage(self, text: str) -> Passage:
        tokens = self._tokens(text)
        return Passage(lambda: self.model.stream(tokens.unsqueeze(0)), lambda _: self.tokenizer.tokens(tokens.tolist()))

    def _tokens(self, text: str) -> Tensor:
        tokens = encode(self.tokenizer, text).long().to(self._device)
        if len(tokens) == 0:
            raise InputError("a text must have at least one token", got=f"{text!r}", fix="give it a word or two")
        return tokens

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


class LanguageModelling:
    """The experiment: a model, a text in three parts, and how it is trained."""

    def __init__(
        self,
        model: SequenceModel,
        corpus: Corpus,
        tokenizer: Tokenizer,
        streams: StreamsConfig,
        training: TrainingConfig,
        *,
        seed: int,
    ):
        self.device = pick_device(training.device)
        self.model, self.model_config = model.to(self.device), model.config
        self.corpus, self.tokenizer, self.streams, self.seed = corpus, tokenizer, streams, seed
        self.language_model = LanguageModel(self.model, tokenizer)
        self.learner = NextToken(self.model, carry_state=streams.carry_state)
        self.tokens = {part: encode(tokenizer, getattr(corpus, part)) for part in PARTS}
        self.training = self._with_epochs(training)
        one = TextStreams(self.tokens["train"][:2], 1, 1, device=self.device)
        require_monitor(training, evaluate(NextToken(self.model), one))  # before a folder is made

    def facts(self) -> dict[str, Any]:
        return {
            "model": self.model_config.to_dict(),
            "source": self.corpus.source,
            "vocabulary": len(self.tokenizer),
            "notes": list(self.corpus.notes),
            "fingerprint": fingerprint(self.tokens.values()),
        }

    def train(self, folder: Path, *, show_progress: bool) -> None:
        self.tokenizer.save(folder / TOKENIZER_FILE)
        fit(
            self.learner,
            self.training_batches,
            self._held_out("validation") if len(self.tokens["validation"]) > 1 else None,
            self.training,
            seed=self.seed,
            folder=folder,
            title=self.model_config.cell,
            show_progress=show_progress,
        )

    @property
    def training_batches(self) -> TextStreams:
        return TextStreams(self.tokens["train"], self.training.batch_size, self.streams.steps, seed=self.seed, device=self.device)

    @property
    def validation_batches(self) -> TextStreams:
        return self._held_out("validation" if len(self.tokens["validation"]) > 1 else "test")

    def own_result(self) -> Result:
        """The state is carried through the whole test part, however the model was trained."""
        return Result(
            self.model_config.cell, scores(evaluate(NextToken(self.model), self._held_out("test")), self.corpus.test, self.tokenizer)
        )

    def evaluate(self) -> list[Result]:
        return [self.own_result(), *baselines(self.corpus, self.tokens, self.tokenizer)]

    def sections(self, history: Sequence[Row]) -> list[Section]:
        return language_report.sections(self, history)

    def held_out_text(self, characters: int) -> str:
        return self.corpus.test[:characters]

    def _held_out(self, part: str) -> TextStreams:
        return TextStreams(self.tokens[part], EVALUATION_STREAMS, self.streams.steps, device=self.device)

    def _with_epochs(self, training: TrainingConfig) -> TrainingConfig:
        """Of a long text a part of a pass is enough, where the loop would make ten passes at the least."""
        if training.epochs is not None or training.minutes is not None:
            return training
        updates = TextStreams(self.tokens["train"], training.batch_size, self.streams.steps, seed=0)
        return dataclasses.replace(training, epochs=math.ceil(training.updates * training.accumulate / len(updates)))


PARTS = ("train", "validation", "test")


def encode(tokenizer: Tokenizer, text: str) -> Int32[Tensor, " token"]:
    return torch.tensor(tokenizer.encode([text])[0], dtype=torch.int32)


def scores(metrics: Mapping[str, float], text: str, tokenizer: Tokenizer, tokens: int | None = None) -> dict[str, float]:
    """Nats per token (`loss`) and what follows from them. Cut into words a text cannot be put together again, and has no bits."""
    tokens = len(encode(tokenizer, text)) if tokens is None else tokens
    loss = metrics["loss"]
    found = dict(metrics) | {"perplexity": math.exp(min(loss, 700.0))}
    if tokenizer.kind == "words":
        return found
    return {"bits_per_character": loss * tokens / len(text) / math.log(2)} | found


def baselines(corpus: Corpus, tokens: Mapping[str, Tensor], tokenizer: Tokenizer) -> list[Result]:
    """The strongest first."""
    train, test = (tokens[part].numpy() for part in ("train", "test"))
    losses = n_gram_losses(train, test, len(tokenizer), max(ORDERS))
    found = {f"{order}-gram" if order > 1 else "how often each token occurs": float(losses[order - 1].mean()) for order in ORDERS}
    if tokenizer.kind != "words":
        found |= {name: packed_nats(name, corpus.train, corpus.test) / len(test) for name in PACKERS}
    results = [Result(name, scores({"loss": loss}, corpus.test, tokenizer, len(test))) for name, loss in found.items()]
    return sorted(results, key=lambda result: result.metrics["loss"])
