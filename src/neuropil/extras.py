"""Packages that some systems need and others do not: extras of the installation, which whoever lacks one is told of."""

from collections.abc import Mapping
from importlib.util import find_spec

from neuropil.errors import NeuropilError

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "translation": ("babel", "sacrebleu"),
    "forecasting": ("babel", "statsmodels"),
    "tuning": ("optuna",),
    "ray": ("ray",),
    "parquet": ("pyarrow",),
    "tensorboard": ("tensorboard",),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "nir": ("nir",),
    "lab": ("fastapi", "uvicorn", "multipart"),
    "serve": ("fastapi", "uvicorn"),
}
"""The modules of each."""


class MissingExtraError(NeuropilError, ImportError):
    """What was asked for needs packages that are not installed."""


def require_extra(name: str, what: str) -> None:
    """Refuse `what` without the packages of an extra, before anything is read or written."""
    missing = [module for module in EXTRAS[name] if find_spec(module) is None]
    if missing:
        rule = f"{what} needs the packages of neuropil[{name}]"
        raise MissingExtraError(rule, got=f"no {' and no '.join(missing)}", fix=f"pip install 'neuropil[{name}]'")
