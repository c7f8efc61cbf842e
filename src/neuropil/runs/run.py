"""A run is a folder: `config.json`, `model.safetensors`, `metrics.jsonl`, `checkpoint.safetensors`,
`training_examples.npy` and `report.html`.

run = load("runs/cnn-2026-11-15")     opened in another process than it was started in
run.predict(images), run.model        what it learned
"""

import itertools
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from jaxtyping import Float
from torch import Tensor, nn

from neuropil import recipes
from neuropil.config import Config
from neuropil.data.copies import training_copies
from neuropil.data.formats.memory import InMemory, are_paths, in_memory
from neuropil.errors import InputError, NeuropilError, RunError, counted
from neuropil.memory import BYTES_TO_USE, BoundedModel
from neuropil.parts.multi_head import remove_heads
from neuropil.runs.archive import pack, unpacked
from neuropil.runs.listing import list_runs
from neuropil.runs.settings import read_settings
from neuropil.tasks.generated_examples import GeneratedExamples
from neuropil.tasks.predictor import (
    CAPABILITIES,
    Capability,
    Classifies,
    ComparesWords,
    Embeds,
    Evaluates,
    Fills,
    Generates,
    Interpolates,
    Predictions,
    Predicts,
    Recalls,
    Reconstructs,
    Samples,
    Searches,
    Translates,
)
from neuropil.tasks.results import Result, results_of
from neuropil.training.checkpoint import saved_step
from neuropil.training.history import Row, read_history
from neuropil.training.weights import load_model, load_state, unique_state

if TYPE_CHECKING:  # an experiment is not imported to use what it made
    from neuropil.inspection.activation_maps import Maps
    from neuropil.inspection.gradients import GradientProfile
    from neuropil.inspection.signal import SignalProfile
    from neuropil.runs.export import Export
    from neuropil.runs.nir import NIRExport
    from neuropil.runs.notebook import LabFrame
    from neuropil.tasks.experiment import Experiment
    from neuropil.tasks.recipe import Recipe

C = TypeVar("C")


class Run:
    """A run folder, opened. Nothing is read before it is asked for."""

    def __init__(self, folder: Path, settings: dict[str, Any]):
        self.folder, self.settings = folder, settings

    def __repr__(self) -> str:
        return f"<Run {self.name} in {self.folder}>"

    def _repr_html_(self) -> str:
        from neuropil.runs.card import card

        return card(self)

    @property
    def name(self) -> str:
        return self.settings["recipe"]

    @property
    def seed(self) -> int:
        return self.settings["seed"]

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    @property
    def rows(self) -> list[Row]:
        """Of `metrics.jsonl`."""
        return read_history(self.folder / "metrics.jsonl")

    @property
    def history(self) -> Any:
        """The rows as a pandas DataFrame, where pandas is installed."""
        try:
            import pandas
        except ImportError:
            return self.rows
        return pandas.DataFrame(self.rows)

    @property
    def results(self) -> list[Result]:
        """Final scores on held-out data: this model first, then its baselines. Empty while the run is not finished."""
        return results_of(self.rows)

    @property
    def finished(self) -> bool:
        return bool(self.results)

    @property
    def progress(self) -> str:
        """How far a run is that is not finished: to its checkpoint, from which it goes on."""
        rows = [row for row in self.rows if "epoch" in row]
        step = saved_step(self.folder)
        step = max((row["step"] for row in rows), default=0) if step is None else step
        if not step:
            return "it has no results yet"
        ends = [row for row in rows if row["step"] <= step and row["epoch"] % 1 == 0]
        done, end = (int(ends[-1]["epoch"]), ends[-1]["step"]) if ends else (0, 0)
        epochs = getattr(getattr(self.options, "training", None), "epochs", None)
        trained = f"{done:,} of {counted(epochs, 'epoch')}" if epochs else counted(done, "epoch")
        trained += f" and {counted(step - end, 'step')} of the next" if step > end else ""
        return f"it has trained {trained}, to step {step}"

    @property
    def resume_command(self) -> str:
        return f"neuropil resume {shlex.quote(str(self.folder))}"

    @property
    def metrics(self) -> dict[str, float]:
        """This model's own final scores."""
        return dict(self.results[0].metrics) if self.results else {}

    @cached_property
    def options(self) -> Config:
        return type(self.recipe.options).from_dict(self.settings["options"])

    @property
    def recipe(self) -> "Recipe":
        return recipes.recipe(self.name)

    @cached_property
    def predictor(self) -> Any:
        """The trained model with what it needs to read raw inputs: a `Predictor` with the capabilities of its task."""
        try:
            with BoundedModel(bytes_each=BYTES_TO_USE):
                predictor = self.recipe.restore(self.settings["facts"], self.folder)
        except NeuropilError:
            raise
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            rule, got = f"{self.folder} must hold what neuropil wrote of its model", f"something else ({error})"
            raise RunError(rule, got=got, fix="train again or restore it") from error
        if predictor is None:
            got = f"a run of {self.name}, which only makes a report"
            raise RunError(f"{self.folder} must hold a model for this", got=got)
        load_model(self.weights, predictor.model)
        predictor.model.eval()
        return predictor

    @property
    def capabilities(self) -> list[Capability]:
        """What this run's model can do; none where it only makes a report."""
        return [each for each in CAPABILITIES if _has(self.recipe, each.protocol)]

    def able(self, capability: type[C]) -> C:
        """The predictor, if it has this capability."""
        predictor = self.predictor if _has(self.recipe, capability) else None
        return able(predictor, capability, f"a run of {self.name} in {self.folder}")

    @property
    def weights(self) -> Path:
        path = self.folder / "model.safetensors"
        if not path.exists():
            anew = f"restore it, or start anew with `{self.settings['command']}`"
            raise RunError(
                f"{self.folder} must hold model.safetensors",
                got="a run without it",
                fix=anew if self.finished else f"finish it with `{self.resume_command}`",
            )
        return path

    def require_whole(self) -> Self:
        """A finished run holds the model that it has learned, unless it only makes a report."""
        if self.finished and self.recipe.predictor is not None:
            _ = self.weights
        return self

    @property
    def model(self) -> nn.Module:
        """The trained model, an ordinary `nn.Module` in evaluation mode."""
        return self.predictor.model

    def predict(self, inputs: Any) -> Any:
        """Answers for a tensor, an array, texts, or paths of files that look like the training data."""
        return self.able(Predicts).predict(inputs)

    def translate(self, texts: str | Sequence[str], *, beam: int = 1, length_penalty: float = 0.6) -> Any:
        """One translation for a text, or a list for several; a wider beam is slower and often a little better."""
        several = [texts] if isinstance(texts, str) else texts
        found = self.able(Translates).translate(several, beam_width=beam, length_penalty=length_penalty)
        return found.texts[0] if isinstance(texts, str) else found.texts

    def generate(self, prompt: str = "", **options: Any) -> Iterator[str]:
        """The prompt, then more text, each token as soon as it is sampled. `options` are `length`, `stop`, `seed`,
        `precision` and those of sampling: `temperature`, `top_k`, `top_p`, `min_p` and `repetition_penalty`."""
        return itertools.chain([prompt], self.able(Generates).generate(prompt, **options))

    def classify(self, texts: str | Sequence[str]) -> Predictions:
        return self.able(Classifies).classify([texts] if isinstance(texts, str) else texts)

    def embed(self, texts: str | Sequence[str]) -> Float[Tensor, "text width"]:
        """Vectors of unit length."""
        return self.able(Embeds).embed([texts] if isinstance(texts, str) else texts)

    def fill(self, text: str, most: int = 5) -> Sequence[Any]:
        """The most probable words for each [MASK] in a text."""
        return self.able(Fills).fill(text, most)

    def search(self, images: str | Path | Sequence[str | Path]) -> Any:
        """Images of a folder or of files, embedded once, to be ranked by texts or by other images."""
        return self.able(Searches).search(
            [Path(path) for path in ([images] if isinstance(images, str | Path) else images)]
        )

    def neighbours(
        self, positive: str | Sequence[str], negative: str | Sequence[str] = (), *, count: int = 10
    ) -> Sequence[Any]:
        """The nearest words by cosine, each with it: of a word, or of the sum of several less that of others."""
        return self.able(ComparesWords).neighbours(positive, negative, count=count)

    def analogy(self, a: str, b: str, c: str, *, count: int = 10) -> Sequence[Any]:
        """The nearest words to a − b + c: `run.analogy("king", "man", "woman")`."""
        return self.able(ComparesWords).analogy(a, b, c, count=count)

    def odd_one_out(self, words: Sequence[str]) -> str:
        """The one that is farthest from all of them together."""
        return self.able(ComparesWords).odd_one_out(words)

    def similarity(self, word: str, other: str) -> float:
        """The cosine of their vectors."""
        return self.able(ComparesWords).similarity(word, other)

    def save_vectors(self, path: str | Path, format: str | None = None) -> None:
        """Write word vectors as "word2vec", "word2vec-binary" or "glove"; by default the name of the file says which:
        .bin, .vec or .txt, also packed as .gz."""
        self.able(ComparesWords).save_vectors(path, format)

    def sample(self, count: int = 16, *, seed: int = 0, label: str | None = None, **options: Any) -> GeneratedExamples:
        """New examples, the same for the same seed; `label` is a class, where the model knows classes. What is found
        has `values`, `grid()` and `save(path)`."""
        return self.able(Samples).sample(count, seed=seed, label=label, **options)

    def reconstruct(self, inputs: Any) -> GeneratedExamples:
        """What the model makes of examples when it has encoded and decoded them."""
        return self.able(Reconstructs).reconstruct(inputs)

    def interpolate(self, first: Any, last: Any, steps: int = 8) -> GeneratedExamples:
        """Examples on the way from one to another."""
        return self.able(Interpolates).interpolate(first, last, steps)

    def recall(self, inputs: Any) -> GeneratedExamples:
        """The stored patterns that examples settle at."""
        return self.able(Recalls).recall(inputs)

    def attack(self, inputs: Any = None, labels: Any = None, **options: Any) -> Any:
        """Adversarial examples: of inputs like the training data, with the names of their classes, or of the run's
        held-out part. `options` are `method`, `norm`, `eps`, `target` and the others of `neuropil attack`, and those of
        the method itself, such as `momentum`. What is found has `robust_accuracy`, `perturbed` and `save(path)`."""
        from neuropil.runs.attack import attack_run
        from neuropil.tasks.attack import AttackConfig

        known = {each.name for each in AttackConfig().options()}
        config = AttackConfig().override(**{name: options.pop(name) for name in known & options.keys()})
        return attack_run(self, inputs, labels, config, **options)

    def gradients(self) -> "GradientProfile":
        """Gradient norms of each layer on one batch of the training data; `neuropil.inspection.gradients.diagnose` says
        in words what they mean."""
        from neuropil.runs.pages.gradients import gradients_of

        return gradients_of(self)

    def signal(self) -> "SignalProfile":
        """Mean, spread and saturation of each layer on one batch of the training data;
        `neuropil.inspection.signal.diagnose_signal` says in words what they mean."""
        from neuropil.runs.pages.signal import signal_of

        return signal_of(self)

    def activations(self, pictures: Any) -> "Maps":
        """The activation maps of a convolutional network for pictures as `predict` takes them: by the name of the
        layer, tensors of picture × channel × row × column."""
        from neuropil.runs.pages.activations import activations_of

        return activations_of(self, pictures)

    def lab(self, view: str, *, height: int = 720) -> "LabFrame":
        """A view of the lab on this run, in a notebook: `run.lab("attention")`."""
        from neuropil.runs.notebook import frame

        return frame(self.folder, view, height=height)

    def evaluate(self, data: Any = None, *, notify: Callable[[str], None] = warnings.warn) -> dict[str, float]:
        """Scores on labelled data of the user's, in files or in memory, or on the held-out part of the run's own
        data; `notify` gets what the reader should know beside them, such as how many of the examples were trained
        on."""
        if data is None:
            from neuropil.tasks.experiment import TrainableExperiment

            if self.memory is not None:
                fix = "give data with the right answers, as in run.evaluate((X, y)), or read run.metrics"
                raise RunError(f"{self.folder} does not hold its data, which was in memory", got="no data", fix=fix)
            experiment = self.experiment()
            if not isinstance(experiment, TrainableExperiment):
                experiment.train(self.folder, show_progress=False)
                return dict(experiment.evaluate()[0].metrics)
            load_state(experiment.model, unique_state(self.model), self.weights)  # with what the user changed in it
            experiment.model.eval()
            return dict(experiment.own_result().metrics)
        evaluator = self.able(Evaluates)
        paths = [data] if isinstance(data, str | Path) else data
        memory = None if are_paths(data) else in_memory(data, parts=True).held_out
        examples = evaluator.read_labelled([Path(path) for path in paths] if memory is None else memory)
        if known := training_copies(self.folder, examples):
            notify(known)
        return evaluator.evaluate(examples)

    def export(
        self, format: str = "onnx", path: str | Path | None = None, *, inputs: Any = None
    ) -> "Export | NIRExport":
        """Write the model for other programs, and compare its answers with PyTorch's: as "onnx", with open axes for the
        batch and the time, or a spiking classifier as "nir". By default it is `model.onnx` or `model.nir` in the run
        folder, compared on some of the run's own data; `inputs` are others, as `predict` takes them, or a tuple of
        tensors for the model."""
        from neuropil.runs.export import export_onnx, require_ending
        from neuropil.runs.nir import export_nir

        write = {"onnx": export_onnx, "nir": export_nir}.get(format)
        if write is None:
            raise InputError("a model is exported as 'onnx' or 'nir'", got=f"{format!r}")
        path = self.folder / f"model.{format}" if path is None else Path(path)
        require_ending(path, format)
        return write(self, path, inputs)

    def save(self, path: str | Path) -> Path:
        """Write the folder as one .zip file, without the checkpoint, and with the names of its data but no paths;
        `neuropil.load` opens it."""
        return pack(self, Path(path))

    @property
    def memory(self) -> InMemory | None:
        """What is recorded of the data, where it was in memory."""
        return next((each.default for each in self.options.options() if isinstance(each.default, InMemory)), None)

    def experiment(self, data: Any = None) -> "Experiment":
        """The run again with its data, as it was before training; refused if the data is not what it was. `data` is
        given again where it was in memory."""
        from neuropil.tasks.experiment import TrainableExperiment

        experiment = self.recipe.build(self.with_memory(data), self.seed)
        for removed in self.settings.get("removed_heads", []):
            if isinstance(experiment, TrainableExperiment):
                remove_heads(experiment.model, removed)
        recorded, facts = self.settings["facts"], experiment.facts()
        if {name: facts.get(name) for name in recorded} != recorded:  # an older run has fewer
            raise RunError(
                f"{self.folder} needs the data that it was started with",
                got="data that has changed since",
                fix=f"restore the data, or start anew with `{self.settings['command']}`",
            )
        return experiment

    def with_memory(self, data: Any) -> Config:
        """The options, with the data in memory if the run was started with some; other data is refused."""
        if self.memory is None:
            if data is not None:
                got = "data to resume with"
                raise RunError(f"{self.folder} reads its own data from files", got=got, fix="leave it out")
            return self.options
        rule = f"{self.folder} needs the {self.memory} that it was started with"
        if data is None:
            fix = f"give it again from Python, as in neuropil.resume({str(self.folder)!r}, data=…)"
            raise RunError(rule, got="none", fix=fix)
        given = in_memory(data, parts=True)
        if given != self.memory:
            got = "other values of that shape" if str(given) == str(self.memory) else f"the {given}"
            raise RunError(rule, got=got, fix=f"give the same, or start anew with `{self.settings['command']}`")
        return self.options.override(data=given)


def able(predictor: object, capability: type[C], what: str) -> C:
    """The predictor, if it has the capability; else an error that names the systems that do."""
    if isinstance(predictor, capability):
        return predictor
    wanted = next(each for each in CAPABILITIES if each.protocol is capability)
    *some, last = [system.name for system in recipes.SYSTEMS if _has(recipes.recipe(system.name), capability)]
    fix = f"train {', '.join(some)} or {last}" if some else f"train {last}"
    raise RunError(f"this needs a model that {wanted.does}", got=what, fix=fix)


def _has(recipe: "Recipe", capability: type) -> bool:
    return recipe.predictor is not None and issubclass(recipe.predictor, capability)


def require_no_search(folder: Path) -> None:
    """Which has runs, and is none."""
    if (folder / "study.json").exists():
        got, fix = f"the search in {str(folder)!r}", f"open its best run, {folder / 'best'}, or neuropil resume it"
        raise RunError("a run is a folder with a config.json", got=got, fix=fix)


def load(folder: str | Path) -> Run:
    """Open a run folder, or a .zip file of one, which is unpacked beside it."""
    folder = unpacked(Path(folder))
    path = folder / "config.json"
    if not path.exists():
        require_no_search(folder)
        rest = [name for name in ("metrics.jsonl", "model.safetensors") if (folder / name).exists()]
        whole = f"restore it beside {' and '.join(rest)}" if rest else None
        raise RunError(
            "a run is a folder with a config.json",
            got=f"{str(folder)!r}",
            fix=whole or newest_run(folder) or "make one with neuropil train NAME",
        )
    run = Run(folder, read_settings(folder))
    try:
        _ = run.options
    except (InputError, TypeError, AttributeError) as error:
        raise RunError(
            f"{path} must be the JSON that neuropil wrote",
            got=f"a damaged file ({str(error).rstrip('.')})",
            fix="train again or restore it",
        ) from error
    return run


def newest_run(folder: Path) -> str | None:
    """The way out where a run is not there: the newest beside it."""
    parent = folder.parent if folder.parent.is_dir() else Path("runs")
    newest = next((each.name for each in list_runs(parent) if each.kind == "run" and each.state != "damaged"), None)
    return f"the newest here is {parent / newest}" if newest is not None else None
