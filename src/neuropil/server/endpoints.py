"""What a model can be asked beside text generation: each endpoint's fields, and how they are answered."""

import base64
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np

from neuropil.config import Config, option
from neuropil.data.formats.memory import InMemory, in_memory
from neuropil.errors import ContextLengthError, InputError, NeuropilError
from neuropil.http.json_values import finite
from neuropil.server.config import ServerConfig
from neuropil.server.fields import json_type, require_texts
from neuropil.server.models import ServedModel
from neuropil.server.predicting import Work
from neuropil.server.prometheus import Figures
from neuropil.server.refusals import Refusal
from neuropil.tasks.predictor import Classifies, Embeds, Fills, Forecasts, LimitedReader, Predicts, Tags, Translates

MOST_CELLS = 200_000
"""Values of one table of series."""


class InputFields(Config):
    """One text or several."""

    most: ClassVar[int] = 2048

    model: str = option("", "name of a served model")
    input: object = option("", "a text, or a list of texts")
    user: str = option("", "who asks, which nothing is done with")

    def validate(self) -> None:
        texts = require_texts("input", self.input)
        if len(texts) > self.most:
            raise InputError(f"input must hold at most {self.most:,} texts", got=f"{len(texts):,}")

    @property
    def texts(self) -> list[str]:
        return require_texts("input", self.input)


class EmbeddingFields(InputFields):
    encoding_format: Literal["float", "base64"] = option("float", "numbers, or the bytes of float32")
    dimensions: int | None = option(None, "the model's own width", low=1, high=10**6)

    def validate(self) -> None:
        if isinstance(self.input, list) and self.input and all(isinstance(each, int | list) for each in self.input):
            fix = "send the texts: tokens are numbered otherwise by every tokenizer"
            raise InputError("input must be a text or a list of texts", got="token numbers", fix=fix)
        super().validate()


class TranslateFields(InputFields):
    most: ClassVar[int] = 128

    beam_width: int = option(1, "beam width; 1 is greedy", low=1, high=16)
    length_penalty: float = option(0.6, "length penalty of the beam search; 0 for none", low=0, high=10)


class FillFields(InputFields):
    most: ClassVar[int] = 64

    top: int = option(5, "words for each [MASK]", low=1, high=100)


class ForecastFields(Config):
    model: str = option("", "name of a served model")
    values: object = option(None, "the values of one series, the last of which is the latest; null for a gap")
    table: object = option(None, "columns by name, as in the file that the model was trained on")
    user: str = option("", "who asks, which nothing is done with")

    def validate(self) -> None:
        if self.values is not None and (not isinstance(self.values, list) or not all(map(_is_value, self.values))):
            raise InputError("values must be a list of numbers, and null for gaps", got=_what(self.values))
        if self.values is not None and not 1 <= len(cast(list[Any], self.values)) <= MOST_CELLS:
            got = f"{len(cast(list[Any], self.values)):,}"
            raise InputError(f"values must have 1 to {MOST_CELLS:,} numbers", got=got)
        if self.table is not None:
            require_table(self.table)


def _is_value(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e100)


def _what(value: object) -> str:
    return "a list of other things" if isinstance(value, list) else json_type(value)


def require_table(table: object) -> None:
    """A path in place of values would be read from the server's disk, so nothing but cells is let through."""
    rule = "table must be an object of columns, each a list of cells"
    if not isinstance(table, dict) or not table:
        raise InputError(rule, got="an empty one" if table == {} else json_type(table))
    for name, column in table.items():
        if not isinstance(column, list) or not column:
            got = "an empty list" if column == [] else json_type(column)
            raise InputError(rule, got=f"{got} in column {name!r}")
    columns = list(table.values())
    cells = [cell for column in columns for cell in column]
    if len({len(column) for column in columns}) > 1 or len(cells) > MOST_CELLS:
        rule = f"table must have columns of one length, and at most {MOST_CELLS:,} cells"
        raise InputError(rule, got=f"columns of {', '.join(str(len(column)) for column in columns[:10])}")
    if not all(_is_value(cell) or isinstance(cell, str) for cell in cells):
        raise InputError("table must have numbers, texts and null in its cells", got="something else")


Body = Mapping[str, Any]


@dataclass(frozen=True)
class Endpoint:
    protocol: type
    fields: type[Config]
    required: tuple[str, ...]
    answer: "Callable[[Asked], Coroutine[Any, Any, Body]]"


@dataclass(frozen=True)
class Asked:
    served: ServedModel
    fields: Any
    config: ServerConfig
    figures: Figures

    async def ask(
        self, work: Work, given: Sequence[Any], key: Hashable = None, *, field: str = "input"
    ) -> Sequence[Any]:
        """What a model says against what it is given is said of the field that gave it."""
        try:
            return await self.served.queue.ask(work, given, key)
        except NeuropilError as error:
            code = "context_length_exceeded" if isinstance(error, ContextLengthError) else None
            raise Refusal(400, str(error), param=field, code=code) from None

    def listed(self, data: Sequence[Body], **more: Any) -> Body:
        numbered = [{"index": index, **each} for index, each in enumerate(data)]
        return {"object": "list", "model": self.served.name, "data": numbered, **more}


async def embed(asked: Asked) -> Body:
    model, fields = asked.served.able(Embeds), cast(EmbeddingFields, asked.fields)

    def work(texts: Sequence[str]) -> list[tuple[np.ndarray, int]]:
        lengths = [0] * len(texts)
        if isinstance(model, LimitedReader):
            lengths = model.lengths(texts)
            require_short("embed", lengths, model.context)
        return list(zip(model.embed(texts).float().numpy(), lengths, strict=True))

    found = await asked.ask(work, fields.texts, "embed")
    width = len(found[0][0])
    if fields.dimensions not in (None, width):
        said = f"dimensions must be {width}, the model's own, or left out, but got {fields.dimensions}."
        raise Refusal(400, said, param="dimensions")
    if not all(np.isfinite(vector).all() for vector, _ in found):
        raise Refusal(500, "The model gave an embedding that is not finite.", code="internal_error")
    tokens = sum(count for _, count in found)
    asked.figures.prompt_tokens.add(tokens, model=asked.served.name)
    data = [{"object": "embedding", "embedding": _encoded(vector, fields.encoding_format)} for vector, _ in found]
    return asked.listed(data, usage={"prompt_tokens": tokens, "total_tokens": tokens})


def require_short(verb: str, lengths: Sequence[int], most: int) -> None:
    if max(lengths) > most:
        got = f"one of {max(lengths):,}"
        raise ContextLengthError(f"each text to {verb} must have at most {most:,} tokens", got=got)


def _encoded(vector: np.ndarray, form: str) -> str | list[float]:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode() if form == "base64" else vector.tolist()


async def classify(asked: Asked) -> Body:
    model = asked.served.able(Classifies)
    found = await asked.ask(lambda texts: model.classify(texts).records(), asked.fields.texts, "classify")
    return asked.listed(finite(list(found)))


async def tag(asked: Asked) -> Body:
    asked.served.able(Tags)
    model = asked.served.able(Predicts)  # which cuts a text into tokens first
    found = await asked.ask(lambda texts: model.predict(texts).records(), asked.fields.texts, "tag")
    return asked.listed(list(found))


async def translate(asked: Asked) -> Body:
    model, fields = asked.served.able(Translates), cast(TranslateFields, asked.fields)
    width, penalty = fields.beam_width, fields.length_penalty
    most, lengths = asked.served.longest_source, getattr(model, "lengths", None)

    def work(texts: Sequence[str]) -> Sequence[Body]:
        if lengths is not None:
            require_short("translate", lengths(texts), most)
        return model.translate(texts, beam_width=width, length_penalty=penalty).records()

    found = await asked.ask(work, fields.texts, ("translate", width, penalty))
    return asked.listed([{"translation": each["text"], "log_probability": each["log_probability"]} for each in found])


async def fill(asked: Asked) -> Body:
    model, fields = asked.served.able(Fills), cast(FillFields, asked.fields)

    def work(texts: Sequence[str]) -> Sequence[Body]:
        return [{"filled": [each.record() for each in model.fill(text, fields.top)]} for text in texts]

    return asked.listed(await asked.ask(work, fields.texts, ("fill", fields.top)))


async def forecast(asked: Asked) -> Body:
    model, fields = asked.served.able(Forecasts), cast(ForecastFields, asked.fields)
    if (fields.values is None) == (fields.table is None):
        raise Refusal(400, "A forecast needs either values or table.", param="values")
    gaps = [np.nan if value is None else float(value) for value in cast(list[Any], fields.values or [])]

    def work(inputs: Sequence[Any]) -> Sequence[Sequence[Body]]:
        found: Any = model.forecast(inputs[0] if fields.table is None else as_table(inputs[0]))
        places = [(series, step) for series, dates in zip(found.series, found.dates, strict=True) for step in dates]
        records = zip(places, found.records(), strict=True)
        return [[{"series": series, "step": step, **record} for (series, step), record in records]]

    (data,) = await asked.ask(work, [fields.table or gaps], field="values" if fields.table is None else "table")
    return asked.listed(finite(data))


def as_table(columns: object) -> InMemory:
    """Errors call it by its field."""
    table = in_memory(columns)
    table.name = "table"
    return table


ENDPOINTS: Sequence[Endpoint] = (
    Endpoint(Embeds, EmbeddingFields, ("input",), embed),
    Endpoint(Classifies, InputFields, ("input",), classify),
    Endpoint(Translates, TranslateFields, ("input",), translate),
    Endpoint(Forecasts, ForecastFields, (), forecast),
    Endpoint(Fills, FillFields, ("input",), fill),
    Endpoint(Tags, InputFields, ("input",), tag),
)
