"""Cases that were found once, tried again within the bounds of their readers: `python -m benchmarks.fuzzing.kept`.

Each is in tests/fuzzing/found/READER/, as small as it could be made.
"""

import hashlib
from pathlib import Path

import torch

from benchmarks.fuzzing.readers import READERS
from benchmarks.fuzzing.worker import replay

FOUND = Path(__file__).parents[2] / "tests" / "fuzzing" / "found"


def keep(name: str, content: bytes) -> None:
    folder = FOUND / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha256(content).hexdigest()[:12]).write_bytes(content)


def kept(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((FOUND / name).glob("*"))]


def main() -> None:
    torch.set_num_threads(1)
    faults = 0
    for folder in sorted(FOUND.iterdir()):
        result = replay(READERS[folder.name], kept(folder.name))
        faults += len(result.faults)
        print(f"{folder.name}: {result.cases}", flush=True)
        for content, message in result.faults.values():
            print(f"    {hashlib.sha256(content).hexdigest()[:12]}: {message[:300]}", flush=True)
    if faults:
        raise SystemExit(f"{faults} faults")


if __name__ == "__main__":
    main()
