"""Libraries side by side: each in a process of its own, which does what it is told over a pipe and answers, and peers
whose packages clash with ours in environments of their own."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
ENVIRONMENTS = Path.home() / ".cache" / "neuropil-bench"


def interpreter(
    peer: str,
    packages: Sequence[str],
    *,
    folder: Path = ENVIRONMENTS,
    constrained: bool = True,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Of the peer's own environment in this folder, which is made when it is missing. One whose packages want other
    versions than ours is not constrained by ours."""
    place = folder / peer.lower()
    python, done = place / "bin" / "python", place / "installed"
    if not done.exists():
        print(f"Making an environment for {peer} (once) ...", flush=True)
        venv.create(place, with_pip=True)
        versions = ["-c", str(HERE / "constraints.txt")] if constrained else []
        environment = {**os.environ, **(variables or {})}
        subprocess.run([python, "-m", "pip", "install", "-q", *versions, *packages], check=True, env=environment)
        done.touch()
    return str(python)


def brian() -> str:
    """The interpreter of Brian2's environment: it needs NumPy 1."""
    return interpreter("Brian2", ["brian2==2.9.0", "numpy<2", "setuptools<80"], constrained=False)


class Worker:
    """A process of `module` that does what it is told and answers, a line each. While it is not told anything it is
    stopped, so that no pool of threads which waits for work takes time from those whose turn it is."""

    def __init__(
        self, module: str, library: str, python: str = sys.executable, variables: Mapping[str, str] | None = None
    ):
        paths = [str(HERE), *([str(HERE / "src")] if python == sys.executable else [])]
        self.library = library
        self.process = subprocess.Popen(
            [python, "-m", module, library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(variables or {})},
        )
        self.requests: Any = self.process.stdin
        self.answers: Any = self.process.stdout

    def tell(self, do: str, **request: Any) -> Any:
        self.process.send_signal(signal.SIGCONT)
        try:
            self.requests.write(json.dumps({"do": do, **request}) + "\n")
            self.requests.flush()
            line = self.answers.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise SystemExit(f"The process of {self.library} ended; what it said is above.")
        self.process.send_signal(signal.SIGSTOP)
        return json.loads(line)

    def close(self) -> None:
        self.process.kill()  # what is stopped does not hear a request to end
        self.process.wait()


def answer_requests(make: Callable[[], object]) -> None:
    """The other end of the pipe: methods of what is made, by name, until there is no more to do."""
    if sys.platform == "linux":
        # PR_SET_PDEATHSIG: what is stopped would outlive the one who can wake it.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints, be it from C++, is no answer
    worker = make()
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(worker, request.pop("do"))(**request)
        print(json.dumps(answer), file=answers, flush=True)
