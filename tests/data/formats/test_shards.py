"""Rows of JSONL and Parquet give what the same rows of a CSV give."""

import json
from operator import eq
from pathlib import Path

import pandas as pd
import pytest
import torch

import neuropil
from neuropil import memory
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.data.formats.shards import read_shards
from neuropil.data.labelled_texts.files import LabelledTextConfig, prepare_labelled_texts
from neuropil.data.words.files import WordDataConfig, prepare_words
from neuropil.errors import InputError

FLOWERS = pd.DataFrame(
    {
        "length": [4.5 + number % 3 if number % 7 else None for number in range(60)],
        "width": [2 + number % 2 for number in range(60)],
        "colour": ["blue" if number % 3 else "white" for number in range(60)],
        "kind": ["iris" if number % 2 else "lily" for number in range(60)],
    }
)
REVIEWS = pd.DataFrame(
    {
        "review": [f"{'Good' if number % 2 else 'Bad'} film, the {number}th" for number in range(40)],
        "sentiment": ["positive" if number % 2 else "negative" for number in range(40)],
        "id": range(40),
    }
)


def write(folder: Path, table: pd.DataFrame, suffix: str) -> Path:
    """As one file, or as a folder of three."""
    path = folder / f"rows{suffix}"
    if suffix == ".csv":
        table.to_csv(path, index=False)
    elif suffix == ".parquet":
        table.to_parquet(path)
    elif suffix == ".jsonl":
        rows = table.astype(object).where(table.notna(), None).to_dict("records")
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.mkdir()
        for number in range(3):
            begin = number * len(table) // 3
            table[begin : (number + 1) * len(table) // 3].to_parquet(path / f"{number}.parquet")
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ""])
def test_a_table_is_that_of_a_csv(tmp_path: Path, suffix: str):
    found, expected = (
        prepare(DataConfig(data=write(tmp_path, FLOWERS, each), target="kind"), 0) for each in (suffix, ".csv")
    )
    assert torch.equal(found.train.inputs, expected.train.inputs)
    assert torch.equal(found.test.targets, expected.test.targets)
    assert found.train.schema == expected.train.schema
    assert found.train.source == expected.train.source.replace("rows.csv", f"rows{suffix}")


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_nested_columns_have_their_full_names(tmp_path: Path, suffix: str):
    table = pd.DataFrame({"user": [{"age": 1}, {"age": 2}], "item": [{"age": 3}, {"age": 4}]})
    columns = read_shards(write(tmp_path, table, suffix)).columns
    assert {name: [*values] for name, values in columns.items()} == {"user.age": [1, 2], "item.age": [3, 4]}


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ""])
def test_labelled_texts_are_those_of_a_csv(tmp_path: Path, suffix: str):
    found, expected = (
        prepare_labelled_texts(LabelledTextConfig(data=write(tmp_path, REVIEWS, each)), 0) for each in (suffix, ".csv")
    )
    assert found.train.texts == expected.train.texts
    assert torch.equal(found.train.targets, expected.train.targets)
    assert found.train.classes == expected.train.classes


def test_a_run_is_trained_scored_and_used_on_parquet(tmp_path: Path):
    path = write(tmp_path, FLOWERS, ".parquet")
    options = {"updates": 30, "report": False, "show_progress": False}
    run = neuropil.train("mlp", data=path, target="kind", out=tmp_path / "run", **options)
    with pytest.warns(UserWarning, match="in the training part of this run"):
        accuracy = run.evaluate(path)["accuracy"]
    _, names = run.predictor.read([path])
    assert names[2] == "rows.parquet row 2"
    said = run.predict(path).labels
    assert sum(map(eq, said, FLOWERS["kind"])) / len(FLOWERS) == pytest.approx(accuracy)
    assert accuracy > 0.9


def test_words_are_those_of_plain_text(tmp_path: Path):
    lines = [f"the {('cat', 'dog')[number % 2]} sat on mat {number % 9}" for number in range(400)]
    (tmp_path / "plain.txt").write_text("\n".join(lines))
    (tmp_path / "shards").mkdir()
    for number in range(2):
        shard = (
            json.dumps({"text": "\n".join(lines[begin : begin + 50])})
            for begin in range(200 * number, 200 * number + 200, 50)
        )
        (tmp_path / "shards" / f"{number}.jsonl").write_text("\n".join(shard))
    plain, shards, pattern = (
        prepare_words(WordDataConfig(data=(tmp_path / name,), min_count=1))
        for name in ("plain.txt", "shards", "shards/*.jsonl")
    )
    for found in (shards, pattern):
        assert found.vocabulary.words == plain.vocabulary.words
        for name, part in found.parts.items():
            assert (part.numbers == plain.parts[name].numbers).all()


def test_rows_that_are_none_or_too_many_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(InputError) as error:
        read_shards(tmp_path / "empty.jsonl")
    assert str(error.value) == "empty.jsonl must hold rows, but got none."
    (tmp_path / "meminfo").write_text("MemAvailable:  1 kB\n")
    paths = [write(tmp_path, pd.concat([FLOWERS] * 10), suffix) for suffix in (".csv", ".jsonl", ".parquet")]
    monkeypatch.setattr(memory, "MACHINE", tmp_path / "meminfo")
    for path in paths:
        with pytest.raises(InputError) as error:
            prepare(DataConfig(data=path, target="kind"), 0)
        rule, _, rest = str(error.value).partition("at least ")
        assert rule == f"{path.name} must fit into memory, but got "
        assert rest.partition(", ")[2] == "of 1.02 kB free: give a part of its rows."
