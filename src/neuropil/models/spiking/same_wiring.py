"""Whether two descriptions of a spiking network differ in no more than what can change while it runs."""

from dataclasses import fields
from typing import Any

import numpy as np
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.spiking.description import (
    CurrentInput,
    NeuronGroup,
    PoissonInput,
    Probe,
    Projection,
    SpikeSource,
    SpikingNetwork,
)

CHANGEABLE = {Projection: ("weight", "delay"), PoissonInput: ("rate", "weight"), CurrentInput: ("amount",)}
"""What a running network may have another number for."""


def require_same_wiring(before: SpikingNetwork, after: SpikingNetwork) -> None:
    """The same groups, connections, inputs and probes in the same order; arrays must be the same objects."""
    for kind in ("groups", "connections", "inputs", "probes"):
        old, new = getattr(before, kind), getattr(after, kind)
        if len(old) != len(new):
            found = f"{len(new)} instead of {len(old)}"
        else:
            found = next(filter(None, map(_difference, old, new)), None)
        if found is not None:
            raise InputError(f"a network that runs must keep its {kind}", got=found, fix="begin a new simulation")


def _difference(old: Any, new: Any) -> str | None:
    """What differs that must not, in words."""
    if type(old) is not type(new):
        return f"{_called(new)} instead of {_called(old)}"
    changeable = CHANGEABLE.get(type(old), ()) if getattr(old, "stdp", None) is None else ("delay",)
    for field in fields(old):
        one, other = getattr(old, field.name), getattr(new, field.name)
        numbers = isinstance(one, int | float) and isinstance(other, int | float)
        if not (_same(one, other) or (field.name in changeable and numbers)):
            return f"another {field.name} of {_called(new)}"
    return None


def _same(one: Any, other: Any) -> bool:
    """Whatever holds arrays is compared by what it is, not by what is in it."""
    if one is other:
        return True
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return not isinstance(one, np.ndarray | Tensor) and not isinstance(other, np.ndarray | Tensor) and one == other


def _called(each: Any) -> str:
    """Connections and inputs have names that are sentences; groups and probes those of groups."""
    if isinstance(each, Probe):
        return f"the probe of {each.group!r}"
    return f"the group {each.name!r}" if isinstance(each, NeuronGroup | SpikeSource) else each.name
