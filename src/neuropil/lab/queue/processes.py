"""Runs as processes of their own, which outlive the lab that started them and are known again by the next one."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from neuropil.progress import PROGRESS

PROC = Path("/proc")


def spawn(words: Sequence[str], *, log: Path, progress: Path) -> int:
    """Its number. In a session of its own: neither Ctrl-C in the lab's terminal nor the end of the lab reaches it. It
    hears `interrupt`, also where the lab itself was started to ignore one."""
    environment = {**os.environ, PROGRESS: str(progress), "PYTHONUNBUFFERED": "1"}
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    heard = [signal.SIGINT, signal.SIGTERM]
    return os.posix_spawn(words[0], list(words), environment, file_actions=actions, setsid=True, setsigdef=heard)


def exit_code(pid: int) -> int | None:
    """Of a process that this one spawned, once: the negative number of a signal that ended it; None while it is
    alive."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def began(pid: int) -> str | None:
    """When a process began, by the system's own count: with its number it names a process for ever. None where there is
    none, or nothing of it but an exit code that nobody asked for."""
    if (PROC / "self" / "stat").exists():
        try:
            # "4711 (name) S 1 …": the name may hold spaces and brackets
            fields = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    found = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True)  # noqa: S603, S607
    state, _, started = found.stdout.strip().partition(" ")
    return started.strip() or None if state and not state.startswith("Z") else None


def interrupt(pid: int) -> None:
    """As Ctrl-C does: the training loop writes its checkpoint."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGINT)


def kill(pid: int) -> None:
    """With all that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
