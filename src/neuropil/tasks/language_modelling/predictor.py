"""Trained language models, be they recurrent or of attention: they go on with texts, and say how much each token of one surprised them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.data.corpus.dataset import Corpus, read_text
from neuropil.data.tokenizers.encoding import encode_text
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.data.tokenizers.published import AnyTokenizer
from neuropil.errors import InputError
from neuropil.sampling.text.beam_search import beam_continuations
from neuropil.sampling.text.filters import SamplingConfig
from neuropil.sampling.text.generation import DecoderState, Generation, Step, limit_of
from neuropil.sampling.text.streaming import Piece, streamed
from neuropil.tasks.language_modelling.scores import ORDERS, PACKERS, n_gram_losses, packed_nats
from neuropil.tasks.recipe import Result

M = TypeVar("M", bound=nn.Module)
SHOWN = 3
"""Likeliest tokens after a text."""


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


class Beginning(NamedTuple):
    """What writing starts from: see `sampling.writing`."""

    step: Step
    state: DecoderState


class LanguageModel(ABC, Generic[M]):
    """A trained model and its tokenizer. `context` is how many tokens it can see, where there is a limit; `end` is the token that ends a
    text, where there is one; `never` are tokens that no text has; and `opening` stands in for an empty prompt."""

    def __init__(
        self,
        model: M,
        tokenizer: AnyTokenizer,
        *,
        context: int | None = None,
        end: int | None = None,
        never: Sequence[int] = (),
        opening: str = "\n",
    ):
        self.model, self.tokenizer, self.opening = model, tokenizer, opening
        self.context, self.end, self.never = context, end, tuple(never)

    @abstractmethod
    def begin(self, rows: int, room: int | None, precision: str) -> Beginning:
        """To write `rows` texts at once, of up to `room` tokens, where that is known."""

    @abstractmethod
    def judge(self, tokens: Int64[Tensor, " time"]) -> tuple[Float[Tensor, " following"], Float[Tensor, " token"]]:
        """−ln p of each token after the first, and the logits of what comes after the last."""

    @abstractmethod
    def losses(self, text: str) -> dict[str, float]:
        """The mean loss and accuracy over the tokens of a text."""

    def predict(self, inputs: str | Sequence[str]) -> Surprises:
        return Surprises([self.surprise(text) for text in ([inputs] if isinstance(inputs, str) else inputs)])

    def read(self, paths: Sequence[Path]) -> tuple[list[str], list[str]]:
        """A text for each file."""
        return [read_text([path]) for path in paths], [path.name for path in paths]

    def evaluate(self, paths: Sequence[Path]) -> dict[str, float]:
        text = read_text(paths)
        return scores(self.losses(text), text, self.tokenizer)

    def continued(
        self,
        prompt: str,
        *,
        length: int | None = 400,
        stop: Sequence[str] = (),
        seed: int = 0,
        precision: str = "float32",
        **sampling: Any,
    ) -> Iterator[str]:
        """Up to `length` more tokens after the prompt, as text and as soon as they are known; the same seed gives the same text. `sampling`
        are options of `SamplingConfig`, such as `temperature`."""
        pieces = self.written(
            [prompt], length=length, sampling=SamplingConfig(**sampling), stop=stop, seed=seed, precision=precision
        )
        return (piece.text for piece in pieces)

    def written(
        self,
        prompts: Sequence[str],
        *,
        length: int | None = 400,
        sampling: SamplingConfig = SamplingConfig(),  # noqa: B008 (it is frozen)
        stop: Sequence[str] = (),
        samples: int = 1,
        seed: int = 0,
        precision: str = "float32",
    ) -> Iterator[Piece]:
        """Several texts at once, piece by piece: row r belongs to prompt r // samples."""
        tokens = [self.tokens_of(prompt).tolist() for prompt in prompts]
        step, state = self.begin(len(tokens) * samples, self._room(tokens, length), precision)
        writing = Generation(
            step,
            state,
            tokens,
            sampling=sampling,
            length=length,
            samples=samples,
            end=self.end,
            never=self.never,
            context=self.context,
            seed=seed,
            device=self.device,
        )
        return streamed(writing, self.tokenizer.decode, tokens, stop)

    def beam_search(self, prompt: str, *, beam: int, length: int) -> list[Piece]:
        """The likeliest continuations that a beam of this width finds, the best first."""
        tokens = self.tokens_of(prompt).tolist()
        step, state = self.begin(beam, self._room([tokens], length), "float32")
        with torch.no_grad():
            found = beam_continuations(
                step, state, [tokens], width=beam, length=length, end=self.end, context=self.context, device=self.device
            )
        ending = limit_of(tokens, length, self.context).ending
        before = self.tokenizer.decode(tokens)
        return [
            Piece(
                row,
                self.tokenizer.decode([*tokens, *written.tokens]).removeprefix(before),
                "end" if written.finished else ending,
            )
            for row, written in enumerate(found[0])
        ]

    def surprise(self, text: str) -> Surprise:
        tokens = self.tokens_of(text)
        nats, after = self.judge(tokens)
        names = self.tokenizer.tokens(tokens.tolist())
        share, token = after.softmax(-1).topk(min(SHOWN, len(after)))
        following = list(zip(self.tokenizer.tokens(token.tolist()), share.tolist(), strict=True))
        return Surprise(names[1:], nats, len(text) - len(names[0]), following)

    def tokens_of(self, text: str) -> Int64[Tensor, " time"]:
        require_text(text)
        tokens = encode_text(self.tokenizer, text).long().to(self.device)
        if len(tokens) == 0:
            raise InputError("a text must have at least one token", got=f"{text!r}", fix="give it a word or two")
        return tokens

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def _room(self, prompts: Sequence[Sequence[int]], length: int | None) -> int | None:
        wanted = None if length is None else max(map(len, prompts)) + length
        return wanted if self.context is None else min(wanted or self.context, self.context)


def require_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as cause:  # bytes that are no text come from the command line as halves of characters
        raise InputError("a prompt must be UTF-8", got=f"{text!r}") from cause


def gives_back(tokenizer: AnyTokenizer) -> bool:
    """Cut into words a text cannot be put together again, and has no bits."""
    return not (isinstance(tokenizer, Tokenizer) and tokenizer.kind == "words")


def scores(
    metrics: Mapping[str, float], text: str, tokenizer: AnyTokenizer, tokens: int | None = None
) -> dict[str, float]:
    """Nats per token (`loss`) and what follows from them."""
    tokens = len(encode_text(tokenizer, text)) if tokens is None else tokens
    loss = metrics["loss"]
    found = dict(metrics) | {"perplexity": math.exp(min(loss, 700.0))}
    if not gives_back(tokenizer):
        return found
    bits = loss * tokens / math.log(2)
    return {"bits_per_character": bits / len(text), "bits_per_byte": bits / len(text.encode())} | found


def baselines(corpus: Corpus, tokens: Mapping[str, Tensor], tokenizer: AnyTokenizer) -> list[Result]:
    """The strongest first."""
    train, test = (tokens[part].numpy() for part in ("train", "test"))
    losses = n_gram_losses(train, test, len(tokenizer), max(ORDERS))
    found = {
        f"{order}-gram" if order > 1 else "how often each token occurs": float(losses[order - 1].mean())
        for order in ORDERS
    }
    if gives_back(tokenizer):
        found |= {name: packed_nats(name, corpus.train, corpus.test) / len(test) for name in PACKERS}
    results = [Result(name, scores({"loss": loss}, corpus.test, tokenizer, len(test))) for name, loss in found.items()]
    return sorted(results, key=lambda result: result.metrics["loss"])
