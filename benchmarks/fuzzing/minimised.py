"""A case that is as small as it can be made and still shows its fault."""

import tempfile
import time
from pathlib import Path

from benchmarks.fuzzing.outcomes import FAULT
from benchmarks.fuzzing.reader import Reader
from benchmarks.fuzzing.worker import MEMORY_FOLDER, Tried

SECONDS = 20.0


def minimised(reader: Reader, content: bytes, message: str) -> bytes:
    """What killed a process, or took too long or too much, stays as it is."""
    if message.startswith(("killed", "hung", "took")):
        return content
    with tempfile.TemporaryDirectory(dir=MEMORY_FOLDER) as folder:
        tried = Tried(reader, Path(folder))
        wanted = tried(content)
        if wanted.kind != FAULT:
            return content
        end, size = time.monotonic() + SECONDS, max(len(content) // 2, 1)
        while size and time.monotonic() < end:
            place = 0
            while place < len(content) and time.monotonic() < end:
                smaller = content[:place] + content[place + size :]
                if tried(smaller).where == wanted.where:
                    content = smaller
                else:
                    place += size
            size //= 2
    return content
