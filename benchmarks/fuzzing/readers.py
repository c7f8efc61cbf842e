"""Every reader by its name."""

from benchmarks.fuzzing.data_files import DATA_READERS
from benchmarks.fuzzing.model_files import MODEL_READERS
from benchmarks.fuzzing.reader import Reader
from benchmarks.fuzzing.requests import REQUEST_READERS

READERS: dict[str, Reader] = {reader.name: reader for reader in (*DATA_READERS, *MODEL_READERS, *REQUEST_READERS)}
