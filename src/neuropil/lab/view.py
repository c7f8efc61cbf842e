"""The views of the lab: one row each, and how one is asked.

A view's module, `neuropil.lab.views.<name>`, has ACTIONS: functions that take an opened run (unless the view needs
none) and a request, a Config that bounds all that a page may ask for, and answer in plain JSON values. `open` is asked
first. Listing the views imports nothing heavy."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_type_hints

from neuropil.config import Config
from neuropil.errors import InputError, nearest

if TYPE_CHECKING:
    from neuropil.runs.run import Run

Action = Callable[..., Mapping[str, Any]]
LANGUAGE_MODELS = ("rnn", "lstm", "gru", "mingru")
PICTURE_CLASSIFIERS = ("mlp", "cnn", "vit", "attention", "spiking_classifier", "predictive_coding")


@dataclass(frozen=True)
class LabView:
    """`systems` are those whose runs it opens, or which it shows without any run. `code` are the dotted names of the
    functions and classes that compute what is shown."""

    name: str
    title: str
    idea: str
    systems: tuple[str, ...]
    code: tuple[str, ...]
    needs_run: bool = True

    @property
    def actions(self) -> Mapping[str, Action]:
        return import_module(f"neuropil.lab.views.{self.name}").ACTIONS


VIEWS = (
    LabView(
        "lif",
        "Spiking neurons",
        "the membrane of a leaky integrate-and-fire neuron under a current that you move",
        ("lif",),
        ("neuropil.models.lif.leak", "neuropil.models.lif.until_spike", "neuropil.models.lif.rate"),
        needs_run=False,
    ),
)


def find_view(name: str) -> LabView:
    for view in VIEWS:
        if view.name == name:
            return view
    raise InputError("a view must be one of the lab's", got=f"{name!r}", fix=nearest(name, [v.name for v in VIEWS]))


def views_of(system: str) -> list[LabView]:
    return [view for view in VIEWS if system in view.systems]


def ask(view: LabView, action: str, run: "Run | None", values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer of an action; what is not finite in it becomes None, which JSON knows."""
    if action not in view.actions:
        raise InputError(f"the view {view.name} must know the action", got=f"{action!r}")
    if view.needs_run and (run is None or run.name not in view.systems):
        got = "none" if run is None else f"one of {run.name}"
        raise InputError(f"the view {view.name} opens a run of {', '.join(view.systems)}", got=got)
    function = view.actions[action]
    request = _request_of(function)
    given: list[Any] = [run] if view.needs_run else []
    if request is not None:
        given.append(_filled(request(), values))
    elif values:
        raise InputError(f"the action {action} takes nothing", got=f"{sorted(values)}")
    return finite(function(*given))


def _request_of(function: Action) -> type[Config] | None:
    kinds = [kind for name, kind in get_type_hints(function).items() if name != "return"]
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Config)), None)


def _filled(request: Config, values: Mapping[str, Any]) -> Config:
    """A page writes 2 for 2.0."""
    numbers = {each.name for each in request.options() if each.type in (float, float | None)}
    whole = {name: float(value) for name, value in values.items() if name in numbers and type(value) is int}
    return request.override(**{**values, **whole})


def finite(value: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value
