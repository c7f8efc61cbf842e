"""A trained text classifier: how it reads texts as tokens, and the classes that it predicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, cast, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.config import Config, option
from neuropil.data.batches import Change, EncodedTexts, Sequences, Side, encode_texts, hide_tokens, shorten
from neuropil.data.formats.memory import require_unweighted
from neuropil.data.labelled_texts.dataset import LabelledTexts
from neuropil.data.labelled_texts.files import TextColumns, read_labelled_texts
from neuropil.data.tokenizers.encoding import AnyTokenizer
from neuropil.data.tokenizers.learned import Kind, Tokenizer
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.errors import InputError
from neuropil.inspection.gates import Passage
from neuropil.models.bert import BERTClassifier
from neuropil.parts.objectives import Classification
from neuropil.protocols import PADDING, UNKNOWN
from neuropil.tasks.attack import Attacker
from neuropil.tasks.masked_language_modelling.predictor import TextEmbedder
from neuropil.tasks.predictor import Predictions, Source, as_texts, device_of, only_source
from neuropil.tasks.texts import in_order, read_texts
from neuropil.training.evaluation import evaluate

TOKENIZER_FILE = "tokenizer.json"
TOKENS_AT_ONCE = 1024


class TokensConfig(Config):
    tokens: Kind = option("words", "tokens: words, characters, or bpe (byte-pair encoding)")
    vocabulary_size: int = option(30_000, "maximum vocabulary size; rarer tokens are unknown", low=8)
    lowercase: bool = option(True, "read capitals as small letters")
    max_tokens: int = option(512, "longer texts are truncated to so many tokens, and counted in the report", low=1)
    read_from: Side = option("both", "which side of a longer text is kept, or about half of both")


class WordPieceConfig(Config):
    max_tokens: int = option(256, "longer texts are truncated to so many tokens, with [CLS] and [SEP]", low=3)
    read_from: Side = option("both", "which side of a longer text is kept, or about half of both")


@runtime_checkable
class TextEncoder(Protocol):
    """How texts become tokens."""

    @property
    def tokenizer(self) -> AnyTokenizer: ...

    @property
    def config(self) -> TokensConfig | WordPieceConfig: ...

    @property
    def kind(self) -> Kind:
        """What simpler models should count."""
        ...

    def hide(self, probability: float) -> Change:
        """Word dropout."""
        ...

    def encode(self, texts: Sequence[str], targets: Int64[Tensor, " text"]) -> EncodedTexts: ...

    def save(self, folder: Path) -> None: ...


@dataclass(frozen=True)
class LearnedEncoder:
    """With a tokenizer learned from the training texts."""

    tokenizer: Tokenizer
    config: TokensConfig

    @classmethod
    def learn(cls, texts: Sequence[str], config: TokensConfig) -> "LearnedEncoder":
        cased = [_cased(text, config) for text in texts]
        return cls(Tokenizer.train(cased, config.tokens, config.vocabulary_size), config)

    @classmethod
    def load(cls, folder: Path, tokens: Mapping[str, Any]) -> "LearnedEncoder":
        return cls(Tokenizer.load(folder / TOKENIZER_FILE), TokensConfig.from_dict(tokens))

    @property
    def kind(self) -> Kind:
        return self.config.tokens

    def hide(self, probability: float) -> Change:
        return hide_tokens(probability)

    def cased(self, text: str) -> str:
        return _cased(text, self.config)

    def encode(self, texts: Sequence[str], targets: Int64[Tensor, " text"]) -> EncodedTexts:
        cased = [self.cased(text) for text in texts]
        return encode_texts(cased, targets, self.tokenizer, self.config.max_tokens, self.config.read_from)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER_FILE)


def _cased(text: str, config: TokensConfig) -> str:
    return text.lower() if config.lowercase else text


@dataclass(frozen=True)
class WordPieceEncoder:
    """With BERT's tokenizer, between whose two special tokens a text stands."""

    tokenizer: PublishedTokenizer
    config: WordPieceConfig
    kind: Kind = "words"

    def __post_init__(self) -> None:
        if self.tokenizer.padding != PADDING:
            raise InputError("the padding of BERT's tokenizer must be token 0", got=f"{self.tokenizer.padding}")

    @classmethod
    def load(cls, folder: Path, tokens: Mapping[str, Any]) -> "WordPieceEncoder":
        return cls(PublishedTokenizer.restore(folder), WordPieceConfig.from_dict(tokens))

    def hide(self, probability: float) -> Change:
        """By the token that stood for hidden words in pre-training."""
        around = [number for number in (self.tokenizer.start, self.tokenizer.end) if number is not None]
        return hide_tokens(probability, self.tokenizer.mask or self.tokenizer.unknown or UNKNOWN, [PADDING, *around])

    def encode(self, texts: Sequence[str], targets: Int64[Tensor, " text"]) -> EncodedTexts:
        before, after = self.tokenizer.start, self.tokenizer.end
        room, too_long = self.config.max_tokens - 2, 0

        def surround(ids: list[int]) -> list[int]:
            nonlocal too_long
            too_long += len(ids) > room
            return [before or 0, *shorten(ids, room, self.config.read_from), after or 0]

        return EncodedTexts(Sequences.of_texts(texts, self.tokenizer, surround), targets, too_long)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)


@dataclass(frozen=True)
class TextClassifier:
    model: nn.Module
    encoder: TextEncoder
    classes: tuple[str, ...]
    columns: TextColumns

    @classmethod
    def restore(cls, model: nn.Module, facts: Mapping[str, Any], folder: Path) -> Self:
        encoder = LearnedEncoder.load(folder, facts["tokens"])
        return cls(model, encoder, tuple(facts["classes"]), TextColumns(*facts["columns"]))

    @property
    def tokenizer(self) -> AnyTokenizer:
        return self.encoder.tokenizer

    def logits(self, tokens: Int64[Tensor, "text time"]) -> Float[Tensor, "text class"]:
        return self.model(tokens)

    def predict(self, inputs: Any) -> Predictions:
        """Of a text, or of several."""
        return self.classify(as_texts(inputs))

    def classify(self, texts: Sequence[str]) -> Predictions:
        return Predictions(self.probabilities(self.encoder.encode(texts, torch.arange(len(texts)))), self.classes)

    def read(self, paths: Sequence[Path]) -> tuple[list[str], list[str]]:
        return read_texts(paths)

    def read_labelled(self, source: Source) -> LabelledTexts:
        only = only_source(source, "labelled texts are")
        require_unweighted(only)
        return read_labelled_texts(only, self.columns, self.classes)[0]

    def evaluate(self, texts: LabelledTexts) -> dict[str, float]:
        encoded = self.encoder.encode(texts.texts, texts.targets)
        return evaluate(Classification(self.model, answer=self.logits), in_order(encoded, device_of(self.model)))

    @property
    def attacker(self) -> Attacker:
        from neuropil.tasks.text_classification.attack import TextAttacker  # which imports this module

        return TextAttacker(self)

    @torch.no_grad()
    def probabilities(self, encoded: EncodedTexts) -> Float[Tensor, "text class"]:
        """In the order of the texts, whose targets are their numbers."""
        scores = torch.zeros(len(encoded), len(self.classes))
        for batch in in_order(encoded, device_of(self.model)).epoch(0):
            scores[batch["target"].cpu()] = self.logits(batch["input"]).softmax(-1).float().cpu()
        return scores

    def tokens_of(self, text: str) -> tuple[Int64[Tensor, " time"], list[str]]:
        """The tokens that the model reads of a text, and their labels."""
        first = torch.zeros(1, dtype=torch.int64)
        tokens = self.encoder.encode([text], first).inputs.padded(first)[0]
        return tokens, self.encoder.tokenizer.tokens(tokens.tolist())

    @torch.no_grad()
    def probabilities_by_token(self, text: str) -> tuple[list[str], Float[Tensor, "time class"]]:
        """The tokens of a text, and the probabilities of the classes after each of them."""
        tokens, labels = self.tokens_of(text)
        prefixes = tokens.expand(len(tokens), len(tokens)).tril()  # the rest is padding
        return labels, self.logits(prefixes.to(device_of(self.model))).softmax(-1).cpu()

    @torch.no_grad()
    def probabilities_of_tokens(self, tokens: Int64[Tensor, " token"]) -> Float[Tensor, "token class"]:
        """Of texts of a single token."""
        device, parts = device_of(self.model), tokens.split(TOKENS_AT_ONCE)
        return torch.cat([self.logits(part[:, None].to(device)).softmax(-1).cpu() for part in parts])

    def passage(self, text: str) -> Passage:
        tokens, labels = self.tokens_of(text)
        return Passage(lambda: self.model(tokens.unsqueeze(0).to(device_of(self.model))), lambda _: labels)


@dataclass(frozen=True)
class MaskedTextClassifier(TextClassifier):
    """Of a model that reads a whole text at once, and must be told where there are tokens."""

    @classmethod
    def restore(cls, model: nn.Module, facts: Mapping[str, Any], folder: Path) -> Self:
        encoder = WordPieceEncoder.load(folder, facts["tokens"])
        return cls(model, encoder, tuple(facts["classes"]), TextColumns(*facts["columns"]))

    def logits(self, tokens: Int64[Tensor, "text time"]) -> Float[Tensor, "text class"]:
        return self.model(tokens, tokens != PADDING)

    def embed(self, texts: Sequence[str]) -> Float[Tensor, "text width"]:
        return self._embedder.embed(texts)

    @property
    def context(self) -> int:
        """Of a text to embed: of one to classify, only so much is read as in training."""
        return self._embedder.context

    def lengths(self, texts: Sequence[str]) -> list[int]:
        return self._embedder.lengths(texts)

    @property
    def _embedder(self) -> TextEmbedder:
        return TextEmbedder(cast(BERTClassifier, self.model).bert, cast(PublishedTokenizer, self.encoder.tokenizer))
