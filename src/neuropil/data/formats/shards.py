"""JSONL and Parquet, in which large data sets come in many files; and their rows as columns in memory."""

import glob
from pathlib import Path
from typing import Any

from neuropil.data.formats.jsonl import read_objects
from neuropil.data.formats.memory import InMemory, in_memory
from neuropil.data.formats.parquet import SUFFIX as PARQUET
from neuropil.data.formats.parquet import ParquetTable
from neuropil.data.formats.paths import PART_OF_ROWS, require_file, suffix_of
from neuropil.errors import InputError
from neuropil.memory import require_room

JSONL = frozenset((".jsonl", ".ndjson"))


def is_shard(path: Path) -> bool:
    return suffix_of(path) in JSONL or suffix_of(path) == PARQUET


def holds_shards(path: Path) -> bool:
    """Whether it is one, or a folder that has some."""
    return any(is_shard(file) and file.is_file() for file in (path.iterdir() if path.is_dir() else [path]))


def matching(pattern: Path) -> list[Path]:
    """The files of a pattern such as shards/*.jsonl, or the file of this name."""
    if pattern.exists() or not glob.has_magic(str(pattern)):
        return [require_file(pattern)]
    found = sorted(Path(name) for name in glob.glob(str(pattern), recursive=True))
    files = [path for path in found if path.is_file()]
    if not files:
        raise InputError("a pattern must match files", got=f"{pattern.as_posix()!r} without any")
    return files


def read_shards(path: Path) -> InMemory:
    """All columns of all rows, one file after the other, where they fit into memory. What a file lacks is missing."""
    files = sorted(file for file in path.iterdir() if is_shard(file)) if path.is_dir() else [path]
    tables = [ParquetTable(file) if suffix_of(file) == PARQUET else file for file in files]
    sizes = (table.num_bytes if isinstance(table, ParquetTable) else table.stat().st_size for table in tables)
    require_room(path.name, sum(sizes), fix=PART_OF_ROWS)
    rows = list[dict[str, Any]]()
    for table in tables:
        if isinstance(table, ParquetTable):
            rows += table.rows(table.names)
        else:
            rows += [dict(found) for _, found in read_objects(table) if found]
    if not rows:
        raise InputError(f"{path.name} must hold rows", got="none")
    names = dict.fromkeys(name for row in rows for name in row)
    memory = in_memory({name: [row.get(name) for row in rows] for name in names})
    memory.name, memory.article = path.name, ""
    return memory
