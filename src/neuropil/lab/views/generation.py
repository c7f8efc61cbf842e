"""A text written token by token: what comes next and how likely, what the filters leave, how surprising each token was,
and what GPT-2 would say after each of its layers."""

from typing import Any

import torch
from torch import Tensor

from neuropil.config import Config, option
from neuropil.inspection.logit_lens import logit_lens
from neuropil.lab.bounds import require_length
from neuropil.models.gpt2 import GPT2
from neuropil.runs.run import Run
from neuropil.sampling.text.filters import SamplingConfig
from neuropil.tasks.language_modelling.next_token import draw, next_tokens, require_tokens
from neuropil.tasks.language_modelling.predictor import LanguageModel

EXAMPLE = "The function returns a list of"
MOST_CHARACTERS, MOST_WRITTEN = 1_000, 500
SHOWN, LENS_SHOWN = 14, 4


class TextSoFar(Config):
    text: str = option(EXAMPLE, "prompt")
    written: tuple[int, ...] = option((), "tokens that were appended to it", low=0)

    def validate(self) -> None:
        require_length("text", self.text, MOST_CHARACTERS)
        require_length("written", self.written, MOST_WRITTEN)


class GenerationRequest(TextSoFar):
    sampling: SamplingConfig = SamplingConfig()
    place: int | None = option(None, "tokens before the one that is asked about; by default all", low=1, high=1_000_000)


class DrawRequest(TextSoFar):
    sampling: SamplingConfig = SamplingConfig()
    seed: int = option(0, "random seed", low=0, high=2**31)


class BeamRequest(TextSoFar):
    beam: int = option(4, "beam width", low=2, high=8)
    length: int = option(12, "tokens to write", low=1, high=30)


def open_view(run: Run) -> dict[str, Any]:
    request = GenerationRequest()
    separator = " " if getattr(run.predictor.tokenizer, "kind", "bpe") == "words" else ""
    facts = {"system": run.name, "text": EXAMPLE, "characters": MOST_CHARACTERS, "separator": separator}
    return {**facts, **request.sampling.to_dict(), "shown": read(run, request)}


def read(run: Run, request: GenerationRequest) -> dict[str, Any]:
    model: LanguageModel[Any] = run.predictor
    tokens = tokens_of(model, request)
    nats, logits = model.score_tokens(tokens)
    place = min(request.place or len(tokens), len(tokens))
    before = tokens[:place]
    if place < len(tokens):
        logits = model.score_tokens(before)[1]
    found = next_tokens(model, logits, before, request.sampling)
    answer = {
        "tokens": model.tokenizer.tokens(tokens.tolist()),
        "nats": [None, *(round(each, 5) for each in nats.tolist())],
        "text": model.tokenizer.decode(tokens.tolist()) if request.written else request.text,
        "place": place,
        "candidates": [list(each) for each in found.best(SHOWN)],
        "kept": found.kept,
        "vocabulary": len(model.tokenizer),
        "entropies": list(found.entropies),
        "actual": None if place == len(tokens) else int(tokens[place]),
    }
    return answer | ({"lens": lens_at(model, before)} if isinstance(model.model, GPT2) else {})


def lens_at(model: LanguageModel[Any], before: Tensor) -> list[list[list[Any]]]:
    """For each layer the likeliest tokens after the text, with their probabilities."""
    lens = logit_lens(model.model, before[-(model.context or len(before)) :], LENS_SHOWN)
    labels = [model.tokenizer.tokens(row) for row in lens.tokens[:, -1].tolist()]
    shares = lens.shares[:, -1].tolist()
    return [list(map(list, zip(*layer, strict=True))) for layer in zip(labels, shares, strict=True)]


def step(run: Run, request: DrawRequest) -> dict[str, Any]:
    """The next token that the seed draws, and the reading with it; a token that ends the text is not appended."""
    model: LanguageModel[Any] = run.predictor
    prompt = tokens_of(model, TextSoFar(text=request.text)).tolist()
    require_tokens(model, request.written)
    token = draw(model, prompt, request.written, request.sampling, request.seed)
    ended = token == model.end
    written = request.written if ended else (*request.written, token)
    return {
        "token": token,
        "ended": ended,
        "shown": read(run, GenerationRequest(text=request.text, written=written, sampling=request.sampling)),
    }


def search(run: Run, request: BeamRequest) -> dict[str, Any]:
    """The likeliest continuations that a beam finds, the best first."""
    model: LanguageModel[Any] = run.predictor
    text = model.tokenizer.decode(tokens_of(model, request).tolist()) if request.written else request.text
    found = model.beam_search(text or model.opening, beam=request.beam, length=request.length)
    return {"text": text, "continuations": [piece.text for piece in found]}


def tokens_of(model: LanguageModel[Any], request: TextSoFar) -> Tensor:
    require_tokens(model, request.written)
    prompt = model.tokens_of(request.text or model.opening)
    return torch.cat([prompt, torch.tensor(request.written, dtype=prompt.dtype, device=prompt.device)])


ACTIONS = {"open": open_view, "read": read, "step": step, "search": search}
