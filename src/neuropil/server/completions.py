"""/v1/completions: from fields to texts that are written, and back to what OpenAI's clients read."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.sampling.text.continuous_batching import TextRequest, TextUpdate, TokenScore
from neuropil.sampling.text.filters import SamplingConfig
from neuropil.sampling.text.generation import limit_of
from neuropil.sampling.text.streaming import Decoding
from neuropil.server.config import ServerConfig
from neuropil.server.fields import require_texts
from neuropil.server.models import ServedModel
from neuropil.server.refusals import Refusal, refusal_of
from neuropil.tasks.language_modelling.predictor import LanguageModel

MOST_STOPS, LONGEST_STOP = 16, 1000
FINISHED = {"end": "stop", "stopped": "stop", "length": "length", "context": "length"}


class CompletionFields(Config):
    model: str = option("", "name of a served model")
    prompt: object = option("", "a text, a list of texts, or token numbers")
    max_tokens: int | None = option(None, "most new tokens", low=0)
    temperature: float = option(1.0, "temperature; 0 for greedy decoding", low=0, high=10)
    top_p: float = option(1.0, "top-p (nucleus)", low=0, high=1)
    top_k: int = option(0, "top-k; 0 for all", low=0, high=10**9)
    min_p: float = option(0.0, "min-p", low=0, high=1)
    repetition_penalty: float = option(1.0, "repetition penalty; 1 for none", low=0.01, high=100)
    n: int = option(1, "texts for each prompt", low=1, high=128)
    stop: tuple[str, ...] = option((), "stop strings, which are not part of the text")
    seed: int | None = option(None, "random seed", low=-(2**63), high=2**63 - 1)
    stream: bool = option(False, "send the text as it is written")
    stream_options: object = option(None, "include_usage")
    logprobs: int | None = option(None, "log-probabilities of so many alternatives for each token", low=0, high=20)
    echo: bool = option(False, "the prompt before the text")
    user: str = option("", "who asks, which nothing is done with")
    best_of: int | None = option(None, "only as n")
    suffix: str = option("", "only empty")
    presence_penalty: float = option(0.0, "only 0")
    frequency_penalty: float = option(0.0, "only 0")
    logit_bias: object = option(None, "only empty")

    def validate(self) -> None:
        require_prompts(self.prompt)
        if len(self.stop) > MOST_STOPS or any(not 1 <= len(stop) <= LONGEST_STOP for stop in self.stop):
            raise InputError(f"stop must be up to {MOST_STOPS} texts of 1 to {LONGEST_STOP:,} characters", got="others")
        options = {} if self.stream_options is None else self.stream_options
        if not isinstance(options, dict) or not options.keys() <= {"include_usage"}:
            raise InputError("stream_options must be an object with include_usage alone", got="another")
        if not isinstance(options.get("include_usage", False), bool):
            raise InputError("stream_options must say true or false for include_usage", got="something else")
        neutral = {"suffix": "", "presence_penalty": 0, "frequency_penalty": 0, "best_of": self.n}
        for name, value in neutral.items():
            if (given := getattr(self, name)) not in (value, None):
                raise InputError(f"{name} must be {value!r} or left out: it is not supported", got=f"{given!r}")
        if self.logit_bias not in (None, {}):
            raise InputError("logit_bias must be empty or left out: it is not supported", got="some")

    @property
    def include_usage(self) -> bool:
        return isinstance(self.stream_options, dict) and self.stream_options.get("include_usage", False)

    @property
    def sampling(self) -> SamplingConfig:
        names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
        return SamplingConfig(**{name: getattr(self, name) for name in names})


def require_prompts(prompt: object) -> None:
    """A text or tokens, or a list of such."""
    if isinstance(prompt, str) or is_tokens(prompt):
        return
    if isinstance(prompt, list) and prompt and all(is_tokens(each) for each in prompt):
        return
    if isinstance(prompt, list) and not all(isinstance(each, str) for each in prompt):
        rule = "prompt must be a text, a list of texts, token numbers, or a list of lists of token numbers"
        raise InputError(rule, got="a list of other things")
    require_texts("prompt", prompt)


def is_tokens(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(each, int) and not isinstance(each, bool) for each in value)


@dataclass(frozen=True)
class Prompt:
    text: str
    tokens: list[int]
    opened: bool = False
    """Whether the tokens are those that an empty text begins with, which no answer has."""


def read_prompts(model: LanguageModel, prompt: Any, n: int, most: int) -> list[Prompt]:
    """Of a request for `n` texts each. An empty text begins as `generate` begins it."""
    if isinstance(prompt, str) or is_tokens(prompt):
        prompt = [prompt]
    if len(prompt) * n > most:  # before any is read, which takes time
        raise Refusal(400, f"A request may ask for at most {most:,} texts here, but got {len(prompt) * n:,}.")
    size = len(model.tokenizer)
    found: list[Prompt] = []
    for each in prompt:
        if isinstance(each, str):
            tokens = model.tokens_of(each or model.opening).tolist()
            found.append(Prompt(each, tokens, opened=not each))
            continue
        unknown = next((token for token in each if not 0 <= token < size), None)
        if unknown is not None:
            said = f"prompt must hold token numbers from 0 to {size - 1:,}, but got {str(unknown)[:30]}."
            raise Refusal(400, said, param="prompt")
        found.append(Prompt(model.tokenizer.decode(each), each))
    return found


def text_requests(
    fields: CompletionFields, prompts: Sequence[Prompt], longest: int, context: int | None, config: ServerConfig
) -> list[TextRequest]:
    """`n` for each prompt. A length that cannot be had is refused, and no prompt is cut."""
    seed = secrets.randbits(63) if fields.seed is None else fields.seed
    length = config.max_tokens if fields.max_tokens is None else fields.max_tokens
    if length > config.max_tokens:
        said = f"max_tokens must be at most {config.max_tokens:,} here, but got {length:,}."
        raise Refusal(400, said, param="max_tokens")
    for prompt in prompts:
        taken = len(prompt.tokens)
        if taken > longest:
            said = f"prompt must have at most {longest:,} tokens here, but got {taken:,}."
            raise Refusal(400, said, param="prompt", code="context_length_exceeded")
        limit = limit_of(prompt.tokens, length, context)
        if fields.max_tokens is not None and limit.ending == "context":
            rule = f"max_tokens must fit into the context of {context:,} tokens beside a prompt of {taken:,}"
            said = f"{rule}, but got {length:,}: ask for at most {limit.tokens:,}."
            raise Refusal(400, said, param="max_tokens", code="context_length_exceeded")
    return [
        TextRequest(
            prompt.tokens,
            fields.sampling,
            length,
            fields.stop,
            seed,
            sample,
            alternatives=fields.logprobs,
            scored_prompt=fields.echo and fields.logprobs is not None and not prompt.opened,
        )
        for prompt in prompts
        for sample in range(fields.n)
    ]


class Choice:
    """One text of an answer, as it grows. Log-probabilities come when the text of their tokens has come."""

    def __init__(self, index: int, model: LanguageModel, prompt: Prompt, request: TextRequest, echo: bool):
        self.index, self.model = index, model
        self.text, self.written = prompt.text if echo else "", 0
        self.finished: str | None = None
        before = () if request.scored_prompt else request.prompt
        self.scored = request.alternatives is not None
        self.offset, self.decoding = 0, Decoding(model.tokenizer.decode, before)
        self.held: list[tuple[int, TokenScore]] = []
        self.scores: list[tuple[int, TokenScore]] = []

    def add(self, update: TextUpdate) -> str:
        """The text that is new; `scores` then has what belongs to it."""
        if update.failure is not None:
            raise refusal_of(update.failure)
        self.text += update.text
        self.written += update.written
        for score in update.scores:
            self.held.append((self.offset, score))
            self.offset += len(self.decoding.add(score.token))
        if update.ended:
            self.finished = FINISHED[update.ended]
        whole = bool(update.ended) and update.ended != "stopped"  # a stop string takes its tokens along
        ready = [each for each in self.held if whole or each[0] < len(self.text)]
        self.held = self.held[len(ready) :]
        self.scores += ready
        return update.text

    def to_dict(self, text: str) -> dict[str, Any]:
        """With the scores that have come since the last time."""
        scores, self.scores = self.scores, []
        logprobs = self._logprobs(scores) if self.scored else None
        return {"index": self.index, "text": text, "logprobs": logprobs, "finish_reason": self.finished}

    def _logprobs(self, scores: Sequence[tuple[int, TokenScore]]) -> dict[str, Any]:
        labels = self.model.tokenizer.tokens([score.token for _, score in scores])
        return {
            "tokens": labels,
            "token_logprobs": [score.log_probability for _, score in scores],
            "top_logprobs": [
                self._alternatives(label, score) for label, (_, score) in zip(labels, scores, strict=True)
            ],
            "text_offset": [offset for offset, _ in scores],
        }

    def _alternatives(self, label: str, score: TokenScore) -> dict[str, float] | None:
        """With the token itself, as OpenAI has it, be it probable or not."""
        if score.log_probability is None:
            return None
        tokens = self.model.tokenizer.tokens
        # Of pieces of characters, which look alike, the most probable stays.
        best = {tokens([token])[0]: value for token, value in reversed(score.alternatives) if token != score.token}
        return {**best, label: score.log_probability}


class Completion:
    """The answer to one request."""

    def __init__(self, served: ServedModel, model: LanguageModel, fields: CompletionFields, prompts: Sequence[Prompt]):
        self.served, self.model, self.fields, self.prompts = served, model, fields, prompts
        self.id, self.created = f"cmpl-{secrets.token_hex(12)}", int(time.time())

    def choices(self, requests: Sequence[TextRequest]) -> list[Choice]:
        n, echo = self.fields.n, self.fields.echo
        return [
            Choice(index, self.model, self.prompts[index // n], request, echo) for index, request in enumerate(requests)
        ]

    def usage(self, choices: Sequence[Choice]) -> dict[str, int]:
        asked, written = sum(len(prompt.tokens) for prompt in self.prompts), sum(each.written for each in choices)
        return {"prompt_tokens": asked, "completion_tokens": written, "total_tokens": asked + written}

    def to_dict(self, choices: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
        named = {"id": self.id, "object": "text_completion", "created": self.created, "model": self.served.name}
        return {**named, "choices": list(choices), **more}
