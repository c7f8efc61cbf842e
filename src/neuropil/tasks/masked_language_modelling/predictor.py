"""Texts as BERT reads them: a vector for a whole text, and words for the places where one was hidden."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.data.corpus.dataset import Passages
from neuropil.data.corpus.files import read_text
from neuropil.data.corpus.masking import Alphabet, MaskedWindows, MaskingName
from neuropil.data.corpus.token_file import Tokens
from neuropil.data.formats.lines import read_lines
from neuropil.data.tokenizers.encoding import encode_text
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.errors import ContextLengthError, DataWarning, InputError
from neuropil.models.bert import BERT, MaskedBERT, mean_of
from neuropil.parts.objectives import MaskedToken
from neuropil.tasks.predictor import Source, as_texts
from neuropil.training.evaluation import evaluate

TOKENS_AT_ONCE = 2_048
"""Of a batch, padding included."""
ALIKE = 1.15
"""Texts of one batch differ in length by no more than this factor."""
SHOWN = 5
EVALUATION_WINDOWS = 16
MARK = "##"
"""Before a piece that goes on with a word."""


@dataclass(frozen=True)
class MaskedBatches:
    """Windows of a text with some of their tokens masked; held-out text always with the same."""

    context: int
    probability: float
    alphabet: Alphabet
    around: tuple[int, int]
    masking: MaskingName = "80/10/10"

    @classmethod
    def of(
        cls,
        tokenizer: PublishedTokenizer,
        context: int,
        probability: float = 0.15,
        masking: MaskingName = "80/10/10",
    ) -> "MaskedBatches":
        numbers = (tokenizer.padding, tokenizer.start, tokenizer.end, tokenizer.mask, tokenizer.unknown)
        _, start, end, mask, _ = special = cast(tuple[int, ...], numbers)  # WordPiece has them all
        return cls(context, probability, Alphabet(mask, max(special) + 1, len(tokenizer)), (start, end), masking)

    def training_batches(self, tokens: Tokens, batch_size: int, seed: int, device: torch.device) -> MaskedWindows:
        return self._windows(tokens, batch_size, seed, device)

    def evaluation_batches(self, tokens: Tokens, device: torch.device) -> MaskedWindows:
        return self._windows(tokens, EVALUATION_WINDOWS, 0, device)

    def _windows(self, tokens: Tokens, size: int, seed: int, device: torch.device) -> MaskedWindows:
        return MaskedWindows(
            tokens,
            size,
            self.context,
            alphabet=self.alphabet,
            around=self.around,
            share=self.probability,
            masking=self.masking,
            seed=seed,
            device=device,
        )


def scorer_for(model: MaskedBERT) -> MaskedToken:
    return MaskedToken(model)


def alike(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The numbers of texts that are read together, the longest texts first."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        widest = lengths[batch[0]] if batch else lengths[number]
        if batch and ((len(batch) + 1) * widest > TOKENS_AT_ONCE or lengths[number] * ALIKE + 1 < widest):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def pad(rows: Sequence[Sequence[int]], padding: int) -> tuple[Int64[Tensor, "text time"], Tensor]:
    longest = max(map(len, rows))
    tokens = torch.tensor([[*row, *[padding] * (longest - len(row))] for row in rows])
    return tokens, torch.arange(longest) < torch.tensor([len(row) for row in rows])[:, None]


@dataclass(frozen=True)
class TextEmbedder:
    model: BERT
    tokenizer: PublishedTokenizer
    longest: int | None = None
    """Tokens of a text that are read, where they are fewer than the model's context."""

    @property
    def context(self) -> int:
        return min(self.longest or self.model.config.context, self.model.config.context)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self.tokenizer.encode(texts, special=True)]

    @torch.no_grad()
    def embed(self, texts: Sequence[str]) -> Float[Tensor, "text width"]:
        """Vectors of unit length in the order of the texts: means over their tokens. Of a text that is longer than the
        context its beginning is read, with a warning. Texts of like length are read together, so that little is
        padding."""
        tokens = self._encode(texts)
        device = self.model.tokens.weight.device
        vectors = torch.empty(len(texts), self.model.config.width, device=device)
        for index in alike([len(ids) for ids in tokens]):
            padded, mask = pad([tokens[number] for number in index], self.tokenizer.padding or 0)
            hidden = self.model(padded.to(device), None if mask.all() else mask.to(device))
            vectors[index] = mean_of(hidden, mask.to(device))
        return vectors.cpu()

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        tokens, room = self.tokenizer.encode(texts, special=True), self.context
        long = [number for number, ids in enumerate(tokens) if len(ids) > room]
        if long:
            have = "has" if len(long) == 1 else "have"
            said = f"{len(long):,} of {len(texts):,} texts {have} more than {room:,} tokens: the rest is not read."
            warnings.warn(said, DataWarning, stacklevel=3)
        cut = self.tokenizer.encode([texts[number] for number in long], special=True, longest=room)
        for number, ids in zip(long, cut, strict=True):
            tokens[number] = ids
        return tokens


class Filled(NamedTuple):
    """One way to fill one place of a text."""

    place: int
    """Which of the hidden places, from 1 on."""
    word: str
    share: float
    text: str
    """With the likeliest words at the other places."""

    def record(self) -> dict[str, Any]:
        return {"place": self.place, "word": self.word, "probability": self.share, "text": self.text}


@dataclass(frozen=True)
class Fillings:
    texts: list[list[Filled]]

    def __len__(self) -> int:
        return len(self.texts)

    def lines(self) -> list[list[str]]:
        return [[f"{each.word} {100 * each.share:.1f} %" for each in text] for text in self.texts]

    def records(self) -> list[dict[str, Any]]:
        return [{"filled": [each.record() for each in text]} for text in self.texts]


@dataclass(frozen=True)
class TextFiller:
    """A masked language model and its tokenizer: it fills in what a text leaves open."""

    model: MaskedBERT
    tokenizer: PublishedTokenizer

    @classmethod
    def restore(cls, model: MaskedBERT, facts: Mapping[str, Any], folder: Path) -> Self:
        return cls(model, PublishedTokenizer.restore(folder))

    def read_labelled(self, source: Source) -> Passages:
        return Passages(read_text(source))

    def evaluate(self, passages: Passages) -> dict[str, float]:
        """On 15 % of the tokens of the user's texts, by BERT's rule, whatever the model was trained with."""
        batches = MaskedBatches.of(self.tokenizer, self.model.config.context)
        tokens = encode_text(self.tokenizer, passages.text)
        return evaluate(scorer_for(self.model), batches.evaluation_batches(tokens, self.model.bias.device))

    def embed(self, texts: Sequence[str]) -> Float[Tensor, "text width"]:
        return self._embedder.embed(texts)

    @property
    def context(self) -> int:
        return self._embedder.context

    def lengths(self, texts: Sequence[str]) -> list[int]:
        return self._embedder.lengths(texts)

    def predict(self, inputs: Any) -> Fillings:
        return Fillings([self.fill(text) for text in as_texts(inputs)])

    def read(self, paths: Sequence[Path]) -> tuple[list[str], list[str]]:
        """A text for each line."""
        lines = [
            (f"{path.name} line {number}", line)
            for path in paths
            for number, line in enumerate(read_lines(path), 1)
            if line
        ]
        return [line for _, line in lines], [name for name, _ in lines]

    def fill(self, text: str, most: int = SHOWN) -> list[Filled]:
        """The `most` likeliest words for each place that says [MASK], the likeliest first; each place by itself."""
        shares, words = self.probabilities(text).topk(min(most, len(self.tokenizer)))
        names = [self.tokenizer.tokens(row) for row in words.tolist()]
        best = [row[0] for row in names]
        return [
            Filled(
                place + 1,
                word.removeprefix(MARK),
                share,
                written(text, self.mask_token, [*best[:place], word, *best[place + 1 :]]),
            )
            for place, (row, each) in enumerate(zip(names, shares.tolist(), strict=True))
            for word, share in zip(row, each, strict=True)
        ]

    @torch.no_grad()
    def probabilities(self, text: str) -> Float[Tensor, "place token"]:
        """Of every token, at each place that says [MASK]."""
        hidden = self.mask_token
        if hidden not in text:
            raise InputError(
                f"a text to fill must say {hidden}", got=f"{text!r}", fix=f"write {hidden} where a word is missing"
            )
        tokens = torch.tensor(self.tokenizer.encode([text], special=True))
        if tokens.shape[1] > self.model.config.context:
            raise ContextLengthError(
                f"a text to fill has at most {self.model.config.context} tokens",
                got=f"{tokens.shape[1]}",
                fix="shorten it",
            )
        states = self.model.bert(tokens.to(self.model.bias.device))
        return self.model.logits(states[tokens == self.tokenizer.mask]).softmax(-1)

    @property
    def _embedder(self) -> TextEmbedder:
        return TextEmbedder(self.model.bert, self.tokenizer)

    @property
    def mask_token(self) -> str:
        if self.tokenizer.mask is None:
            raise InputError("a tokenizer that hides words has a token for them", got="one without")
        return self.tokenizer.tokens([self.tokenizer.mask])[0]


def written(text: str, hidden: str, words: Sequence[str]) -> str:
    """The text with these words in place of the hidden ones; a piece of a word follows without a space."""
    first, *others = text.split(hidden)
    for word, after in zip(words, others, strict=True):
        first = (first.rstrip(" ") + word.removeprefix(MARK) if word.startswith(MARK) else first + word) + after
    return first
