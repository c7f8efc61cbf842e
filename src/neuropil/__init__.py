"""neuropil: every network from the biological neuron to the transformer.

    run = neuropil.train("cnn", epochs=5)
    run.predict(images)
    neuropil.train("mlp", data=(X, y))
    neuropil.tune("mlp", data=(X, y), trials=20).best
    neuropil.simulate("lif", duration=500)
    neuropil.load("runs/…").model
    neuropil.resume("runs/…")
    neuropil.compare(["runs/…", "runs/…"])
    neuropil.sklearn.Classifier("mlp").fit(X, y)
    neuropil.open("runs/… or a Hugging Face folder or name").generate("Once upon a time")

Nothing heavy is imported until it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from neuropil.parts.checkpoint_families import CheckpointFamily, register

if TYPE_CHECKING:
    from neuropil import models as models
    from neuropil import sklearn as sklearn
    from neuropil.runs.comparison import compare as compare
    from neuropil.runs.open import open as open
    from neuropil.runs.run import Run as Run
    from neuropil.runs.run import load as load
    from neuropil.runs.start import resume as resume
    from neuropil.runs.start import simulate as simulate
    from neuropil.runs.start import train as train
    from neuropil.runs.tuning.folder import Tuning as Tuning
    from neuropil.runs.tuning.study import tune as tune

__version__ = "0.1.0"
__all__ = ["Run", "Tuning", "compare", "load", "models", "open", "resume", "simulate", "sklearn", "train", "tune"]
_HOMES = {"compare": "runs.comparison", "open": "runs.open", "Run": "runs.run", "load": "runs.run"} | dict.fromkeys(
    ("resume", "simulate", "train"), "runs.start"
)
_HOMES |= {"Tuning": "runs.tuning.folder", "tune": "runs.tuning.study"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"neuropil.{_HOMES[name]}"), name)
    if name in ("models", "sklearn"):
        return import_module(f"neuropil.{name}")
    raise AttributeError(f"module 'neuropil' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@register
def _checkpoint_family(name: str) -> CheckpointFamily:
    from neuropil.pretrained import checkpoint_family

    return checkpoint_family(name)
