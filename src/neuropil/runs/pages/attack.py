"""The page of an attack on a run's classifier, written beside its report."""

from pathlib import Path
from typing import NamedTuple

from neuropil.inspection.report.page import Report, write_report
from neuropil.runs.attack import attacker_of, splits_of
from neuropil.runs.run import Run
from neuropil.tasks.attack import AttackConfig, AttackReport, BeginStage


class AttackPage(NamedTuple):
    path: Path
    report: AttackReport


def write_attack(run: Run, config: AttackConfig, *, surrogate: Run | None = None, stage: BeginStage) -> AttackPage:
    """`surrogate` is a run of another model, whose attacked examples are tried too."""
    attacker, other = attacker_of(run), None
    if surrogate is not None:
        other = attacker_of(surrogate)
        attacker.require_surrogate(other, surrogate.folder, run.folder)
    found, path = attacker.report(splits_of(run), config, surrogate=other, stage=stage), run.folder / "attack.html"
    write_report(path, Report(f"neuropil · attack on {run.folder.name}", found.summary, found.sections))
    return AttackPage(path, found)
