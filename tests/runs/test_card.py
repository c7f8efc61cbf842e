"""What a notebook shows of a run."""

import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import neuropil
from neuropil.runs.overview import margin, result_rows
from neuropil.runs.run import Run


class _Seen(HTMLParser):
    def __init__(self, html: str):
        super().__init__()
        self.tags, self.links, self.text = list[str](), list[str](), ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / 'a "><b>\\1 run'
    return neuropil.train("mlp", out=folder, epochs=2, hidden_sizes=(8,), show_progress=False)


def test_a_card_has_the_sentence_the_scores_the_curve_and_the_link(run: Run):
    seen = _Seen(run._repr_html_())
    assert margin(run.results) in seen.text
    assert all(cell in seen.text for row in result_rows(run.results) for cell in row)
    assert seen.tags.count("svg") == 1
    assert "learning rate" in seen.text
    assert [unquote(link) for link in seen.links if link[0] != "#"] == [str(run.report)]
    assert "b" not in seen.tags  # the name of the folder is no markup


def test_a_study_has_no_curve(tmp_path: Path):
    run = neuropil.train("optimizers", steps=10, out=tmp_path / "run", show_progress=False)
    seen = _Seen(run._repr_html_())
    assert "svg" not in seen.tags
    assert margin(run.results) in seen.text
    assert seen.links == [str(run.report)]


def test_a_run_that_was_stopped_says_how_to_go_on(run: Run, tmp_path: Path):
    folder = Path(shutil.copytree(run.folder, tmp_path / "stopped"))
    (folder / "report.html").unlink()
    rows = [line for line in (folder / "metrics.jsonl").read_text().splitlines() if '"result"' not in line]
    (folder / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    seen = _Seen(neuropil.load(folder)._repr_html_())
    assert f"Not finished: {neuropil.load(folder).progress}. Go on with neuropil resume {folder}." in seen.text
    assert seen.tags.count("svg") == 1
    assert "a" not in seen.tags
