from pathlib import Path

import pytest

from neuropil.data.formats.paths import suffix_of


@pytest.mark.parametrize(
    ("name", "suffix"), [("a.tsv", ".tsv"), ("A.CSV.gz", ".csv"), ("a.b.conll", ".conll"), ("a", "")]
)
def test_gzip_does_not_hide_what_a_file_is(name: str, suffix: str):
    assert suffix_of(Path(name)) == suffix
