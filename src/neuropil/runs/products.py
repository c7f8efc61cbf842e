"""The forward pass of a run's model for one input of its user's, in which any number can be opened."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from neuropil.data.examples.dataset import Schema
from neuropil.errors import InputError, RunError, counted
from neuropil.inspection.products.layers import Answer
from neuropil.inspection.products.stages import TracedPass
from neuropil.inspection.products.tracers import TRACERS, trace
from neuropil.inspection.report.attention import Tokenized, tokens_of
from neuropil.protocols import PADDING
from neuropil.runs.run import Run
from neuropil.tasks.classification.predictor import ExamplePredictor
from neuropil.tasks.predictor import as_examples, device_of
from neuropil.tasks.tagging.predictor import Tagger
from neuropil.tasks.text_classification.predictor import MaskedTextClassifier, TextClassifier


@dataclass(frozen=True)
class RunPass:
    """`tokens` are the words of the axis of time, where a text was read; `class_name` is that of an output."""

    traced: TracedPass
    tokens: Sequence[str]
    class_name: Callable[[int], str]


def trace_run(run: Run, given: Any) -> RunPass:
    """Of a text, or of one example as `predict` takes it."""
    trained = run.predictor
    if not isinstance(trained.model, tuple(TRACERS)):
        got = f"a run of {run.name}"
        raise RunError(f"{run.folder} must hold a model whose numbers can be opened", got=got, fix="train an mlp")
    if isinstance(trained, ExamplePredictor):
        return _of_example(trained, given)
    if not isinstance(given, str):
        raise InputError(f"a run of {run.name} reads a text", got=type(given).__name__)
    if isinstance(trained, TextClassifier):
        tokens, labels = trained.tokens_of(given)
        _require_tokens(len(tokens), given)
        return _of_tokens(trained, tokens, labels, lambda number: trained.classes[number])
    if isinstance(trained, Tagger):
        labels = trained.vocabulary.split(given)[: trained.max_tokens]
        _require_tokens(len(labels), given)
        tokens = torch.tensor(trained.vocabulary.encode(labels))
        return _of_tokens(trained, tokens, labels, lambda number: trained.tags[number])
    if not isinstance(trained, Tokenized):
        raise RunError(f"{run.folder} must hold a model that reads one text", got=f"a run of {run.name}")
    tokens, tokenizer = tokens_of(trained, given), trained.tokenizer
    labels = tokenizer.tokens(tokens.tolist())
    return _of_tokens(trained, tokens, labels, lambda number: tokenizer.tokens([number])[0])


def _of_example(trained: ExamplePredictor, given: Any) -> RunPass:
    examples = as_examples(given, trained.schema)
    if len(examples) != 1:
        raise InputError("the numbers of one example are opened", got=counted(len(examples), "example"))
    schema = trained.schema
    names = schema.classes or schema.labels or (schema.target or "output",)
    traced = trace(trained.model, examples.to(device_of(trained.model)), _answer(schema))
    return RunPass(traced, (), lambda number: names[number])


def _answer(schema: Schema) -> Answer:
    return "softmax" if schema.classes else "logistic" if schema.labels else "identity"


def _of_tokens(trained: Any, tokens: Tensor, labels: Sequence[str], class_name: Callable[[int], str]) -> RunPass:
    batch = tokens.unsqueeze(0).to(device_of(trained.model))
    given = (batch, batch != PADDING) if isinstance(trained, MaskedTextClassifier) else batch
    return RunPass(trace(trained.model, given), labels, class_name)


def _require_tokens(count: int, text: str) -> None:
    if not count:
        raise InputError("a text to look at must have one token or more", got=f"{text!r}")
