"""Do we need all heads? Measure what each is worth, take the least important out of a trained model, and keep what is
left as a run."""

import copy
import json
import shlex
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from neuropil.data.copies import TRAINING_FILE
from neuropil.errors import InputError, RunError
from neuropil.files import replacing, write_text
from neuropil.inspection.heads import Heads, gradient_importance, least_important, leave_one_out, masked_heads
from neuropil.inspection.pictures.attention import head_importance, loss_by_heads
from neuropil.inspection.report.page import Code, Number, Numbers, Picture, Report, Section, Table, Text, write_report
from neuropil.metrics import find_metric
from neuropil.parts.multi_head import heads_of, remove_heads
from neuropil.parts.parameters import count_parameters
from neuropil.progress import Display
from neuropil.protocols import Batch, Learner
from neuropil.runs.overview import metric_names, result_rows
from neuropil.runs.planned import new_folder
from neuropil.runs.run import Run
from neuropil.tasks.experiment import Result, TrainableExperiment
from neuropil.training.evaluation import evaluate
from neuropil.training.weights import load_model, save_model

Measure = Literal["gradient", "leave_one_out"]
BATCHES = 20
"""Of validation data, on which importance is measured."""
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
ROUNDS = 15


def parse_share(text: str, num_heads: int) -> int:
    """How many heads are to go: a share such as 50%, or a number such as 6."""
    rule = f"heads must be a share such as 50% or a number from 0 to {num_heads}"
    number = text.strip().removesuffix("%")
    try:
        value = float(number) if text.strip().endswith("%") else int(number)
    except ValueError:
        raise InputError(rule, got=f"{text!r}") from None
    if text.strip().endswith("%") and 0 <= value <= 100:
        return round(num_heads * value / 100)
    if isinstance(value, int) and 0 <= value <= num_heads:
        return value
    raise InputError(rule, got=f"{text!r}")


def prune(
    run: Run, heads: str, *, by: Measure = "gradient", out: Path | None = None, show_progress: bool = True
) -> Run:
    """A new run without the heads that are worth least, whose report says what that costs and what it saves."""
    experiment = run.experiment()
    if not isinstance(experiment, TrainableExperiment) or not heads_of(experiment.model):
        raise RunError(
            f"{run.folder} must hold a model with attention heads",
            got=f"a run of {run.name}",
            fix="prune a transformer",
        )
    load_model(run.weights, experiment.model)
    model = experiment.model.eval()
    count = parse_share(heads, sum(attention.heads for attention in heads_of(model).values()))
    folder = new_folder(run.folder.parent / f"{run.folder.name}-pruned", out)
    with Display("measuring heads", show=show_progress) as display:
        batches = [batch for batch, _ in zip(experiment.validation_batches.epoch(0), range(BATCHES), strict=False)]
        importance = _importance(experiment, batches, by)
        display.update(0.2, "importance is known")
        curve = _loss_by_share(experiment, batches, importance, display)
        removed = least_important(importance, count)
        before = experiment.own_result()
        display.update(0.8, "scored with all heads")
        with masked_heads(model, removed):
            masked = experiment.own_result()
        display.update(0.95, "scored with masked heads")
        whole = copy.deepcopy(experiment.learner)
        remove_heads(model, removed)
        speed = _speed(whole, experiment.learner, batches[0])
    after = experiment.own_result()
    settings = {
        **run.settings,
        "facts": experiment.facts(),
        "command": shlex.join(["neuropil", "prune", str(run.folder), "--heads", heads, "--by", by]),
        "created": datetime.now().astimezone().isoformat(timespec="seconds"),
        "removed_heads": [*run.settings.get("removed_heads", []), removed],
    }
    gone = f"{count} head{'' if count == 1 else 's'}"
    results = [Result(f"{run.name}, {gone} removed", after.metrics), Result(f"{run.name}, all heads", before.metrics)]
    sections = [
        _cost_section(results, masked, speed, count_parameters(whole.model), count_parameters(model)),
        _heads_section(importance, removed, by),
        _curve_section(curve),
        Section("Repeat it", [Code(settings["command"])]),
    ]
    _write(folder, run, settings, results, model)
    title = f"neuropil · {run.name} without {gone}"
    write_report(
        folder / "report.html", Report(title, f"What is left of {run.folder.name}, and what it still can do.", sections)
    )
    return Run(folder, settings)


def _importance(experiment: TrainableExperiment, batches: Sequence[Batch], by: Measure) -> Heads:
    if by == "gradient":
        return gradient_importance(
            experiment.model, (partial(_mean_loss, experiment.learner, batch) for batch in batches)
        )
    return leave_one_out(experiment.model, lambda: _loss(experiment, batches))


def _mean_loss(learner: Learner, batch: Batch) -> torch.Tensor:
    return learner.metrics(batch)["loss"].mean()


def _loss(experiment: TrainableExperiment, batches: Sequence[Batch]) -> float:
    return evaluate(experiment.learner, _Some(batches))["loss"]


class _Some:
    """A few batches, as data."""

    def __init__(self, batches: Sequence[Batch]):
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        return iter(self.batches[start:])


def _loss_by_share(
    experiment: TrainableExperiment, batches: Sequence[Batch], importance: Heads, display: Display
) -> dict[int, float]:
    """Validation loss when the least important heads are masked, from none to all."""
    total = sum(len(values) for values in importance.values())
    curve = {}
    for share in SHARES:
        count = round(share * total)
        with masked_heads(experiment.model, least_important(importance, count)):
            curve[count] = _loss(experiment, batches)
        display.update(0.2 + 0.5 * share, f"{count} heads masked: loss {curve[count]:.4f}")
    return curve


class _Speed(NamedTuple):
    ratio: float
    """How many times faster it is without the heads, as the median over rounds."""
    whole: float
    pruned: float
    """Milliseconds for a pass over one batch, medians."""


def _speed(whole: Learner, pruned: Learner, batch: Batch) -> _Speed:
    """Passes in turn, so that whatever else the machine does slows both."""
    seconds: dict[Learner, list[float]] = {whole: [], pruned: []}
    with torch.no_grad():
        for _ in range(ROUNDS):
            for learner, taken in seconds.items():
                start = time.perf_counter()
                learner.metrics(batch)
                taken.append(time.perf_counter() - start)
    ratio = statistics.median(a / b for a, b in zip(*seconds.values(), strict=True))
    return _Speed(ratio, *(1e3 * statistics.median(taken) for taken in seconds.values()))


def _write(
    folder: Path, run: Run, settings: Mapping[str, object], results: Sequence[Result], model: torch.nn.Module
) -> None:
    for path in [*run.folder.glob("tokenizer*.json"), *run.folder.glob(TRAINING_FILE)]:
        with replacing(folder / path.name) as part:
            shutil.copyfile(path, part)
    save_model(folder / "model.safetensors", model)
    write_text(folder / "config.json", json.dumps({"neuropil": settings}, indent=2, ensure_ascii=False) + "\n")
    rows = [{"kind": "result", "name": result.name, "step": 0, **result.metrics} for result in results]
    write_text(folder / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


# --- the report -------------------------------------------------------------------------------------------------------


def _cost_section(
    results: Sequence[Result], masked: Result, speed: _Speed, whole_size: int, pruned_size: int
) -> Section:
    after, before = results
    metric = find_metric(metric_names(results)[0])
    numbers = [
        Number(f"{metric.title} without them", metric.text(after.metrics[metric.name])),
        Number(f"{metric.title} with all heads", metric.text(before.metrics[metric.name])),
        Number("speed of a pass", f"{speed.ratio:.2f}×", note=f"{speed.whole:.1f} → {speed.pruned:.1f} ms, in turn"),
        Number("numbers to keep", f"{100 * pruned_size / whole_size:.0f} %", note=f"{whole_size:,} → {pruned_size:,}"),
    ]
    rows = result_rows([*results, Result("masked, not removed", masked.metrics)])
    same = metric.text(masked.metrics[metric.name]) == metric.text(after.metrics[metric.name])
    words = (
        "The heads are gone, with their rows and columns of the weights; masking them saves nothing and gives "
        f"{'the same' if same else 'ANOTHER'} {metric.title}."
    )
    return Section(
        "What it costs",
        [
            Numbers(numbers),
            Text(words),
            Table(["", *(find_metric(name).title for name in metric_names(results))], rows),
        ],
    )


def _heads_section(importance: Heads, removed: Mapping[str, Sequence[int]], by: Measure) -> Section:
    words = {
        "gradient": "How strongly the loss pulls on each head, in units of its layer; the crossed ones are removed.",
        "leave_one_out": "Rise of the loss without each head, in units of its layer; the crossed ones are removed.",
    }
    figure = head_importance({name: values.numpy() for name, values in importance.items()}, removed)
    return Section(
        "What each head is worth", [Text(words[by]), Picture.of(figure, alt="importance of each head of each layer")]
    )


def _curve_section(curve: Mapping[int, float]) -> Section:
    figure = loss_by_heads(curve)
    words = "Validation loss while the least important heads are masked one after another, from none to all of them."
    return Section(
        "How many heads it needs", [Text(words), Picture.of(figure, alt="loss against the number of masked heads")]
    )
