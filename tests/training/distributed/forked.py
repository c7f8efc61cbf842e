"""Groups of processes for tests, forked from one that has imported everything: a group costs no imports.

Runs by itself as that process: a line of JSON in, `{"check": …, "size": …, "arguments": {…}}`, and a line out for it,
what the function of that name in `sharding_checks` returned in each process of a group of that size.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class ForkedGroups:
    def __init__(self) -> None:
        paths = os.pathsep.join([str(HERE), *sys.path])
        self.server = subprocess.Popen(
            [sys.executable, str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        )

    def run(self, check: str, size: int, **arguments: Any) -> list[Any]:
        """What the function returned in each process."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps({"check": check, "size": size, "arguments": arguments}) + "\n")
        self.server.stdin.flush()
        answers = json.loads(self.server.stdout.readline())
        failed = [answer["error"] for answer in answers if "error" in answer]
        assert not failed, failed[0]
        return [answer["result"] for answer in answers]

    def close(self) -> None:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()


ALSO = ("neuropil.pretrained.unet2d", "torch._dynamo")
"""What the first sharded model imports: each process anew, if not before."""


def _serve() -> None:
    checks = importlib.import_module("sharding_checks")
    for name in ALSO:
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            children = [_fork(checks, request, rank, Path(folder)) for rank in range(request["size"])]
            ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            answers = [_answer(Path(folder) / str(rank), end) for rank, end in enumerate(ends)]
        sys.stdout.write("[" + ", ".join(answers) + "]\n")
        sys.stdout.flush()


def _answer(file: Path, end: int) -> str:
    """A process that died has written none, and others have still to be asked."""
    return file.read_text() if end == 0 else json.dumps({"error": f"a process of the group ended with {end}"})


def _fork(checks: Any, request: dict[str, Any], rank: int, folder: Path) -> int:
    child = os.fork()
    if child:
        return child
    try:
        from torch import distributed

        meeting = f"file://{folder}/store"
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=request["size"])
        answer = {"result": getattr(checks, request["check"])(**request["arguments"])}
    except BaseException:
        answer = {"error": traceback.format_exc()}
    (folder / str(rank)).write_text(json.dumps(answer))
    os._exit(0)


if __name__ == "__main__":
    _serve()
