"""A run before it starts: what was typed for which system, whether all of it has an effect, and its folder.

plan = PlannedRun.of("train", "cnn", seed=0, options={"epochs": 5})
run = plan.write(new_folder(Path("runs/cnn"), None), plan.typed, plan.recipe.build(plan.typed, 0))
"""

import json
import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import neuropil
from neuropil import recipes
from neuropil.config import Config, Option, flag_of, words_for
from neuropil.data.formats.memory import InMemory, are_paths, in_memory
from neuropil.data.splits import SplitConfig
from neuropil.errors import InputError, RunError, listed
from neuropil.files import LOCK, is_part, make_folder, remove_parts, write_text
from neuropil.parts.pretrained_model import PretrainedModel
from neuropil.runs.environment import environment
from neuropil.runs.run import Run
from neuropil.runs.settings import FORMAT, STUDY, read_settings, read_study
from neuropil.tasks.experiment import Experiment, TrainableExperiment
from neuropil.tasks.recipe import Recipe, Verb
from neuropil.training.config import TrainingConfig, prepare_precision
from neuropil.training.distributed.processes import launch_of


@dataclass(frozen=True)
class PlannedRun:
    """A system that is to be started with `given` options: its defaults for the data among them, and all that was
    typed."""

    verb: Verb
    name: str
    seed: int
    recipe: Recipe
    given: Mapping[str, Any]
    defaults: Config
    typed: Config

    @classmethod
    def of(cls, verb: Verb, name: str, seed: int, options: Mapping[str, Any]) -> Self:
        name, recipe = recipes.find(name).name, recipes.recipe_for(verb, name)
        if options.get("data") is not None and not are_paths(options["data"]):
            options = {**options, "data": _take(name, recipe, options["data"])}
        defaults = recipe.defaults_for(options)
        typed = defaults.override(**options)
        data = getattr(typed, "data", None)
        if isinstance(data, SplitConfig) and data.data:
            require_effect(options, dict.fromkeys(data.for_embedded, "data of your own"))
        require_effect(options, typed.idle_options())
        prepare(typed)
        return cls(verb, name, seed, recipe, options, defaults, typed)

    @property
    def trained_together(self) -> bool:
        """Whether all processes train: by gradients, in the one loop. What else there is, rank 0 does alone."""
        return isinstance(getattr(self.typed, "training", None), TrainingConfig)

    @property
    def command(self) -> str:
        return command(self.verb, self.name, self.seed, self.defaults, whole_paths(self.typed))

    def write(self, folder: Path, chosen: Config, experiment: Experiment, *, typed: Config | None = None) -> Run:
        """A run folder with its `config.json`, before training. `chosen` options are those that were `typed`, and what
        a time limit chose."""
        typed, chosen = map(whole_paths, (typed or self.typed, chosen))
        settings = {
            "format": FORMAT,
            "version": neuropil.__version__,
            "recipe": self.name,
            "seed": self.seed,
            "options": chosen.to_dict(),
            "facts": experiment.facts(),
            "command": command(self.verb, self.name, self.seed, self.defaults, typed),
            "environment": environment(),
            "created": now(),
        }
        if (launch := launch_of(os.environ)) is not None:
            settings["launch"] = [launch, self.command]
        for file, content in files_of(experiment, settings).items():
            write_json(folder / file, content)
        return Run(folder, settings)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def prepare(options: Config) -> None:
    """Before data and model are built, which computes."""
    training = getattr(options, "training", None)
    if isinstance(training, TrainingConfig):
        prepare_precision(training)


def _take(name: str, recipe: Recipe, data: Any) -> InMemory:
    """Data in memory, if the system takes it."""
    option = _data_option(recipe)
    if option is not None and option.in_python:
        taken, kind = in_memory(data, parts=True), getattr(recipe.options, "data", None)
        takes_all = isinstance(kind, SplitConfig) and kind.weighted
        if taken.weight and not takes_all:
            got, fix = f"weights in the {taken.name}", "give a pair (X, y)"
            raise InputError(f"{name} counts every example the same", got=got, fix=fix)
        if taken.answers and not takes_all:
            raise InputError(f"answers of {name} must be one column", got=listed(taken.answers))
        return taken
    rule = f"{name} takes no data" if option is None else f"{name} reads its data from files ({option.help})"
    takers = [
        each.name for each in recipes.SYSTEMS if (found := _data_option(recipes.recipe(each.name))) and found.in_python
    ]
    got, fix = f"a {type(data).__name__} in memory", f"data in memory is for {', '.join(takers)}"
    raise InputError(rule, got=got, fix=fix)


def _data_option(recipe: Recipe) -> Option | None:
    return next((each for each in recipe.options.options() if each.name == "data"), None)


def require_startable(experiment: Experiment, options: Mapping[str, Any]) -> None:
    """Before a folder is made: whether the given options have an effect, and what is trained can be scored."""
    if isinstance(experiment, TrainableExperiment):
        require_effect(options, experiment.idle_options())
        experiment.require_scorable()


def require_effect(options: Mapping[str, Any], idle: Mapping[str, str]) -> None:
    for name, what in idle.items():
        if options.get(name):
            raise InputError(f"{flag_of(name)} has no effect on {what}", fix="leave it out")


def files_of(experiment: Experiment, settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """`config.json`; where another library has the architecture, with what it must find there, and its other files."""
    model = experiment.model if isinstance(experiment, TrainableExperiment) else None
    files = model.published_files() if isinstance(model, PretrainedModel) else {}
    theirs, facts = dict(files.get("config.json", {})), settings["facts"]
    if "id2label" in theirs:
        theirs["id2label"] = dict(
            zip(theirs["id2label"], facts.get("classes") or facts["schema"]["classes"], strict=True)
        )
    return files | {"config.json": {**theirs, "neuropil": settings}}


def whole_paths(options: Config) -> Config:
    """A run may be resumed from another directory than it was started in."""
    whole: dict[str, Any] = {}
    for option in options.options():
        if isinstance(option.default, Path):
            whole[option.name] = option.default.absolute()
        elif isinstance(option.default, tuple) and any(isinstance(item, Path) for item in option.default):
            whole[option.name] = tuple(path.absolute() for path in option.default)
    return options.override(**whole)


def command(
    verb: str, name: str, seed: int, defaults: Config, typed: Config, more: Mapping[str, Any] | None = None
) -> str:
    """The command that repeats the run, in a new folder: only what differs from the defaults, and what the command has
    `more` than the system. A time limit chooses anew. With data in memory it is a call of Python."""
    pairs = zip(defaults.options(), typed.options(), strict=True)
    changed = {option.name: option.default for default, option in pairs if option.default != default.default}
    changed |= {**(more or {}), **({"seed": seed} if seed else {})}
    if any(isinstance(value, InMemory) for value in changed.values()):
        values = (f"{key}={'…' if isinstance(value, InMemory) else repr(value)}" for key, value in changed.items())
        memory = next(value for value in changed.values() if isinstance(value, InMemory))
        return f"neuropil.{verb}({', '.join([repr(name), *values])})  # data: {memory}"
    words = ["neuropil", verb, name]
    for key, value in changed.items():
        words += words_for(key, value)
    return shlex.join(words)


def now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def require_new(out: str | Path | None) -> None:
    """Before anything is computed that would be written there. What a killed start left is removed."""
    if out is None:
        return
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        got = f"{str(folder)!r}, which is a file"
        raise InputError("the output folder must be new or empty", got=got, fix="choose another name")
    inside = [each for each in folder.iterdir() if each.name != LOCK] if folder.is_dir() else []
    if left := sorted(each.name for each in inside if not is_part(each)):
        rule = "the output folder must be new or empty"
        if _holds_run(folder):
            raise InputError(rule, got=f"{str(folder)!r}", fix="choose another, or neuropil resume it")
        got = f"{str(folder)!r}, which holds {listed(left, most=3)}"
        raise InputError(rule, got=got, fix="choose another name")
    remove_parts(folder)


def _holds_run(folder: Path) -> bool:
    """Or a search: what can be resumed."""
    try:
        _ = read_study(folder) if (folder / STUDY).exists() else read_settings(folder)
    except (RunError, OSError):
        return False
    return True


def new_folder(usual: Path, out: str | Path | None) -> Path:
    """The folder `out`, if it is new or empty; without one, the usual folder, with a number if there is one of that
    name."""
    require_new(out)
    if out is not None:
        make_folder(Path(out))
        return Path(out)
    number = 1
    while True:
        folder = usual if number == 1 else usual.with_name(f"{usual.name}-{number}")
        with suppress(FileExistsError):  # perhaps of a process that was started at the same moment
            make_folder(folder, new=True)
            return folder
        number += 1
