import contextlib
import csv
import gzip
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.written_files import refusal, write_text
from neuropil.data.formats.memory import in_memory
from neuropil.data.pairs.dataset import Pairs
from neuropil.data.pairs.files import Names, PairDataConfig, Row, find_objects, find_table, prepare_pairs, read_pairs
from neuropil.data.splits import TEST, TRAIN, VALIDATION, Splits, assign_parts
from neuropil.errors import InputError

FILES = {
    "a.tsv": "en\tde\ncat\tKatze\n\nhats\tHüte\n".encode(),
    "a.csv": b'cat,Katze\r\n"a ""hat""","ein\nHut"\r\n',
    "a.jsonl": '{"en": "cat", "de": "Katze"}\n{"en": "hat\\u0301", "de": "Hüte"}\n'.encode(),
}


def test_the_same_pairs_are_read_from_every_format(tmp_path: Path):
    write_text(tmp_path / "a.tsv", "cat\tKatze", "hats\tHüte")
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress((tmp_path / "a.tsv").read_bytes()))
    write_text(tmp_path / "a.csv", "cat,Katze", '"hats","Hüte"')
    write_text(tmp_path / "a.en", "cat", "hats")
    (tmp_path / "a.de").write_bytes(gzip.compress("Katze\r\nHüte".encode()))
    for names in (["a.tsv"], ["a.tsv.gz"], ["a.csv"], ["a.en", "a.de"]):
        expected = Pairs(["cat", "hats"], ["Katze", "Hüte"], (), f"2 pairs of texts ({' and '.join(names)})")
        assert read_pairs([tmp_path / name for name in names]) == (expected, [])
    write_text(tmp_path / "a.jsonl", '{"en": "cat", "de": "Katze"}', '{"en": "hats", "de": "Hüte"}')
    pairs, notes = read_pairs([tmp_path / "a.jsonl"])
    assert (pairs.sources, pairs.targets) == (["cat", "hats"], ["Katze", "Hüte"])
    assert notes == ["The texts of a.jsonl have names: 'en' is translated to 'de'."]


def test_pairs_can_be_turned_round(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", "en\tde", "cat\tKatze")
    pairs, notes = read_pairs([path], reverse=True)
    assert (pairs.sources, pairs.targets) == (["Katze"], ["cat"])
    assert notes == ["The first row of a.tsv is taken for the names of its columns: 'de' is translated to 'en'."]


def test_what_is_odd_is_counted_and_only_empty_sides_are_left_out(tmp_path: Path):
    long = "a" * 2_001
    path = write_text(tmp_path / "a.tsv", "x\ty", "x\t ", "x\ty", f"{long}\ty", "\ty", "", "x\tz", "x\ty", f"y\t{long}")
    pairs, notes = read_pairs([path])
    assert pairs.sources == ["x", "x", long, "x", "x", "y"]
    assert pairs.source == "6 pairs of texts (a.tsv)"
    assert notes == [
        "3 of 9 pairs have an empty side and are left out (first: row 2).",
        "2 of 9 pairs have more than 2,000 characters on a side (first: row 4).",
        "2 of 9 pairs are exact copies of earlier ones (first: row 3).",
    ]


def test_a_single_oddity_is_counted_in_the_singular(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", "x\ty", "x\ty", f"{'a' * 3_000}\tb", "\t")
    assert read_pairs([path])[1] == [
        "1 of 4 pairs has an empty side and is left out (first: row 4).",
        "1 of 4 pairs has more than 2,000 characters on a side (first: row 3).",
        "1 of 4 pairs is an exact copy of an earlier one (first: row 2).",
    ]


def test_spaces_and_combining_marks_survive(tmp_path: Path):
    texts = (" e\u0301  \u200c", "\u00e9\u00a0 ")
    pairs, _ = read_pairs([write_text(tmp_path / "a.tsv", "\t".join(texts))])
    assert (pairs.sources, pairs.targets) == ([texts[0]], [texts[1]])


def test_parallel_files_of_different_lengths_are_refused_with_both_counts(tmp_path: Path):
    short, long = write_text(tmp_path / "a.en", "a", "b"), write_text(tmp_path / "a.de", *["x"] * 1_005)
    assert refusal(read_pairs, [short, long]) == "a.en and a.de must have equally many lines, but got 2 and 1,005."
    assert refusal(read_pairs, [long, short]) == "a.de and a.en must have equally many lines, but got 1,005 and 2."


def test_tables_are_not_parallel_files(tmp_path: Path):
    paths = [write_text(tmp_path / name, "a\tb") for name in ("train.tsv", "test.tsv.gz")]
    assert refusal(read_pairs, paths) == (
        "two files of pairs must be plain texts, a line each, "
        "but got train.tsv and test.tsv.gz: give one file with both sides."
    )


def test_there_are_one_or_two_files(tmp_path: Path):
    assert refusal(read_pairs, []) == "pairs of texts come in one file, or in two with a line each, but got 0 files."
    assert (
        refusal(read_pairs, [tmp_path] * 3)
        == "pairs of texts come in one file, or in two with a line each, but got 3 files."
    )


def test_columns_that_make_no_sense_are_refused(tmp_path: Path):
    path = write_text(tmp_path / "a.en", "a\tb")
    assert refusal(lambda: read_pairs([path, path], source_column="en")) == (
        "columns are named in a TSV, CSV or JSONL, but got two plain files, a.en and a.en: leave the names out."
    )
    assert refusal(lambda: read_pairs([path], source_column="a", target_column="a")) == (
        "sources and targets must be different columns, but got 'a' for both."
    )


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(sorted(FILES)), st.booleans(), st.data())
def test_whatever_happens_to_a_file_it_is_read_or_refused_with_one_sentence(
    name: str, packed: bool, data: st.DataObject
):
    content = bytearray(gzip.compress(FILES[name], mtime=0) if packed else FILES[name])
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(InputError):
        path = Path(folder) / name
        path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
        pairs, _ = read_pairs([path])
        assert all(text.strip() for text in [*pairs.sources, *pairs.targets])


def rows_of(path: Path, wanted: Names = (None, None)) -> list[Row]:
    return list(find_table(path, wanted).rows)


def test_a_tsv_needs_no_header_and_knows_no_quotes(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", 'the 5" disk\tdie 5"-Platte', '"quoted"\t „Zitat“ ', "a, b; c|d\te")
    assert rows_of(path) == [(1, 'the 5" disk', 'die 5"-Platte'), (2, '"quoted"', " „Zitat“ "), (3, "a, b; c|d", "e")]
    assert find_table(path, (None, None)).named == ""


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_csv_has_quotes_as_spreadsheets_write_them(tmp_path: Path, delimiter: str):
    pairs = [('the 5" disk', "die 5-Zoll-Platte"), ("one, two; three", "two\nlines"), (" space ", "é")]
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=delimiter).writerows(pairs)
    assert rows_of(tmp_path / "a.csv") == [(1, *pairs[0]), (2, *pairs[1]), (3, *pairs[2])]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.tsv.gz", "a.CSV.gz", "a.txt"])
def test_names_in_the_first_line_are_no_pair(tmp_path: Path, name: str):
    between = "," if ".csv" in name.lower() else "\t"
    content = f"en{between}de\ncat{between}Katze\n".encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    found = find_table(tmp_path / name, (None, None))
    assert found.named == f"The first row of {name} is taken for the names of its columns"
    assert found.names == ("en", "de")
    assert list(found.rows) == [(2, "cat", "Katze")]


def test_columns_asked_for_by_name_are_found_among_several(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", "id\tKatze \tcat", "1\tHund\tdog")
    assert rows_of(path, ("cat", "Katze")) == [(2, "dog", "Hund")]
    assert find_table(path, ("cat", "Katze")).named == ""


def test_one_of_two_columns_is_enough_to_name(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", "Katze\tcat", "Hund\tdog")
    assert rows_of(path, ("cat", None)) == [(2, "dog", "Hund")]
    assert find_table(path, ("cat", None)).names == ("cat", "Katze")


def test_empty_lines_and_sides_are_handed_on_with_their_numbers(tmp_path: Path):
    assert rows_of(write_text(tmp_path / "a.tsv", "a\tb", "", "\tc", "d\t")) == [
        (1, "a", "b"),
        (2, "", ""),
        (3, "", "c"),
        (4, "d", ""),
    ]
    assert rows_of(write_text(tmp_path / "a.csv", "a,b", "", ",c")) == [(1, "a", "b"), (2, "", ""), (3, "", "c")]


@pytest.mark.parametrize(
    ("name", "lines", "sentence"),
    [
        ("a.tsv", ["a\tb", "c"], "each row of a.tsv must have 2 cells, as the first has, but got 1 in row 2."),
        (
            "a.tsv",
            ["a\tb", "", "c\td\te"],
            "each row of a.tsv must have 2 cells, as the first has, but got 3 in row 3.",
        ),
        ("a.csv", ["a,b", "c,d,e"], "each row of a.csv must have 2 cells, as the first has, but got 3 in row 2."),
        (
            "a.tsv",
            ["one, two"],
            "a.tsv must have two columns with a tab between them, but got one: parallel texts are given as two files.",
        ),
        ("a.csv", ["one"], "a.csv must have two columns, but got one: parallel texts are given as two files."),
        (
            "a.tsv",
            ["a\tb\tc"],
            "a.tsv must have one column of sources and one of targets, such as source and target, but got 3: a, b, c: "
            "name them with --source-column and --target-column.",
        ),
        ("a.tsv", ["", "a\tb"], "a.tsv must hold pairs of texts, but got an empty first row."),
        (
            "a.csv",
            ["a,b", '"1,2', *["3,4"] * 5_000_000],
            "a.csv must be a table of text, "
            "but got a field larger than field limit (16777216): is there a quote that never ends?",
        ),
        *(
            ("a.csv", lines, f"{rule}: put cells with a carriage return in quotes, or end all lines with line feeds.")
            for lines, rule in (
                (["a\rb,c"], "a.csv must have two columns, but got one"),
                (["a,b", "c\rd,e"], "each row of a.csv must have 2 cells, as the first has, but got 1 in row 2"),
            )
        ),
    ],
)
def test_lines_that_do_not_fit_are_named(tmp_path: Path, name: str, lines: list[str], sentence: str):
    assert refusal(rows_of, write_text(tmp_path / name, *lines)) == sentence


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str):
    (tmp_path / name).touch()
    assert refusal(rows_of, tmp_path / name) == f"{name} must hold pairs of texts, but got an empty file."


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_the_line_that_is_not_utf_8_is_named(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"a\tb\nc\t\xe4\n")
    assert (
        refusal(rows_of, tmp_path / name)
        == f"{name} must be text in UTF-8, but got other bytes in line 2: save it as UTF-8."
    )


def parts_of(path: Path, seed: int = 0, **options: Any) -> Splits[Pairs]:
    return prepare_pairs(PairDataConfig(data=(path,), **options), seed)


def sizes(splits: Splits[Pairs]) -> tuple[int, int, int]:
    return len(splits.train), len(splits.validation), len(splits.test)


def both(pairs: Pairs) -> list[tuple[str, str]]:
    return list(zip(pairs.sources, pairs.targets, strict=True))


def numbered(path: Path, count: int) -> Path:
    return write_text(path, *[f"{number}\tx{number}" for number in range(count)])


def test_without_data_dates_are_made():
    splits = prepare_pairs(PairDataConfig(), 0)
    assert sizes(splits) == (29_350, 1_650, 2_000)
    assert splits.train.source == "33,000 dates in 17 languages (Babel)"
    assert sizes(prepare_pairs(PairDataConfig(validation=0, test=0.01), 0)) == (32_670, 0, 330)


def test_own_pairs_are_split_by_seed_and_keep_their_order(tmp_path: Path):
    path = numbered(tmp_path / "a.tsv", 200)
    first, again, other = (parts_of(path, seed) for seed in (0, 0, 1))
    assert sizes(first) == (170, 10, 20)
    assert first == again != other
    for part in (first.train, first.validation, first.test):
        assert part.sources == sorted(part.sources, key=int)
        assert part.targets == [f"x{source}" for source in part.sources]
        assert part.source == "200 pairs of texts (a.tsv)"
    assert sorted(both(first.train) + both(first.validation) + both(first.test)) == sorted(
        (str(n), f"x{n}") for n in range(200)
    )
    assert first.notes == []


def test_at_most_2000_pairs_are_held_out_for_each_purpose(tmp_path: Path):
    assert sizes(parts_of(numbered(tmp_path / "a.tsv", 30_000), validation=0.3, test=0.5)) == (26_000, 2_000, 2_000)


def test_the_test_part_does_not_depend_on_the_size_of_the_validation_part(tmp_path: Path):
    path = numbered(tmp_path / "a.tsv", 100)
    assert parts_of(path, validation=0).test == parts_of(path, validation=0.5).test


def test_the_same_source_is_always_in_the_same_part(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", *[f"{number % 60}\t{number}" for number in range(180)], "alone\tx")
    splits = parts_of(path, validation=0.2, test=0.3)
    parts = [set(part.sources) for part in (splits.train, splits.validation, splits.test)]
    assert not (parts[0] & parts[1] | parts[1] & parts[2] | parts[0] & parts[2])
    assert sum(sizes(splits)) == 181
    assert splits.notes == [
        "180 of 181 pairs share their source with another; the same source is always in the same part."
    ]


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=60), st.floats(0, 0.5), st.floats(0.01, 0.9), st.integers(0, 100)
)
def test_the_held_out_parts_are_as_large_as_asked_for_if_the_sources_allow(
    counts: list[int], validation: float, test: float, seed: int
):
    keys = [source for source, count in enumerate(counts) for _ in range(count)]
    part = assign_parts(keys, validation, test, seed, weights=[1] * len(keys), most=2_000)
    pairs = {name: int((part == name).sum()) for name in (TRAIN, VALIDATION, TEST)}
    wanted = {VALIDATION: max(round(validation * sum(counts)), validation > 0), TEST: max(round(test * sum(counts)), 1)}
    assert pairs[TRAIN] > 0
    assert pairs[TEST] > 0
    assert all(pairs[name] <= max(wanted[name], max(counts)) for name in wanted)
    if max(counts) == 1 and wanted[TEST] < len(counts):
        assert pairs[TEST] == wanted[TEST]


def test_two_pairs_are_the_fewest(tmp_path: Path):
    assert sizes(parts_of(numbered(tmp_path / "a.tsv", 2))) == (1, 0, 1)
    assert sizes(parts_of(numbered(tmp_path / "a.tsv", 3))) == (1, 1, 1)
    path = write_text(tmp_path / "b.tsv", "a\tx", "a\ty")
    rule = "must hold at least 2 different sources, one to learn from and one to score"
    assert refusal(parts_of, path) == f"b.tsv {rule}, but got 1."
    assert refusal(parts_of, write_text(tmp_path / "c.tsv", "a\t", "\tb")) == f"c.tsv {rule}, but got 0."


def test_columns_and_direction_are_passed_on(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", "n\tCat\tKatze", *[f"{n}\tcat{n}\tKatze{n}" for n in range(10)])
    splits = parts_of(path, source_column="Cat", target_column="Katze", reverse=True)
    assert all(source.startswith("Katze") and target.startswith("cat") for source, target in both(splits.train))


def test_what_makes_no_sense_for_dates_is_refused():
    assert refusal(lambda: prepare_pairs(PairDataConfig(source_column="en"), 0)) == (
        "columns are named in a TSV, CSV or JSONL, but got names for the embedded dates: leave them out."
    )
    assert refusal(lambda: prepare_pairs(PairDataConfig(reverse=True), 0)) == (
        "an ISO date can be written in many ways, but got reverse for the embedded dates: give pairs of your own."
    )


@pytest.mark.parametrize(
    ("cells", "usual"),
    [
        ("source target", True),
        ("src tgt", True),
        ("en de", True),
        ("EN DE", True),
        ("English German", True),
        ("input output", True),
        ("pt_BR en-GB", True),
        ("zh-hans en", True),
        ("text fa", True),
        ("Hello Hallo", False),
        ("war Krieg", False),
        ("en en", False),
        ("source Quelle", False),
        ("der the", False),
        ("English Englisch", False),
        ("1 2", False),
    ],
)
def test_usual_words_and_languages_name_columns_and_other_texts_do_not(tmp_path: Path, cells: str, usual: bool):
    path = write_text(tmp_path / "a.tsv", cells.replace(" ", "\t"), "x\ty")
    assert len(rows_of(path)) == (1 if usual else 2)
    assert bool(find_table(path, (None, None)).named) == usual


def test_columns_go_by_their_usual_names_but_texts_do_not(tmp_path: Path):
    assert rows_of(write_text(tmp_path / "a.tsv", "target\tsource", "Katze\tcat")) == [(2, "cat", "Katze")]
    assert rows_of(write_text(tmp_path / "b.tsv", "translation\tÜbersetzung", "cat\tKatze"))[1] == (2, "cat", "Katze")


def test_columns_may_be_given_by_number(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", "1\tcat\tKatze", "2\tdog\tHund")
    assert rows_of(path, ("3", "2")) == [(1, "Katze", "cat"), (2, "Hund", "dog")]


def test_sources_that_read_alike_are_always_in_the_same_part(tmp_path: Path):
    """In whatever case, spacing or Unicode spelling."""
    alike = [(f"Good film {n}", f"good  FILM {n} ", f"ｇｏｏｄ film {n}") for n in range(40)]
    path = write_text(tmp_path / "a.tsv", *(f"{text}\tx{n}" for n, texts in enumerate(alike) for text in texts))
    splits = parts_of(path, validation=0.2, test=0.3)
    parts = [
        {int(text.split()[-1]) for text in part.sources} for part in (splits.train, splits.validation, splits.test)
    ]
    assert not (parts[0] & parts[1] | parts[1] & parts[2] | parts[0] & parts[2])
    assert sizes(splits) == (60, 24, 36)


def pairs_of(path: Path, wanted: Names = (None, None)) -> list[Row]:
    return list(find_objects(path, wanted).rows)


def test_two_texts_are_found_by_the_names_of_the_first_line(tmp_path: Path):
    path = write_text(
        tmp_path / "a.jsonl", '{"id": 1, "en": "cat", "de": "Katze"}', '{"de": "H\\u00fcte\\n", "id": 2, "en": "hats"}'
    )
    assert pairs_of(path) == [(1, "cat", "Katze"), (2, "hats", "Hüte\n")]
    found = find_objects(path, (None, None))
    assert (found.named, found.names) == ("The texts of a.jsonl have names", ("en", "de"))


def test_texts_may_be_nested_as_in_hugging_face_datasets(tmp_path: Path):
    path = write_text(tmp_path / "a.jsonl", '{"id": "0", "translation": {"en": "cat", "de": "Katze"}}')
    assert pairs_of(path) == [(1, "cat", "Katze")]
    assert pairs_of(path, ("de", "en")) == [(1, "Katze", "cat")]


def test_translation_may_be_the_name_of_a_text(tmp_path: Path):
    assert pairs_of(write_text(tmp_path / "a.jsonl", '{"text": "cat", "translation": "Katze"}')) == [
        (1, "cat", "Katze")
    ]


def test_texts_asked_for_by_name_are_found_among_several(tmp_path: Path):
    path = write_text(tmp_path / "a.jsonl", '{"a": "x", "b": "y", "c": "z"}')
    assert pairs_of(path, ("c", "a")) == [(1, "z", "x")]
    assert find_objects(path, ("c", "a")).named == ""


def test_empty_lines_and_nulls_are_empty_sides(tmp_path: Path):
    path = write_text(tmp_path / "a.jsonl", '{"a": "x", "b": "y"}', " ", '{"a": null, "b": "y"}')
    assert pairs_of(path) == [(1, "x", "y"), (2, "", ""), (3, "", "y")]


GOOD_OBJECT = '{"a": "x", "b": "y"}'


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([GOOD_OBJECT, '{"a": "x"}'], "each line of a.jsonl must have a text under 'b', but got nothing in line 2."),
        (
            [GOOD_OBJECT, '{"a": 1, "b": "y"}'],
            "each line of a.jsonl must have a text under 'a', but got a number in line 2.",
        ),
        (
            [GOOD_OBJECT, '{"a": "x", "b": ["y"]}'],
            "each line of a.jsonl must have a text under 'b', but got a list in line 2.",
        ),
        (['{"a": "x", "b": 1}'], "each line of a.jsonl must hold two texts, but got 1 in the first."),
        (['{"a": 1}'], "each line of a.jsonl must hold two texts, but got none in the first."),
        ([""], "a.jsonl must hold pairs of texts, but got an empty first line."),
        (
            ['{"a": "x", "b": "y", "c": "z"}'],
            "a.jsonl must have one column of sources and one of targets, such as source and target, "
            "but got 3: a, b, c: "
            "name them with --source-column and --target-column.",
        ),
    ],
)
def test_objects_that_do_not_fit_are_named(tmp_path: Path, lines: list[str], sentence: str):
    assert refusal(pairs_of, write_text(tmp_path / "a.jsonl", *lines)) == sentence


def test_an_empty_file_of_objects_is_refused(tmp_path: Path):
    (tmp_path / "a.jsonl").touch()
    assert refusal(pairs_of, tmp_path / "a.jsonl") == "a.jsonl must hold pairs of texts, but got an empty file."


@pytest.mark.parametrize(
    ("given", "notes"),
    [
        ([("cat", "Katze"), ("hats", "Hüte")], []),
        ([["cat", "Katze"], ["hats", "Hüte"]], []),
        ((["cat", "hats"], ["Katze", "Hüte"]), []),
        (
            [{"translation": {"en": "cat", "de": "Katze"}}, {"translation": {"en": "hats", "de": "Hüte"}}],
            ["The columns of the list in memory have names: 'en' is translated to 'de'."],
        ),
        (
            pd.DataFrame({"target": ["Katze", "Hüte"], "id": [1, 2], "source": ["cat", "hats"]}),
            ["The columns of the DataFrame in memory have names: 'source' is translated to 'target'."],
        ),
    ],
)
def test_pairs_in_memory_are_those_of_a_file(given: Any, notes: list[str]):
    pairs, found = read_pairs(in_memory(given))
    assert (pairs.sources, pairs.targets, found) == (["cat", "hats"], ["Katze", "Hüte"], notes)
    assert pairs.source == f"2 pairs of texts ({in_memory(given).name})"
    back, _ = read_pairs(in_memory(given), reverse=True)
    assert (back.sources, back.targets) == (pairs.targets, pairs.sources)


def test_pairs_in_memory_keep_copies_together_and_tell_what_is_odd():
    data = in_memory([("a", "b"), ("A", "c"), ("", "d"), ("e", "f")] * 2)
    splits = prepare_pairs(PairDataConfig(data=data, test=0.5, validation=0.0), seed=0)
    assert splits.notes == [
        "2 of 8 pairs have an empty side and are left out (first: row 2).",
        "3 of 8 pairs are exact copies of earlier ones (first: row 4).",
        "6 of 6 pairs share their source with another; the same source is always in the same part.",
    ]
    assert not {*map(str.lower, splits.train.sources)} & {*map(str.lower, splits.test.sources)}


def test_texts_without_another_side_are_no_pairs():
    assert refusal(read_pairs, in_memory(["one text", "another"])) == (
        "the list in memory must hold pairs of texts, but got list in memory (x 2 text)."
    )


def test_parts_of_pairs_are_kept_as_they_are():
    given = {"train": [(f"a {i}", f"{i}") for i in range(20)], "test": [("b", "c"), ("b", "d")]}
    splits = prepare_pairs(PairDataConfig(data=in_memory(given, parts=True), reverse=True), 0)
    assert (len(splits.train), len(splits.validation)) == (19, 1)
    assert (splits.test.sources, splits.test.targets) == (["c", "d"], ["b", "b"])
