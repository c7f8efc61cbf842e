"""A recipe that makes figures and a table, in one go, and keeps no model: comparisons and demonstrations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuropil.inspection.report.page import Section
from neuropil.tasks.experiment import Result
from neuropil.training.history import Row
from neuropil.training.progress import Display


@dataclass(frozen=True)
class Findings:
    results: Sequence[Result]
    sections: Sequence[Section]


@dataclass
class Study:
    """`compute` gets the run's folder, for what it trains on the way, and a display for its progress."""

    title: str
    compute: Callable[[Path, Display], Findings]
    described: dict[str, Any] = field(default_factory=dict)
    findings: Findings = field(default_factory=lambda: Findings([], []))

    def facts(self) -> dict[str, Any]:
        return self.described

    def train(self, folder: Path, *, show_progress: bool) -> None:
        with Display(self.title, show=show_progress) as display:
            self.findings = self.compute(folder, display)

    def evaluate(self) -> Sequence[Result]:
        return self.findings.results

    def sections(self, history: Sequence[Row]) -> Sequence[Section]:
        return self.findings.sections
