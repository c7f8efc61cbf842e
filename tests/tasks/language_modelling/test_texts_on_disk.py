"""Language models on texts that stay on disk, in small: what is held in memory otherwise gives the same."""

from pathlib import Path
from typing import Any

import pytest
import torch

import neuropil
from neuropil.data.corpus import files, stored
from neuropil.errors import RunError
from neuropil.runs.data_preview import preview_data

TEXT = "".join(
    f'{number % 90} is "{"odd" if number % 2 else "even"}" (see {number % 90 + 1}).\n' for number in range(1_800)
)
SMALL: dict[str, dict[str, Any]] = {
    "gpt2": {"width": 16, "heads": 2, "layers": 1, "feed_forward": 32, "context": 32, "vocabulary_size": 300},
    "bert": {"width": 16, "heads": 2, "layers": 1, "feed_forward": 32, "context": 32, "vocabulary_size": 200},
    "lstm": {"hidden_size": 16, "steps": 16},
}
SHORT: dict[str, Any] = {"updates": 12, "report": False, "show_progress": False}


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(stored, "SAMPLE_BLOCK", 1_000)
    monkeypatch.setattr(files, "MOST_IN_MEMORY", 1_000)
    (tmp_path / "book.txt").write_text(TEXT)
    return tmp_path / "book.txt"


@pytest.mark.parametrize("system", [*SMALL])
def test_a_run_on_a_text_on_disk_is_that_of_the_same_tokens_in_memory(
    system: str, book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    on_disk = neuropil.train(system, data=book, out=tmp_path / "disk", **SMALL[system], **SHORT)
    assert any("is read from disk" in note for note in on_disk.settings["facts"]["notes"])
    # The same vocabulary, learned from the same sample.
    sample = on_disk.experiment().corpus.learned_texts  # type: ignore[attr-defined]
    monkeypatch.setattr(files, "MOST_IN_MEMORY", 1 << 30)
    monkeypatch.setattr("neuropil.data.corpus.dataset.Corpus.learned_texts", sample)
    in_memory = neuropil.train(system, data=book, out=tmp_path / "memory", **SMALL[system], **SHORT)
    assert in_memory.settings["facts"]["notes"] == []
    assert on_disk.metrics == in_memory.metrics
    weights = in_memory.model.state_dict()
    assert all(torch.equal(each, weights[name]) for name, each in on_disk.model.state_dict().items())


def test_a_run_knows_its_text_again_and_others(book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = neuropil.train("gpt2", data=book, out=tmp_path / "run", **SMALL["gpt2"], **SHORT)
    facts = run.experiment().facts()
    book.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert run.experiment().facts() == facts
    book.write_text(TEXT.replace("odd", "ODD"))
    with pytest.raises(RunError) as error:
        run.experiment()
    assert str(error.value).startswith(f"{run.folder} needs the data that it was started with, but got data that has")


def test_what_is_understood_of_it_is_shown(book: Path):
    found = preview_data("gpt2", {"data": book, **SMALL["gpt2"]})
    assert found.parts["train"] > 20 * found.parts["test"] / 2
    assert "is read from disk" in found.notes[0]
