"""What is said of data before it is trained on is what training will read."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import neuropil
from neuropil.cli import main
from neuropil.errors import InputError
from neuropil.runs.data_preview import preview_data

ROWS = 60


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three kinds of columns, a class that follows from one, a copy and a missing value."""
    rng = np.random.default_rng(0)
    lines = ["size,colour,day,kind"]
    for row in range(ROWS):
        size = f"{rng.normal():.4f}" if row != 3 else ""
        day = f"2024-{1 + row % 12:02}-{1 + row % 28:02}"
        lines.append(f"{size},{('red', 'green', 'blue')[row % 3]},{day},{('cat', 'dog')[row % 2]}")
    lines.append(lines[-1])
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_table_is_shown_with_its_columns_classes_and_notes(table: Path):
    found = preview_data("mlp", {"data": table, "target": "kind"})
    about = found.understood
    assert (found.system, about.kind, about.task, about.target) == ("mlp", "table", "classification", "kind")
    assert [(each.name, each.kind, each.missing) for each in about.columns] == [
        ("size", "number", True),
        ("colour", "category", False),
        ("day", "date", False),
    ]
    assert about.columns[1].values == ("blue", "green", "red")
    assert sum(found.parts.values()) == ROWS + 1
    assert [each["name"] for each in found.classes] == ["cat", "dog"]
    assert {part: sum(each[part] for each in found.classes) for part in found.parts} == found.parts
    assert any("Missing values: 1 in 'size'" in note for note in found.notes)
    assert about.sample is not None
    assert about.sample["columns"][-1] == "kind"
    assert {row[-1] for row in about.sample["rows"]} == {"cat", "dog"}
    json.dumps(found.to_dict(), allow_nan=False)


def test_it_is_what_a_run_reads(table: Path, tmp_path: Path):
    run = neuropil.train(
        "mlp", data=table, target="kind", epochs=1, out=tmp_path / "run", report=False, show_progress=False
    )
    found = preview_data("mlp", {"data": table, "target": "kind"})
    assert run.settings["facts"]["notes"] == found.notes
    assert run.settings["facts"]["source"] == found.source


def test_pictures_are_shown_one_of_each_class(tmp_path: Path):
    rng = np.random.default_rng(0)
    for name in ("cat", "dog", "owl"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(8):
            pixels = rng.integers(0, 256, (60, 100, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{number}.png")
    found = preview_data("cnn", {"data": tmp_path / "pictures", "image_size": 64})
    sample = found.understood.sample
    assert sample is not None
    assert (found.understood.kind, sample["count"]) == ("pictures", 12)
    assert sample["captions"][:3] == ["cat", "dog", "owl"]
    assert max(sample["height"], sample["width"]) <= 48
    assert sample["channels"] == 3


def test_data_that_training_would_refuse_is_refused_with_its_sentence(table: Path, tmp_path: Path):
    sentences = []
    for start in (
        lambda: preview_data("cnn", {"data": table, "target": "kind"}),
        lambda: neuropil.train("cnn", data=table, target="kind"),
    ):
        with pytest.raises(InputError) as caught:
            start()
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]
    assert sentences[0].startswith("the cnn learns from pictures with class labels, but got 61 rows of ")
    with pytest.raises(InputError) as caught:
        preview_data("lif", {})
    assert str(caught.value) == "data is shown of a system that learns from examples, but got 'lif'."


@pytest.mark.parametrize(
    ("name", "options", "kind", "sample"),
    [
        ("activations", {}, "pictures", "pictures"),
        ("vae", {}, "pictures", "pictures"),
        ("captioner", {"scenes": 60}, "pictures with captions", "pictures"),
        ("tracker", {"films": 40}, "films", "pictures"),
        ("forecaster", {}, "series", "curves"),
        ("tagger", {}, "tagged texts", "pairs"),
        ("seq2seq", {"hidden_size": 8}, "pairs of texts", "pairs"),
        ("rnn", {}, "text", "texts"),
    ],
)
def test_every_kind_of_data_is_shown(name: str, options: dict[str, int], kind: str, sample: str):
    found = preview_data(name, options)
    assert found.understood.kind == kind
    assert found.understood.sample is not None
    assert found.understood.sample["kind"] == sample
    assert min(found.parts["train"], found.parts["test"]) > 0
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["source"] == found.source


def test_the_command_line_says_it_too_and_trains_nothing(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    main(["train", "mlp", "--data", str(table), "--target", "kind", "--check-data", "--estimate"])
    said = capsys.readouterr()
    assert "class\ttrain\tvalidation\ttest\ncat\t" in said.out
    assert "colour\tcategory\tblue, green, red\t\n" in said.out
    assert "About " in said.out
    assert "Missing values: 1 in 'size'" in said.err
    main(["train", "mlp", "--data", str(table), "--target", "kind", "--check-data", "--json"])
    assert json.loads(capsys.readouterr().out)["parts"] == preview_data("mlp", {"data": table, "target": "kind"}).parts
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]
