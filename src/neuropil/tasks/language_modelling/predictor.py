"""Trained language models, recurrent or attention-based: they generate text, and say how surprising each token of one
is."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.data.corpus.dataset import Passages
from neuropil.data.corpus.files import read_text
from neuropil.data.tokenizers.encoding import AnyTokenizer, encode_text
from neuropil.errors import InputError
from neuropil.sampling.text.beam_search import beam_continuations
from neuropil.sampling.text.filters import SamplingConfig
from neuropil.sampling.text.generation import DecoderState, Generation, Step, limit_of
from neuropil.sampling.text.slots import SlottedDecoder
from neuropil.sampling.text.streaming import Piece, Stopping, streamed
from neuropil.tasks.language_modelling.generation import DEFAULT_LENGTH, GenerationConfig
from neuropil.tasks.language_modelling.scores import scores
from neuropil.tasks.predictor import Source, as_texts, device_of
from neuropil.tasks.texts import require_utf8

M = TypeVar("M", bound=nn.Module)
BETWEEN_TEXTS = "\n---\n"
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

    @property
    def bits_per_character(self) -> float:
        return float(self.nats.sum()) / math.log(2) / max(self.characters, 1)


@dataclass(frozen=True)
class Surprises:
    texts: list[Surprise]

    def __len__(self) -> int:
        return len(self.texts)

    def lines(self) -> list[list[str]]:
        return [
            [
                f"{text.bits_per_character:.3f} bits per character",
                *(f"{token!r} {100 * share:.1f} %" for token, share in text.following),
            ]
            for text in self.texts
        ]

    def records(self) -> list[dict[str, Any]]:
        return [
            {"bits_per_character": text.bits_per_character, "next": [list(each) for each in text.following]}
            for text in self.texts
        ]


class Beginning(NamedTuple):
    """What writing starts from: see `sampling.writing`."""

    step: Step
    state: DecoderState


class LanguageModel(ABC, Generic[M]):
    """A trained model and its tokenizer. `context` is how many tokens it can see, where there is a limit; `end` is the
    token that ends a text, where there is one; `never` are tokens that no text has; and `opening` stands in for an
    empty prompt."""

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
    def slots(self, num_slots: int, precision: str = "float32") -> SlottedDecoder:
        """To write so many texts at once, which come and go one by one."""

    @abstractmethod
    def score_tokens(
        self, tokens: Int64[Tensor, " time"]
    ) -> tuple[Float[Tensor, " following"], Float[Tensor, " token"]]:
        """−ln p of each token after the first, and the logits of what comes after the last."""

    @abstractmethod
    def losses(self, text: str) -> dict[str, float]:
        """The mean loss and accuracy over the tokens of a text."""

    def predict(self, inputs: Any) -> Surprises:
        return Surprises([self.surprise(text) for text in as_texts(inputs)])

    def read(self, paths: Sequence[Path]) -> tuple[list[str], list[str]]:
        """A text for each file."""
        return [read_text([path]) for path in paths], [path.name for path in paths]

    def read_labelled(self, source: Source) -> Passages:
        return Passages(read_text(source))

    def evaluate(self, passages: Passages) -> dict[str, float]:
        return scores(self.losses(passages.text), passages.text, self.tokenizer)

    def generate(
        self,
        prompt: str,
        *,
        length: int | None = DEFAULT_LENGTH,
        stop: Sequence[str] = (),
        seed: int = 0,
        precision: str = "float32",
        **sampling: Any,
    ) -> Iterator[str]:
        """Up to `length` more tokens after the prompt, as text and as soon as they are known; the same seed gives the
        same text. `sampling` are options of `SamplingConfig`, such as `temperature`."""
        options = {"length": length, "stop": stop, "seed": seed, "precision": precision}
        prompts = [prompt or self.opening]
        return (piece.text for piece in self.generate_batch(prompts, sampling=SamplingConfig(**sampling), **options))

    def generate_batch(
        self,
        prompts: Sequence[str],
        *,
        length: int | None = DEFAULT_LENGTH,
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

    def beam_search(self, prompt: str, *, beam: int, length: int, repetition_penalty: float = 1.0) -> list[Piece]:
        """The likeliest continuations that a beam of this width finds, the best first."""
        tokens = self.tokens_of(prompt).tolist()
        step, state = self.begin(beam, self._room([tokens], length), "float32")
        with torch.no_grad():
            found = beam_continuations(
                step,
                state,
                [tokens],
                width=beam,
                length=length,
                end=self.end,
                never=self.never,
                repetition_penalty=repetition_penalty,
                context=self.context,
                device=self.device,
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

    def stream(self, prompt: str, config: GenerationConfig, notify: Callable[[str], None]) -> Iterator[str]:
        """What is to be printed, the prompt first; `notify` gets what the reader should know beside the text."""
        if not prompt:
            notify(f"Without a prompt, the text goes on from {self.opening!r}.")
        pieces = self._pieces(prompt or self.opening, config)
        texts, full = [prompt] * config.samples, False
        if config.samples == 1:
            yield prompt  # not before what is wrong with it is known
        for piece in pieces:
            full |= piece.ended == "context"
            texts[piece.row] += piece.text
            if config.samples == 1:
                yield piece.text
        yield "\n" if config.samples == 1 else BETWEEN_TEXTS.join(texts) + "\n"
        if full:
            notify(f"The text ends because the model's context of {self.context:,} tokens is full.")

    def _pieces(self, prompt: str, config: GenerationConfig) -> Iterable[Piece]:
        if config.beam == 1:
            options = {name: getattr(config, name) for name in ("length", "stop", "samples", "seed", "precision")}
            return self.generate_batch([prompt], sampling=config.sampling, **options)
        penalty = config.sampling.repetition_penalty
        best = self.beam_search(prompt, beam=config.beam, length=config.length, repetition_penalty=penalty)[0]
        stopping = Stopping(config.stop)
        text = stopping.add(best.text) + stopping.finish()
        return [Piece(0, text, "stopped" if stopping.stopped else best.ended)]

    def surprise(self, text: str) -> Surprise:
        tokens = self.tokens_of(text)
        nats, after = self.score_tokens(tokens)
        names = self.tokenizer.tokens(tokens.tolist())
        share, token = after.softmax(-1).topk(min(SHOWN, len(after)))
        following = list(zip(self.tokenizer.tokens(token.tolist()), share.tolist(), strict=True))
        return Surprise(names[1:], nats, len(text) - len(names[0]), following)

    def tokens_of(self, text: str) -> Int64[Tensor, " time"]:
        require_utf8(text, "a prompt")
        tokens = encode_text(self.tokenizer, text).long().to(self.device)
        if len(tokens) == 0:
            raise InputError("a text must have at least one token", got=f"{text!r}", fix="give it a word or two")
        return tokens

    @property
    def device(self) -> torch.device:
        return device_of(self.model)

    def _room(self, prompts: Sequence[Sequence[int]], length: int | None) -> int | None:
        wanted = None if length is None else max(map(len, prompts)) + length
        return wanted if self.context is None else min(wanted or self.context, self.context)
