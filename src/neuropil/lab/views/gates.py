"""The gates and states of recurrent cells while they read a text that is typed, and what the model makes of each token
as it is read."""

from typing import Any

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.inspection.gates import GATES_BETWEEN_0_AND_1, correlation, ranked_units, ties
from neuropil.inspection.report.gates import CellActivity, strongest, watch
from neuropil.inspection.text_properties import properties_of
from neuropil.lab.bounds import require_length
from neuropil.lab.view import LANGUAGE_MODELS
from neuropil.runs.pages.gates import held_out_text
from neuropil.runs.run import Run

MOST_CHARACTERS = 240
SHOWN_UNITS, SHOWN_CLASSES = 32, 5
BY_VARIANCE, BY_NUMBER = "variance", "number"
EXAMPLES = {
    "text_classifier": "Return the eigenvalues of a matrix, and plot them as a graph with coloured nodes.",
    "tagger": "Tuesday, 4 March 1997",
}
EXAMPLE = 'A list is a "mutable" sequence (see below).\nIt has 3 methods.'


class GatesRequest(Config):
    text: str = option("", "text to read")
    cell: str | None = option(None, "recurrent cell; by default the first that runs")
    gate: str | None = option(None, "gate or state of the cell; by default its state h")
    sort: str = option(BY_VARIANCE, "order of the units: variance, number, or a property of the text")
    unit: int | None = option(None, "the unit to follow; by default the first one shown", low=0, high=1_000_000)

    def validate(self) -> None:
        require_length("text", self.text, MOST_CHARACTERS)


def open_view(run: Run) -> dict[str, Any]:
    text = EXAMPLES.get(run.name, EXAMPLE)
    found = {"system": run.name, "text": text, "characters": MOST_CHARACTERS, "ties": run.name in LANGUAGE_MODELS}
    return found | {
        "orders": [BY_VARIANCE, BY_NUMBER, *properties_of("a")],
        "shown": read(run, GatesRequest(text=text)),
    }


def read(run: Run, request: GatesRequest) -> dict[str, Any]:
    watched = {each.name: each for each in watch(run.predictor, request.text or " ")}
    cell = watched[choice("cell", request.cell, list(watched), next(iter(watched)))]
    gate = choice("gate", request.gate, list(cell.gates), "h")
    values = cell.gates[gate]
    order, ranks = ordered(cell, gate, request.sort)
    unit = order[0] if request.unit is None else request.unit
    if unit >= values.shape[1]:
        raise InputError(f"a unit's number must be from 0 to {values.shape[1] - 1}", got=f"{unit}")
    shown = order[:SHOWN_UNITS]
    return {
        "tokens": list(cell.tokens),
        "cells": list(watched),
        "cell": cell.name,
        "gates": list(cell.gates),
        "gate": gate,
        "positive": gate in GATES_BETWEEN_0_AND_1,
        "units": shown,
        "ranks": ranks[:SHOWN_UNITS],
        "count": values.shape[1],
        "rows": [[round(value, 4) for value in values[:, each].tolist()] for each in shown],
        "unit": unit,
        "traces": {name: [round(each, 5) for each in part[:, unit].tolist()] for name, part in cell.gates.items()},
        "answers": answers(run, request.text or " "),
    }


def ordered(cell: CellActivity, gate: str, sort: str) -> tuple[list[int], list[float]]:
    """Units, and the numbers that they are ordered by: variances or correlations; none where it is their own."""
    values = cell.gates[gate]
    if sort == BY_NUMBER:
        return list(range(values.shape[1])), []
    if sort == BY_VARIANCE:
        order = ranked_units(values)
        return order.tolist(), values.var(0, correction=0)[order].tolist()
    properties = properties_of(cell.tokens)
    property = properties[choice("sort", sort, list(properties), BY_VARIANCE)]
    order = ranked_units(values, property)
    return order.tolist(), correlation(values, property)[order].tolist()


def answers(run: Run, text: str) -> dict[str, Any]:
    """What the model makes of each token: surprise of a language model; classes or tags with their probabilities."""
    if run.name in LANGUAGE_MODELS:
        nats = run.predictor.score_tokens(run.predictor.tokens_of(text))[0]
        return {"kind": "surprise", "nats": [None, *nats.tolist()]}
    _, shares = run.predictor.probabilities_by_token(text)
    names = run.predictor.tags if run.name == "tagger" else run.predictor.classes
    best = list(zip(shares.argmax(-1).tolist(), shares.amax(-1).tolist(), strict=True))
    likeliest = shares[-1].topk(min(SHOWN_CLASSES, len(names))).indices.tolist()
    return {
        "kind": "tags" if run.name == "tagger" else "classes",
        "best": [[names[number], share] for number, share in best],
        "lines": {names[each]: [round(share, 5) for share in shares[:, each].tolist()] for each in likeliest},
    }


def find_ties(run: Run) -> dict[str, Any]:
    """Units that go with a property of held-out text in one half of it and in the other."""
    if run.name not in LANGUAGE_MODELS:
        raise InputError("ties are found in held-out text of language models", got=f"a run of {run.name}")
    text = held_out_text(run)
    if not text:
        raise InputError("ties are found in held-out text", got="a run whose data is no longer there")
    found = [
        {"cell": cell.name, **tie._asdict()}
        for cell in watch(run.predictor, text)
        for tie in strongest(ties(cell.gates, properties_of(cell.tokens)))
    ]
    return {"characters": len(text), "ties": sorted(found, key=lambda tie: -abs(tie["held_out"]))}


def choice(name: str, given: str | None, known: list[str], default: str) -> str:
    if given is None:
        return default
    if given not in known:
        raise InputError(f"{name} must be one of {', '.join(known)}", got=f"{given!r}")
    return given


ACTIONS = {"open": open_view, "read": read, "ties": find_ties}
