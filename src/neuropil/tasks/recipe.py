"""What a recipe is: a system's model, task and default options, joined into a complete run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_type_hints

from torch import nn

from neuropil.config import Config
from neuropil.tasks.experiment import Experiment
from neuropil.tasks.predictor import Predictor
from neuropil.tasks.time_limit import Ladder

Verb: TypeAlias = Literal["train", "simulate"]


@dataclass(frozen=True)
class Recipe:
    """`options` are the defaults, `own_data` those for a user's data and `fine_tuning` those for a model to start from,
    where they differ. `sizes` has the options that each `--size` sets in these defaults, by their names. `build` makes
    the experiment from options and a seed. `model` and `predictor` are what a finished run is opened as, where it
    leaves a model. `ladder` has the sizes that a time limit chooses from, for a user's data. `verb` is the command that
    starts it: what is simulated learns nothing."""

    options: Config
    build: Callable[[Any, int], Experiment]
    model: type[nn.Module] | None = None
    predictor: type[Any] | None = None  # a `Predictor`
    own_data: Config | None = None
    fine_tuning: Config | None = None
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ladder: Ladder = field(default_factory=Ladder)
    about: str = ""
    verb: Verb = "train"

    @property
    def equations(self) -> str:
        """The docstring of the module that has them: of the model, where `about` names no other."""
        name = f"neuropil.{self.about}" if self.about else self.model.__module__ if self.model else ""
        return (import_module(name).__doc__ or "").strip()

    @property
    def tunable(self) -> bool:
        """Whether its experiment can be searched by what it validates: there is a training, and something to search."""
        trained = hasattr(self.options, "training")
        return trained and any(each.name == "learning_rate" and each.tune for each in self.options.options())

    def defaults(self, *, own_data: bool, start: bool = False, size: str | None = None) -> Config:
        """A size that is none of its own sets nothing: the options refuse it."""
        usual = self.own_data if own_data and self.own_data is not None else self.options
        if start and self.fine_tuning is not None:
            usual = self.fine_tuning
        return usual.override(**self.sizes.get(size or "", {}))

    def defaults_for(self, options: Mapping[str, Any]) -> Config:
        """Of a run with these options, by their names."""
        own_data, start = bool(options.get("data")), bool(options.get("start"))
        return self.defaults(own_data=own_data, start=start, size=options.get("size"))

    def restore(self, facts: Mapping[str, Any], folder: Path) -> Predictor | None:
        """A predictor as a run left it, with weights still to be loaded; none where a run only makes a report."""
        if self.model is None or self.predictor is None:
            return None
        config: type[Config] = get_type_hints(self.model.__init__)["config"]
        return self.predictor.restore(self.model(config.from_dict(facts["model"])), facts, folder)
