"""Texts from the command line, gone on with: one as it grows, several one after the other."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.sampling.text.filters import SamplingConfig
from neuropil.sampling.text.streaming import Piece, Stopping, require_stops
from neuropil.tasks.language_modelling.predictor import LanguageModel

BETWEEN_TEXTS = "\n---\n"
USUAL_LENGTH = 400


class GeneratingConfig(Config):
    length: int | None = option(
        None, f"tokens to write, if the context has room for them; without it, {USUAL_LENGTH}", low=0
    )
    sampling: SamplingConfig = SamplingConfig()
    stop: tuple[str, ...] = option((), "texts at which to stop; they are not written")
    samples: int = option(1, "texts to write, each drawn by itself", low=1)
    beam: int = option(
        1, "how many beginnings to follow at once; above 1 the likeliest text is searched, and nothing is drawn", low=1
    )
    precision: str = option(
        "float32", "how weights are kept while writing, on a processor: float32, bfloat16 or int8, which is fastest"
    )
    seed: int = option(0, "the same seed gives the same text", low=0)

    def validate(self) -> None:
        require_stops(self.stop)
        if self.beam > 1 and self.samples > 1:
            raise InputError(
                "a beam finds one text", got=f"{self.samples} samples", fix="leave out --beam or --samples"
            )
        if self.beam > 1 and self.precision != "float32":
            raise InputError("a beam writes in float32", got=self.precision, fix="leave out --beam or --precision")


def generated(
    writer: LanguageModel[Any], prompt: str, config: GeneratingConfig, tell: Callable[[str], None]
) -> Iterator[str]:
    """Pieces of what is to be printed, the prompt first. `tell` is told what the reader should know beside the text."""
    if not prompt:
        tell(f"Without a prompt, the text goes on from {writer.opening!r}.")
    beginning = prompt or writer.opening
    pieces = _found(writer, beginning, config) if config.beam > 1 else _drawn(writer, beginning, config)
    full = False
    if config.samples == 1:
        yield prompt  # not before what is wrong with it is known
        for piece in pieces:
            full |= piece.ended == "context"
            yield piece.text
    else:
        texts = [prompt] * config.samples
        for piece in pieces:
            full |= piece.ended == "context"
            texts[piece.row] += piece.text
        yield BETWEEN_TEXTS.join(texts)
    yield "\n"
    if full:
        tell(f"The text ends because the model sees {writer.context:,} tokens at once, and they are full.")


def _drawn(writer: LanguageModel[Any], beginning: str, config: GeneratingConfig) -> Iterable[Piece]:
    return writer.written(
        [beginning],
        length=_length(config),
        sampling=config.sampling,
        stop=config.stop,
        samples=config.samples,
        seed=config.seed,
        precision=config.precision,
    )


def _found(writer: LanguageModel[Any], beginning: str, config: GeneratingConfig) -> Iterable[Piece]:
    best = writer.beam_search(beginning, beam=config.beam, length=_length(config))[0]
    stopping = Stopping(config.stop)
    text = stopping.add(best.text) + stopping.finish()
    return [Piece(0, text, "stopped" if stopping.stopped else best.ended)]


def _length(config: GeneratingConfig) -> int:
    return USUAL_LENGTH if config.length is None else config.length
