"""Pages and sections on the gates of a recurrent model: what each unit did while a text was read, and what its doings
are tied to."""

from pathlib import Path
from typing import Protocol, runtime_checkable

from neuropil.data.corpus.files import read_text
from neuropil.errors import NeuropilError, RunError
from neuropil.inspection.gates import ties
from neuropil.inspection.report.gates import MOST_FOR_TIES, Readable, gate_sections, sentence, watch
from neuropil.inspection.report.page import Report, write_report
from neuropil.inspection.text_properties import properties_of
from neuropil.runs.run import Run

LEAST_FOR_TIES = 400
"""Tokens of a text from which on it says itself what units are tied to; a shorter one is read beside text that the run
held out."""


@runtime_checkable
class Quotable(Protocol):
    """An experiment that has text which training has not seen."""

    def held_out_text(self, characters: int) -> str: ...


def text_of(words: str) -> str:
    """The words themselves, or what the file of that name holds."""
    try:
        return read_text([Path(words)]) if Path(words).is_file() else words
    except OSError:  # a text may be too long for the name of a file
        return words


def write_gates(run: Run, text: str) -> tuple[Path, list[str]]:
    """A page on the gates of a run while it reads `text`: its path, and what it says in words."""
    trained = run.predictor
    if not isinstance(trained, Readable):
        raise RunError(
            f"{run.folder} must hold a recurrent model that reads texts",
            got=f"a run of {run.name}",
            fix="train an lstm",
        )
    watched = watch(trained, text)
    longest = max(len(each.tokens) for each in watched)
    sample = held_out_text(run) if longest < LEAST_FOR_TIES else ""
    studied = watch(trained, sample) if len(sample) > longest else watched
    tied = {each.name: ties(each.gates, properties_of(each.tokens)) for each in studied}
    sections = [
        section for each in watched for section in gate_sections(each, tied.get(each.name, []), len(studied[0].tokens))
    ]
    summary = f"What the cells of {run.folder.name} did while they read {longest:,} tokens."
    path = run.folder / "gates.html"
    write_report(path, Report(f"neuropil · gates of {run.folder.name}", summary, sections))
    return path, [sentence(name, found) for name, found in tied.items()]


def held_out_text(run: Run) -> str:
    """Some of what the run has not learned from; nothing, where its data is no longer there."""
    try:
        experiment = run.experiment()
    except NeuropilError:
        return ""
    return experiment.held_out_text(MOST_FOR_TIES) if isinstance(experiment, Quotable) else ""
