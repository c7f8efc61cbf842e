"""Attack the classifier of a run: its held-out part, or inputs of the user's."""

from typing import Any, cast

from neuropil.data.splits import Splits
from neuropil.errors import InputError, RunError
from neuropil.runs.run import Run
from neuropil.tasks.attack import Attackable, AttackConfig, AttackedInputs, Attacker, Progress


def attack_run(
    run: Run,
    inputs: Any = None,
    labels: Any = None,
    config: AttackConfig | None = None,
    *,
    progress: Progress = None,
    **options: Any,
) -> AttackedInputs:
    """`options` are further ones of the attack's own."""
    config, attacker = config or AttackConfig(), attacker_of(run)
    if inputs is not None:
        return attacker.attack(inputs, labels, config, progress=progress, **options)
    if labels is not None:
        raise InputError("labels are those of inputs", got="labels alone", fix="give the inputs too")
    return attacker.attack_held_out(splits_of(run), config, progress=progress, **options)


def attacker_of(run: Run) -> Attacker:
    if not isinstance(run.predictor, Attackable):
        rule, fix = "an attack needs a classifier of pictures, rows or texts", "train the cnn, or the mlp for a table"
        raise RunError(rule, got=f"a run of {run.name} in {run.folder}", fix=fix)
    return run.predictor.attacker


def splits_of(run: Run) -> Splits[Any]:
    if run.memory is not None:
        fix = "give inputs with their classes, as in run.attack(X, y)"
        raise RunError(f"{run.folder} does not hold its data, which was in memory", got="no inputs", fix=fix)
    return cast(Any, run.experiment()).splits
