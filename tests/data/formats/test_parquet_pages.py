"""What the pages of Parquet files say of themselves, beside what pyarrow says of the same file."""

from pathlib import Path

import pytest

from neuropil.data.formats.parquet_pages import Page, ParquetBytes, damaged, pages_in
from neuropil.errors import InputError


def test_all_pages_of_a_column_are_found_whatever_stands_in_their_headers(tmp_path: Path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = [
        f"{number % 500} {'a long text, which is in the statistics of its page too ' * 4}" for number in range(20_000)
    ]
    path = tmp_path / "texts.parquet"
    parquet.write_table(arrow.table({"text": texts}), path, data_page_size=4_096, write_statistics=True)
    column = parquet.ParquetFile(path).metadata.row_group(0).column(0)
    first = column.dictionary_page_offset
    pages = [*pages_in(path.read_bytes()[first : first + column.total_compressed_size])]
    assert pages[0].values == 500
    assert len(pages) > 2
    headers = column.total_uncompressed_size - sum(page.unpacked for page in pages)
    assert 0 < headers < 1_000 * len(pages)


def test_more_texts_of_a_dictionary_than_it_has_bytes_are_refused_before_memory_is_asked_for(tmp_path: Path):
    path = tmp_path / "texts.parquet"
    path.write_bytes(b"PAR1")
    with ParquetBytes(path) as content:
        content._judge([Page(unpacked=10, values=10)])
        with pytest.raises(InputError) as refusal:
            content._judge([Page(unpacked=10, values=11)])
    assert str(refusal.value) == str(damaged(path))
