"""A `tokenizer.json`, looked at before the library of Hugging Face gets it: where parts of a file do not fit together,
that one panics, which is no Exception of Python's, or fails at the first text."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tokenizers

from neuropil.errors import NeuropilError


class UnfitTokenizerError(ValueError):
    """Parts of a tokenizer do not fit together."""


@contextmanager
def refused_by_library(error: NeuropilError) -> Iterator[None]:
    """Raise `error` for whatever the library raises: nothing more special than Exception, or a panic of Rust."""
    try:
        yield
    except NeuropilError:
        raise
    except BaseException as cause:
        if not isinstance(cause, Exception) and type(cause).__module__ != "pyo3_runtime":
            raise
        raise error from cause


def parse_tokenizer(text: str) -> tokenizers.Tokenizer:
    content = json.loads(text)
    _require_model(content["model"])
    _require_template(content.get("post_processor"))
    if _num_byte_levels(content.get("pre_tokenizer")) > 1:
        raise UnfitTokenizerError("bytes of bytes")  # each time may double a text
    return tokenizers.Tokenizer.from_str(text)


def _require_model(model: Mapping[str, Any]) -> None:
    if model.get("type") == "BPE" and model.get("continuing_subword_prefix"):
        raise UnfitTokenizerError("merges of pieces with a prefix")  # the library takes it from shorter pieces too
    unknown = model.get("unk_token")
    if unknown is not None and unknown not in model["vocab"]:
        raise UnfitTokenizerError(f"no token {unknown!r} for what is unknown")


def _num_byte_levels(step: Any) -> int:
    if not isinstance(step, Mapping):
        return 0
    return (step.get("type") == "ByteLevel") + sum(map(_num_byte_levels, step.get("pretokenizers", ())))


def _require_template(processor: Any) -> None:
    """Of the tokens around a text, each is described."""
    if not isinstance(processor, Mapping):
        return
    for inner in processor.get("processors", ()):
        _require_template(inner)
    if processor.get("type") == "TemplateProcessing":
        pieces = [*processor["single"], *processor["pair"]]
        named = {piece["SpecialToken"]["id"] for piece in pieces if "SpecialToken" in piece}
        if missing := named - set(processor["special_tokens"]):
            raise UnfitTokenizerError(f"no number for {min(missing)!r}")
