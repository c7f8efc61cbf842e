import contextlib
import gzip
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from data.written_files import refusal, write_text
from neuropil.data.pairs.dataset import Pairs
from neuropil.data.pairs.files import read_pairs
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
    assert notes == ["The first line of a.tsv is taken for the names of its columns: 'de' is translated to 'en'."]


def test_what_is_odd_is_counted_and_only_empty_sides_are_left_out(tmp_path: Path):
    long = "a" * 2_001
    path = write_text(tmp_path / "a.tsv", "x\ty", "x\t ", "x\ty", f"{long}\ty", "\ty", "", "x\tz", "x\ty", f"y\t{long}")
    pairs, notes = read_pairs([path])
    assert pairs.sources == ["x", "x", long, "x", "x", "y"]
    assert pairs.source == "6 pairs of texts (a.tsv)"
    assert notes == [
        "3 of 9 pairs have an empty side and are left out (first: line 2).",
        "2 of 9 pairs have more than 2,000 characters on a side (first: line 4).",
        "2 of 9 pairs are exact copies of earlier ones (first: line 3).",
    ]


def test_a_single_oddity_is_counted_in_the_singular(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", "x\ty", "x\ty", f"{'a' * 3_000}\tb", "\t")
    assert read_pairs([path])[1] == [
        "1 of 4 pairs has an empty side and is left out (first: line 4).",
        "1 of 4 pairs has more than 2,000 characters on a side (first: line 3).",
        "1 of 4 pairs is an exact copy of an earlier one (first: line 2).",
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
        "two files of pairs must be plain texts, a line each, but got train.tsv and test.tsv.gz: give one file with both sides."
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
    assert refusal(lambda: read_pairs([path], source_column="en", target_column="en")) == (
        "source and target must be different columns, but got 'en' for both."
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
