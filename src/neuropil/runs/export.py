"""A run's model as a file that other programs run: ONNX, with open axes for the batch and the time.

The file is compared with PyTorch before it gets its name.
"""

import inspect
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from neuropil.data.formats.paths import suffix_of
from neuropil.errors import InputError, RunError
from neuropil.extras import require_extra
from neuropil.files import replacing
from neuropil.tasks.experiment import TrainableExperiment
from neuropil.training.evaluation import evaluate

if TYPE_CHECKING:
    from neuropil.runs.run import Run

TOLERANCE = 1e-4
"""By how much an output may differ from PyTorch's, in units of the largest if that is above 1."""
OPEN = ("time", "source", "target", "step", "whole")
"""Names of axes, in the signatures of `forward`, that are open as the first is."""
ENDINGS = {
    ".onnx": ("onnx",),
    ".nir": ("nir",),
    ".txt": ("word2vec", "glove"),
    ".vec": ("word2vec", "glove"),
    ".bin": ("word2vec-binary",),
}
"""The formats that the end of a file's name may say."""
EXAMPLES = 3
"""With a single one, its axis would be taken for one that is always 1."""


class Export(NamedTuple):
    path: Path
    inputs: dict[str, list[str | int]]
    """The axes of each; those with a name are open."""
    outputs: dict[str, list[str | int]]
    difference: float
    """The largest between outputs of ONNX Runtime and of PyTorch."""


def require_ending(path: Path, format: str) -> None:
    """A name that says another format would mislead every program that goes by it."""
    says = ENDINGS.get(suffix_of(path), (format,))
    if format not in says:
        name = path.name[: -len(path.suffix)]
        ending = next((each for each, formats in ENDINGS.items() if format in formats), "")
        got, fix = f"{path.name!r} for {format}", f"call it {name}{ending}, or export it as {says[0]}"
        raise InputError("the name of an exported file must fit its format", got=got, fix=fix)


def export_onnx(run: "Run", path: Path, inputs: Any = None) -> Export:
    """`inputs` are what `run.predict` takes or a tuple of tensors for the model; by default some of the run's data."""
    require_extra("onnx", "an export to ONNX")
    given = example_inputs(run, inputs)
    with replacing(path) as part:
        try:
            _write(run.model, given, part)
            found = _compare(run.model, given, part)._replace(path=path)
        except Exception as error:
            raise RunError(f"the model of {run.name} cannot be exported to ONNX", got=_reason(error)) from error
        if not found.difference <= TOLERANCE:
            got = f"a difference of {found.difference:.2g}"
            raise RunError(f"the exported model of {run.name} must answer as PyTorch's within {TOLERANCE:g}", got=got)
    return found


def example_inputs(run: "Run", inputs: Any = None) -> dict[str, Tensor]:
    """A few rows of what `forward` takes, by name."""
    return {name: torch.cat([x] * EXAMPLES)[:EXAMPLES] for name, x in inputs_of_model(run, inputs, "onnx").items()}


def inputs_of_model(run: "Run", inputs: Any, format: str) -> dict[str, Tensor]:
    """What `forward` takes of one batch, by name."""
    if isinstance(inputs, tuple) and inputs and all(isinstance(each, Tensor) for each in inputs):
        return _by_name(run.model, inputs, {})
    if inputs is not None:
        return _first_call(run.model, lambda: run.predict(inputs))
    _ = run.model  # a run without one says so before data is read
    if run.memory is not None:
        fix = f"give some, as in run.export({format!r}, inputs=X[:3])"
        raise RunError(f"{run.folder} does not hold its data, which was in memory", got="no inputs", fix=fix)
    experiment = run.experiment()
    if not isinstance(experiment, TrainableExperiment):
        fix = "give some as tensors, as in run.export('onnx', inputs=(x,)); word vectors also have --format word2vec"
        raise RunError(f"the model of {run.name} is exported to ONNX with inputs", got="none", fix=fix)
    return _first_call(experiment.model, lambda: evaluate(experiment.learner, experiment.batches("test")))


class _ModelCalledError(Exception):
    """Ends a computation of which only the first inputs of the model were wanted."""


def _first_call(model: nn.Module, compute: Callable[[], object]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}

    def keep(_: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        found.update(_by_name(model, arguments, named))
        raise _ModelCalledError

    hook = model.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        with suppress(_ModelCalledError):
            compute()
    finally:
        hook.remove()
    return found


def _by_name(model: nn.Module, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors under the names that `forward` gives them; all else is left as it is by default."""
    bound = inspect.signature(model.forward).bind(*arguments, **named).arguments
    return {name: value for name, value in bound.items() if isinstance(value, Tensor)}


def _write(model: nn.Module, given: dict[str, Tensor], path: Path) -> None:
    import onnx

    with torch.no_grad(), _quiet():
        answer = model(**given)
        names = getattr(answer, "_fields", ["output"])
        axes = {name: _axes(model, name, x) for name, x in given.items()}
        auto = {name: dict.fromkeys(of, torch.export.Dim.AUTO) for name, of in axes.items()}
        traced = torch.export.export(model, (), given, dynamic_shapes=auto, strict=True)  # else len(x) is a constant
        names = names if len(names) == len(tree_leaves(answer)) else None
        program = torch.onnx.export(traced, output_names=names, dynamic_shapes=axes, dynamo=True, verbose=False)
        cast(torch.onnx.ONNXProgram, program).save(path, external_data=False)
    onnx.checker.check_model(path, full_check=True)


def _axes(model: nn.Module, name: str, x: Tensor) -> dict[int, str]:
    """The open ones, as the signature of `forward` calls them."""
    hint = inspect.signature(model.forward).parameters[name].annotation
    hint = next(each for each in (hint, *get_args(hint)) if hasattr(each, "dim_str"))
    names = hint.dim_str.replace("*", "").replace("_and_", " ").split()[: x.ndim]
    return {axis: axis_name for axis, axis_name in enumerate(names) if axis == 0 or axis_name in OPEN}


def _reason(error: BaseException) -> str:
    """The first line of the innermost error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no reason'}"


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter warns of packages that are not needed here, and of what PyTorch itself will change."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _compare(model: nn.Module, given: dict[str, Tensor], path: Path) -> Export:
    """On all examples, and on the first alone, since the axis is open."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = {each.name: each.shape for each in session.get_inputs()}
    outputs = {each.name: each.shape for each in session.get_outputs()}
    difference = 0.0
    for rows in (EXAMPLES, 1):
        some = {name: x[:rows] for name, x in given.items()}
        with torch.no_grad():
            expected = tree_leaves(model(**some))
        answers = session.run(None, {name: some[name].numpy() for name in inputs})
        for ours, theirs in zip(expected, map(torch.as_tensor, answers), strict=True):
            scale = max(1.0, ours.abs().max().item())
            difference = max(difference, (ours - theirs).abs().max().item() / scale)
    return Export(path, inputs, outputs, difference)
