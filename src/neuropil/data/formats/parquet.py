"""Parquet files, a batch of rows at a time: how large the file is does not matter. They need the package pyarrow."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neuropil.data.formats.parquet_pages import ParquetBytes, damaged
from neuropil.data.formats.paths import require_file
from neuropil.errors import InputError, written
from neuropil.extras import require_extra
from neuropil.memory import available_memory

ROWS_AT_ONCE = 1_024
SUFFIX = ".parquet"


class ParquetTable:
    """What its columns are called, what they hold, and their rows."""

    def __init__(self, path: Path):
        self.path = require_file(path)
        if path.name.lower().endswith(".gz"):
            rule, fix = "a Parquet file is compressed inside", f"unpack it, as in gunzip {path.name}"
            raise InputError(rule, got=path.name, fix=fix)
        with self._opened() as file:
            fields = list(file.schema_arrow)
            self.names = [field.name for field in fields]
            self.num_rows = int(file.metadata.num_rows)
            self.types = {field.name: str(field.type) for field in fields}

    @property
    def text_columns(self) -> list[str]:
        """Those of a dictionary of texts too, as pandas writes a category."""
        values = {name: kind.removeprefix("dictionary<values=").partition(",")[0] for name, kind in self.types.items()}
        return [name for name in self.names if values[name].removeprefix("large_") in ("string", "string_view")]

    @property
    def num_bytes(self) -> int:
        """Of all columns, unpacked: what a file says of one of them ends the process where it is damaged."""
        with self._opened() as file:
            groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
            return sum(group.total_byte_size for group in groups)

    def rows(self, columns: list[str]) -> Iterator[dict[str, Any]]:
        with self._opened() as file:
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=columns, use_threads=False):
                yield from batch.to_pylist()

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        require_extra("parquet", f"{self.path.name}, a Parquet file,")
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        try:
            # What is buffered beforehand would be a whole group of rows.
            with ParquetBytes(self.path) as content, ParquetFile(content, pre_buffer=False) as file:
                content.pages = True
                yield file
        except MemoryError as cause:
            got = f"more than the {written(available_memory())} that are free"
            fix = "write the file with smaller groups of rows"
            raise InputError(
                f"each group of rows of {self.path.name} must fit into memory", got=got, fix=fix
            ) from cause
        except (ArrowException, OSError, UnicodeDecodeError) as cause:
            raise damaged(self.path) from cause
