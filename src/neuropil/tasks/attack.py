"""What an attack on a trained classifier is asked for, and what it answers with, whatever is classified.

A predictor that is `Attackable` has an `Attacker`, which knows what may be done to its inputs. Whether a run can be
attacked depends on its data too, since numbers are not attacked; so this is no row of the table of capabilities.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol, Self, TypeAlias, runtime_checkable

from neuropil.adversarial.attacks import AttackName
from neuropil.adversarial.false_safety import Sign
from neuropil.adversarial.threat_model import Norm
from neuropil.adversarial.word_substitution import SubstitutionConfig
from neuropil.config import Config, flag_of, option
from neuropil.data.splits import Splits
from neuropil.errors import InputError, nearest
from neuropil.inspection.report.page import Section
from neuropil.tasks.predictor import Answers

Progress: TypeAlias = Callable[[float], object] | None
"""Told the share that is done."""
BeginStage: TypeAlias = Callable[[str], Callable[[float], object]]
"""Told what is begun; gives what its progress is shown by."""


class AttackConfig(Config):
    method: AttackName = option("pgd", "attack; minimal, deepfool and bisection search for the smallest perturbation")
    norm: Norm = option("linf", "norm of the perturbations: linf or l2")
    eps: float = option(
        0.1, "radius ε of the perturbations: pixels from 0 to 1, or standard deviations of columns", above=0
    )
    steps: int | None = option(None, "steps of the attack; without it, its own number", low=1)
    restarts: int | None = option(None, "restarts of the attack; without it, its own number", low=1)
    target: str | None = option(None, "class to reach; without it, any but the right one")
    substitution: SubstitutionConfig = SubstitutionConfig()
    count: int = option(200, "examples of the held-out part to attack", low=1)
    seed: int = option(0, "seed of the random numbers")

    @property
    def given(self) -> dict[str, Any]:
        """What an attack does not choose itself."""
        chosen = {"steps": self.steps, "restarts": self.restarts}
        return {name: value for name, value in chosen.items() if value is not None}

    def by_flags(self, *, minimal: bool, strongest: bool) -> Self:
        """With the method that a flag names."""
        if minimal and strongest:
            raise InputError("an attack is of one method", got="--minimal and --strongest", fix="leave one out")
        return replace(self, method="minimal" if minimal else "strongest") if minimal or strongest else self

    def require_effect(self, idle: Collection[str], what: str) -> None:
        """Refuse options that were changed and have no effect on `what` is attacked."""
        usual = {each.name: each.default for each in AttackConfig().options()}
        for each in self.options():
            if each.name in idle and each.default != usual[each.name]:
                by_flag = each.name == "method" and each.default in ("minimal", "strongest")  # or by its own name
                flag = f"--{each.default} (--method {each.default})" if by_flag else flag_of(each.name)
                refuse_flag(flag, what)

    def target_number(self, classes: Sequence[str]) -> int | None:
        return None if self.target is None else class_number(self.target, classes)


@runtime_checkable
class AttackedInputs(Answers, Protocol):
    """`names` say which inputs they are. Both risks are shares: of inputs that are misclassified as they are, and of
    those that are so before or after the attack."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def header(self) -> Sequence[str]:
        """Of the cells of `lines`."""
        ...

    @property
    def natural_risk(self) -> float: ...

    @property
    def robust_risk(self) -> float: ...


class AttackReport(NamedTuple):
    summary: str
    sections: Sequence[Section]
    accuracy: Mapping[str, float]
    """Under each attack."""
    signs: Sequence[Sign] = ()
    """Of false safety; none are known for texts."""


@runtime_checkable
class Attacker(Protocol):
    def attack(
        self,
        inputs: Any,
        labels: Any,
        config: AttackConfig,
        *,
        progress: Progress = None,
        **options: Any,
    ) -> AttackedInputs:
        """Inputs like the training data, with the names of their classes; without labels they are taken to be of the
        classes that the model predicts. `options` are further ones of the attack's own."""
        ...

    def attack_held_out(
        self, splits: Splits[Any], config: AttackConfig, *, progress: Progress = None, **options: Any
    ) -> AttackedInputs:
        """The first examples of the part that is held out."""
        ...

    def report(
        self, splits: Splits[Any], config: AttackConfig, *, surrogate: "Attacker | None", stage: BeginStage
    ) -> AttackReport:
        """On examples of that part; those that are made for a `surrogate`, another model, are tried too."""
        ...

    def require_surrogate(self, surrogate: "Attacker", folder: Path, own_folder: Path) -> None:
        """Whether another model, of another run, takes the inputs and knows the classes of this one."""
        ...

    def require_output(self, path: Path) -> None:
        """Before an attack, whether its result can be written there."""
        ...


@runtime_checkable
class Attackable(Protocol):
    @property
    def attacker(self) -> Attacker: ...


# --- what attackers share ---------------------------------------------------------------------------------------------


def refuse_option(name: str, what: str) -> NoReturn:
    refuse_flag(flag_of(name), what)


def refuse_flag(flag: str, what: str) -> NoReturn:
    raise InputError(f"{flag} has no effect on {what}", fix="leave it out")


def class_number(name: str, classes: Sequence[str]) -> int:
    if name not in classes:
        raise InputError("a class must be one that the model knows", got=f"{name!r}", fix=nearest(name, classes))
    return classes.index(name)


def class_numbers(labels: Any, classes: Sequence[str], count: int) -> list[int]:
    """Of names of classes, or of what is written as they are, in a list, a tensor or an array, for each of `count`
    inputs. Whole numbers may be floats."""
    values = labels.tolist() if hasattr(labels, "tolist") else labels
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError("labels must be a list of classes", got=f"{labels!r}", fix="give one for each input")
    names = [_class_name(value, classes) for value in values]
    if len(names) != count:
        raise InputError("there must be a label for each input", got=f"{len(names)} for {count} inputs")
    return [class_number(name, classes) for name in names]


def _class_name(label: Any, classes: Sequence[str]) -> str:
    value = label.item() if hasattr(label, "item") else label
    whole = isinstance(value, float) and value.is_integer() and str(value) not in classes
    return str(int(value) if whole else value)
