"""The models that are served, by name."""

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from neuropil.errors import InputError, listed
from neuropil.runs.open import open as open_model
from neuropil.server.config import SECONDS_TO_JOIN, ServerConfig
from neuropil.server.decoding import TextWriter
from neuropil.server.predicting import PredictionQueue
from neuropil.server.prometheus import Figures, Gauge, Labels
from neuropil.server.refusals import Refusal
from neuropil.tasks.forecasting.predictor import SeriesForecaster
from neuropil.tasks.language_modelling.gpt2 import GPT2LanguageModel
from neuropil.tasks.language_modelling.predictor import LanguageModel
from neuropil.tasks.predictor import CAPABILITIES, Classifies, Embeds, Fills, Forecasts, Generates, Tags, Translates
from neuropil.tasks.tagging.predictor import Tagger

C = TypeVar("C")
PATHS: Mapping[type, str] = {
    Generates: "/v1/completions",
    Embeds: "/v1/embeddings",
    Classifies: "/v1/classify",
    Translates: "/v1/translate",
    Forecasts: "/v1/forecast",
    Fills: "/v1/fill",
    Tags: "/v1/tag",
}
LONGEST_SOURCE = 1024
"""Tokens of a text to translate, where the server has no other limit."""


class ServedModel:
    """A predictor, with the thread that asks it."""

    def __init__(self, name: str, predictor: Any, config: ServerConfig, figures: Figures):
        self.name, self.predictor, self.config, self.created = name, predictor, config, int(time.time())
        self.protocols = [protocol for protocol in PATHS if isinstance(predictor, protocol)]
        if not self.protocols:
            does = [each.does for each in CAPABILITIES if isinstance(predictor, each.protocol)]
            raise InputError(
                f"a model to serve must do one of {', '.join(PATHS.values())}",
                got=f"{name}, which {' and '.join(does) or 'does none of them'}",
            )
        self.writer = TextWriter(name, predictor, config, figures) if isinstance(predictor, LanguageModel) else None
        self.queue = PredictionQueue(name, config, figures)

    @property
    def paths(self) -> list[str]:
        return [PATHS[protocol] for protocol in self.protocols]

    @property
    def alive(self) -> bool:
        return all(thread.alive for thread in self.threads)

    @property
    def waiting(self) -> int:
        return sum(thread.waiting for thread in self.threads)

    @property
    def running(self) -> int:
        return sum(thread.running for thread in self.threads)

    @property
    def longest_source(self) -> int:
        """Tokens of a text to translate."""
        return self.config.max_prompt or LONGEST_SOURCE

    def able(self, protocol: type[C]) -> C:
        if isinstance(self.predictor, protocol):
            return self.predictor
        does = next(each.does for each in CAPABILITIES if each.protocol is protocol)
        said = (
            f"{PATHS[protocol]} needs a model that {does}, but got {self.name}, which has {' and '.join(self.paths)}."
        )
        raise Refusal(404, said, param="model", code="unsupported_endpoint")

    @property
    def threads(self) -> list[TextWriter | PredictionQueue]:
        return [self.queue] if self.writer is None else [self.writer, self.queue]

    def to_dict(self) -> dict[str, Any]:
        """As OpenAI lists a model, what can be asked of it, and what a client must know to ask."""
        context = getattr(self.predictor, "context", None)
        listed = {"id": self.name, "object": "model", "created": self.created, "owned_by": "neuropil"}
        known = {"endpoints": self.paths, "context": context if isinstance(context, int) else None}
        return {**listed, **known, **self._to_ask()}

    def _to_ask(self) -> dict[str, Any]:
        model = self.predictor
        if self.writer is not None:
            most = min(self.config.max_tokens, self.writer.model.context or self.config.max_tokens)
            return {"max_prompt": self.writer.longest_prompt, "max_tokens": most}
        if isinstance(model, Classifies):
            return {"labels": list(getattr(model, "classes", ()))}
        if isinstance(model, Tagger):
            return {"tags": list(model.tags)}
        if isinstance(model, SeriesForecaster):
            steps = {"window": model.window, "horizon": model.horizon, "step": str(model.step)}
            return {**steps, "columns": model.columns.to_dict()}
        return {"max_prompt": self.longest_source} if isinstance(model, Translates) else {}


class ServedModels:
    def __init__(self, models: Sequence[ServedModel], figures: Figures):
        self.named = {model.name: model for model in models}
        figures.gauges += [
            Gauge("neuropil_requests_waiting", "Texts and requests that wait", lambda: self._each("waiting")),
            Gauge(
                "neuropil_requests_running",
                "Texts in slots, and requests being answered",
                lambda: self._each("running"),
            ),
        ]

    @property
    def alive(self) -> bool:
        return all(model.alive for model in self.named.values())

    def find(self, name: str) -> ServedModel:
        """Where there is one only, it need not be named."""
        if not name and len(self.named) == 1:
            return next(iter(self.named.values()))
        if name in self.named:
            return self.named[name]
        got = repr(name[:100]) if name else "none"
        said = f"model must be one of {', '.join(self.named)}, but got {got}."
        raise Refusal(404 if name else 400, said, param="model", code="model_not_found")

    def close(self) -> None:
        """All are told before any is waited for."""
        until = time.monotonic() + SECONDS_TO_JOIN
        threads = [thread for model in self.named.values() for thread in model.threads]
        for thread in threads:
            thread.stop()
        for thread in threads:
            thread.join(until)

    @property
    def busy(self) -> bool:
        """Whether any is at work still."""
        return any(thread.alive for model in self.named.values() for thread in model.threads)

    def _each(self, what: str) -> dict[Labels, float]:
        return {(("model", name),): getattr(model, what) for name, model in self.named.items()}


def open_models(sources: Iterable[str], config: ServerConfig, figures: Figures) -> ServedModels:
    """Each RUN is called by the name of its folder; NAME=RUN gives it another."""
    opened: dict[str, Any] = {}
    for source in sources:
        name, path = _named(source)
        if name in opened:
            fix = f"give it another name: {shlex.quote(f'other={path}')}"
            raise InputError("models that are served together must differ in name", got=f"{name!r} twice", fix=fix)
        opened[name] = open_model(path)
    if config.precision != "float32" and not any(isinstance(each, GPT2LanguageModel) for each in opened.values()):
        got = f"{config.precision} for {listed([*opened])}"
        raise InputError("precision is that of GPT-2 models", got=got, fix="leave it out")
    return ServedModels([ServedModel(name, each, config, figures) for name, each in opened.items()], figures)


def _named(source: str) -> tuple[str, str]:
    name, equals, path = source.partition("=")
    if equals and name and path and not Path(source).exists():
        return name, path
    here = Path(source)
    if here.exists() or source.count("/") != 1:
        return here.resolve().name.removesuffix(".zip"), source
    return source, source  # owner/name on the hub
