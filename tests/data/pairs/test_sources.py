from pathlib import Path
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from data.written_files import refusal, write_text
from neuropil.data.pairs.dataset import Pairs, PairSplits
from neuropil.data.pairs.sources import TEST, TRAIN, VALIDATION, PairDataConfig, assign_parts, prepare_pairs


def parts_of(path: Path, seed: int = 0, **options: Any) -> PairSplits:
    return prepare_pairs(PairDataConfig(data=(path,), **options), seed)


def sizes(splits: PairSplits) -> tuple[int, int, int]:
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
    size = torch.tensor(counts)
    part = assign_parts(size, validation, test, seed)
    pairs = {name: int(size[part == name].sum()) for name in (TRAIN, VALIDATION, TEST)}
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
