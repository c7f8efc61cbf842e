"""From the whole to one multiplication: a forward pass as stages of numbers, any of which opens into its makers."""

import base64
import re
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from neuropil.config import option
from neuropil.errors import InputError
from neuropil.inspection.products.opened import Factor, NumberPlace, OpenedNumber, Term
from neuropil.inspection.products.stages import TracedStage
from neuropil.inspection.report.alignment import shown
from neuropil.lab.bounds import require_length
from neuropil.lab.equations import mathml
from neuropil.lab.pictures import PictureRequest, chosen_picture, offered
from neuropil.runs.attack import splits_of
from neuropil.runs.products import RunPass, trace_run
from neuropil.runs.run import Run
from neuropil.tasks.classification.predictor import ExamplePredictor

MOST_CHARACTERS, MOST_TOKENS = 200, 48
MOST_CLASSES = 64
"""Of a vocabulary: the likeliest."""
MOST_CELLS, CELLS_AT_FIRST = 2**16, 2**17
"""Numbers of a stage that are drawn, and of the parts of a model that are drawn before anybody asks."""
MOST_PARTS, MOST_AXES, MOST_TERMS = 64, 4, 24
MOST_ROWS = 100
"""Of a table to choose from."""
TEXTS = {
    "text_classifier": "Draw a line plot of the array.",
    "bert_classifier": "Draw a line plot of the array.",
    "bert": "The [MASK] returns a list.",
    "tagger": "14 March 2019",
}
EXAMPLE = "The function returns"


class PassRequest(PictureRequest):
    text: str = option("", "the text that is read")
    parts: tuple[str, ...] | None = option(None, "parts of the model that are drawn; by default the first ones")

    def validate(self) -> None:
        super().validate()
        require_length("text", self.text, MOST_CHARACTERS)
        require_length("parts", self.parts or (), MOST_PARTS)
        for part in self.parts or ():
            require_length("the name of a part", part, MOST_CHARACTERS)


class NumberRequest(PassRequest):
    stage: str = option("", "the stage whose number is opened")
    index: tuple[int, ...] = option((), "its index", low=0, high=2**31 - 1)
    most: int = option(MOST_TERMS, "terms that are shown", low=1, high=1_000)

    def validate(self) -> None:
        super().validate()
        require_length("stage", self.stage, MOST_CHARACTERS)
        require_length("index", self.index, MOST_AXES)


def open_view(run: Run) -> dict[str, Any]:
    kind, about = kind_of(run), dict[str, Any]()
    if kind == "picture":
        about = offered(run)
    elif kind == "table":
        about = {"rows": len(table_of(run))}
    request = PassRequest(text=TEXTS.get(run.name, EXAMPLE) if kind == "text" else "")
    limits = {"characters": MOST_CHARACTERS, "text": request.text}
    return {"system": run.name, "kind": kind, **limits, **about, "shown": read(run, request)}


def kind_of(run: Run) -> str:
    if not isinstance(run.predictor, ExamplePredictor):
        return "text"
    return "picture" if run.predictor.schema.kind == "image" else "table"


_tables: WeakKeyDictionary[Run, Tensor] = WeakKeyDictionary()


def table_of(run: Run) -> Tensor:
    """Held-out rows, read once for as long as the run is open."""
    if run not in _tables:
        _tables[run] = splits_of(run).test.inputs[:MOST_ROWS]
    return _tables[run]


_passes: WeakKeyDictionary[Run, tuple[tuple[Any, ...], RunPass]] = WeakKeyDictionary()


def passed(run: Run, request: PassRequest) -> RunPass:
    """The pass of an input, kept until another is asked for: who walks down asks again and again."""
    given = (request.text, request.drawing, request.example)
    if run not in _passes or _passes[run][0] != given:
        _passes[run] = given, new_pass(run, request)
    return _passes[run][1]


def new_pass(run: Run, request: PassRequest) -> RunPass:
    kind = kind_of(run)
    if kind == "picture":
        return trace_run(run, chosen_picture(run, request))
    if kind == "table":
        rows = table_of(run)
        number = min(request.example, len(rows) - 1)
        return trace_run(run, rows[number : number + 1])
    found = trace_run(run, request.text)
    if len(found.tokens) > MOST_TOKENS:
        got, fix = f"{len(found.tokens)}", "shorten it"
        raise InputError(f"a text to open has at most {MOST_TOKENS} tokens", got=got, fix=fix)
    return found


# --- the whole --------------------------------------------------------------------------------------------------------


def read(run: Run, request: PassRequest) -> dict[str, Any]:
    found = passed(run, request)
    stages = list(found.traced.stages.values())
    drawn = first_parts(stages) if request.parts is None else set(request.parts)
    columns = likeliest(stages[-1])
    return {
        "tokens": [shown(token) for token in found.tokens],
        "parts": sorted(drawn),
        "stages": [described(stage, part_of(stage) in drawn, columns, found) for stage in stages],
    }


def part_of(stage: TracedStage) -> str:
    """The outermost part of the model that a stage stands in; what stands in none is always drawn."""
    return stage.path[0] if stage.path else ""


def first_parts(stages: list[TracedStage]) -> set[str]:
    """Those that are drawn before anybody asks: whole models that are small, and the beginning of others."""
    cells: dict[str, int] = {}
    for stage in stages:
        cells[part_of(stage)] = cells.get(part_of(stage), 0) + min(stage.values.numel(), MOST_CELLS)
    kept, total = {""}, 0
    for part, count in cells.items():
        total += count
        if total <= CELLS_AT_FIRST or len(kept) == 1:
            kept.add(part)
    return kept


def likeliest(last: TracedStage) -> list[int] | None:
    """The outputs that are drawn, where there are many: those with the largest probability anywhere."""
    if last.axes[-1] != "class" or last.shape[-1] <= MOST_CLASSES:
        return None
    best = last.values.reshape(-1, last.shape[-1]).amax(0)
    return best.topk(MOST_CLASSES).indices.tolist()


def described(stage: TracedStage, drawn: bool, columns: list[int] | None, found: RunPass) -> dict[str, Any]:
    values = stage.values
    chosen = columns if stage.axes and stage.axes[-1] == "class" else None
    if chosen is not None:
        values = values[..., chosen]
    if values.numel() > MOST_CELLS:
        values = values[: max(1, MOST_CELLS * len(values) // values.numel())]
    described = {
        "name": stage.name,
        "title": stage.title,
        "path": list(stage.path),
        "axes": list(stage.axes),
        "shape": list(stage.shape),
        "drawn": list(values.shape),
        "columns": chosen,
        "names": None,
        "picture": None,
    }
    if stage.axes and stage.axes[-1] == "class":
        described["names"] = [shown(found.class_name(number)) for number in chosen or range(stage.shape[-1])]
    return described | (painted(values) if drawn else {})


def painted(values: Tensor) -> dict[str, Any]:
    """A byte for each number: 128 is nothing, 1 and 255 the largest size below and above it, and 0 no number."""
    values = values.detach().cpu().double()
    known = values.isfinite()
    largest = values[known].abs().amax().item() if known.any() else 0.0
    shades = torch.where(known, values / (largest or 1) * 127 + 128, 0).round().to(torch.uint8)
    return {"largest": largest, "picture": base64.b64encode(shades.contiguous().numpy().tobytes()).decode()}


# --- one number -------------------------------------------------------------------------------------------------------


def open_number(run: Run, request: NumberRequest) -> dict[str, Any]:
    found = passed(run, request)
    whole = found.traced.open(NumberPlace(request.stage, request.index))
    opened, stage = whole.shortened(request.most), found.traced.stages[whole.place.stage]
    return {
        "stage": opened.place.stage,
        "index": list(opened.place.index),
        "title": stage.title,
        "axes": list(stage.axes),
        "about": about(stage, opened, found),
        "value": opened.value,
        "recomputed": whole.recomputed(),
        "equation": mathml(subscripted(opened.equation)),
        "operation": opened.operation,
        "function": opened.function,
        "terms": [term_of(term, found) for term in opened.terms],
        "rest": opened.rest,
        "rest_count": opened.rest_count,
        "count": opened.count,
        "code": opened.code._asdict(),
    }


def term_of(term: Term, found: RunPass) -> dict[str, Any]:
    return {"value": term.value, "role": term.role, "factors": [factor_of(factor, found) for factor in term.factors]}


def factor_of(factor: Factor, found: RunPass) -> dict[str, Any]:
    """With the word of its last axis, where that is a token or a class."""
    axes = found.traced.stages[factor.name].axes if factor.kind == "number" else ()
    word = word_of(axes[-1], factor.index[-1], found) if axes else None
    index = list(factor.index)
    return {"kind": factor.kind, "name": factor.name, "index": index, "value": factor.value, "word": word}


def word_of(axis: str, number: int, found: RunPass) -> str | None:
    if axis in ("time", "query", "key") and found.tokens:
        return shown(found.tokens[number])
    return shown(found.class_name(number)) if axis == "class" else None


def about(stage: TracedStage, opened: OpenedNumber, found: RunPass) -> list[str]:
    """What the index means, axis by axis, where it has a word."""
    index = zip(stage.axes, opened.place.index, strict=True)
    words = [(axis, number, word_of(axis, number, found)) for axis, number in index]
    return [f"{axis} {number} “{word}”" for axis, number, word in words if word is not None]


def subscripted(equation: str) -> str:
    """Short indices stand below their letters, and the name of a gate above: a[2] as a_{2}, a_f[2] as a^{f}_{2}."""
    equation = re.sub(r"_(\w)\[", r"^{\1}[", equation)
    while (lowered := re.sub(r"\[([^\[\]]{1,12})\]", r"_{\1}", equation)) != equation:
        equation = lowered
    return equation


ACTIONS = {"open": open_view, "read": read, "number": open_number}
