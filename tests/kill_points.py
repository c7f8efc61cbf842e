"""Processes that die at a chosen moment: before their Nth change to a folder, or when a file reaches so many bytes.

One process imports what is slow to import, and forks a child for each case, which does the real thing. The child is
ended by the kernel: by SIGKILL, or by SIGXFSZ where it writes past RLIMIT_FSIZE, in the middle of a file. Nothing in it
gets to clean up. It can also be left without memory.
"""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

CHANGES = {"os.rename": 1, "os.remove": 0, "os.mkdir": 0, "os.rmdir": 0, "os.truncate": 0, "shutil.rmtree": 0}
"""Audit events of changes, and which of their arguments is the path."""
DEADLY = (signal.SIGKILL, signal.SIGXFSZ)


class Ending(NamedTuple):
    """How a child ended: `changes` are those it made, where it lived to the end."""

    killed: bool
    changes: int
    said: str


class KillPoints:
    """Use as a context."""

    def __init__(self, imports: str):
        self.imports = imports

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, __file__, self.imports], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.communicate()

    def run(
        self, code: str, folder: Path, *, change: int | None = None, size: int | None = None, room: int | None = None
    ) -> Ending:
        """`code` has `folder`; it dies before its change of that number, or when a file would be longer than `size`. It
        may allocate `room` bytes."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"code": code, "folder": str(folder), "change": change, "size": size, "room": room}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return Ending(**json.loads(self.process.stdout.readline()))


def serve(imports: str) -> None:
    exec(imports, {})  # noqa: S102  # of the tests
    for line in sys.stdin:
        sys.stdout.write(json.dumps(fork(json.loads(line))) + "\n")
        sys.stdout.flush()


def fork(request: Mapping[str, Any]) -> dict[str, Any]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        die_or_live(request, write)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) in DEADLY
    changes, _, words = said.partition(" ")
    return {"killed": killed, "changes": int(changes or 0), "said": words}


def die_or_live(request: Mapping[str, Any], pipe: int) -> None:
    folder, changes, words = request["folder"], 0, ""

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal changes
        if event == "open":
            writes = isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            path = arguments[0] if writes else None
        else:
            path = arguments[CHANGES[event]] if event in CHANGES else None
        if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(folder):
            changes += 1
            if changes == request["change"]:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    if request["size"] is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["size"],) * 2)
    if request["room"] is not None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + request["room"],) * 2)
    try:
        exec(request["code"], {"folder": Path(folder)})  # noqa: S102
    except BaseException as error:
        words = f"{type(error).__name__}: {error}"
    os.write(pipe, f"{changes} {words}".encode())
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
