"""Files that are whole or not there: written beside their name, flushed to disk, then renamed. Folders in which one
process at a time works. What the disk refuses is said in a sentence."""

import errno
import os
import socket
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from neuropil.errors import RunError, StorageError, StorageWarning, written

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_RIGHT = {
    errno.EROFS: "a file system that is read-only",
    errno.EACCES: "no right to write there",
    errno.EPERM: "no right to write there",
}
LOCK = ".lock"


@contextmanager
def replacing(path: Path, needed: int | None = None) -> Iterator[Path]:
    """Yield a temporary path to write to; on leaving without an error it takes the place of `path` at once. `needed`
    are its bytes, where they are known beforehand."""
    part = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        part = Path(name)
        yield part
        sync(part)
        part.chmod(0o666 & ~_umask())
        part.replace(path)
        with suppress(OSError):  # not every file system has it for folders
            sync(path.parent)
    except OSError as error:
        if part is not None:
            part.unlink(missing_ok=True)  # before it is measured what is free
        _refuse(path, error, needed)
        raise
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def remove_parts(folder: Path) -> None:
    """What was being written below the folder when a process was killed."""
    for part in folder.rglob(".*.????????.part"):
        part.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Of the user, for what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neuropil"


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """One process at a time, of those that name the same file; others wait. A process that ends, in whatever way, lets
    go of it."""
    import fcntl  # which Windows has not

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_part(path: Path) -> bool:
    return path.match(".*.????????.part")


def write_text(path: Path, text: str) -> None:
    content = text.encode("utf-8")
    with replacing(path, len(content)) as part:
        part.write_bytes(content)


def append_text(path: Path, text: str) -> None:
    """At the end of a file whose readers pass over half a line."""
    content = text.encode("utf-8")
    with storing(path, len(content)), path.open("ab") as file:
        file.write(content)


def make_folder(folder: Path, *, new: bool = False) -> None:
    """With those above it. A `new` one must not be there yet."""
    try:
        with storing(folder):
            folder.mkdir(parents=True, exist_ok=not new)
    except (StorageError, FileExistsError):
        raise
    except OSError as error:  # such as below a file, or where the system shows files that are none
        rule, got = "a folder must be where one can be made", f"{str(folder)!r} ({error.strerror})"
        raise StorageError(rule, got=got, fix="choose another") from error


def sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk as it is now."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def require_writable(folder: Path) -> None:
    """Before anything is computed that would be written there; the folder may be new."""
    there = _existing(folder)
    effective = os.access in os.supports_effective_ids
    if there.is_dir() and not os.access(there, os.W_OK | os.X_OK, effective_ids=effective):
        read_only = os.statvfs(there).f_flag & os.ST_RDONLY
        raise _no_right(folder, NO_RIGHT[errno.EROFS if read_only else errno.EACCES])


@contextmanager
def storing(path: Path, needed: int | None = None) -> Iterator[None]:
    """Around what writes `path` by itself: what the disk refuses becomes a sentence."""
    try:
        yield
    except OSError as error:
        _refuse(path, error, needed)
        raise


def _refuse(path: Path, error: OSError, needed: int | None = None) -> None:
    """Raise the sentence for what the disk said, if it was the disk."""
    short = error.errno is None and "requested and" in str(error)  # NumPy counts what was written, and says no more
    if error.errno in NO_ROOM or short:
        disk = os.statvfs(_existing(path.parent))
        got = f"{written(disk.f_bavail * disk.f_frsize)} free"
        got += f" of {written(needed)} needed" if needed is not None else ""
        got += ", in as many files as it can hold" if disk.f_files and not disk.f_favail else ""
        rule = f"{path.parent} must have room for {path.name}"
        raise StorageError(rule, got=got, fix="make room on that disk") from error
    if error.errno == errno.EIO:
        got = f"an error of the disk ({error.strerror})"
        raise StorageError(f"{path} must be written", got=got, fix="choose another disk") from error
    where = path.absolute() if error.filename is None else Path(os.fsdecode(error.filename)).absolute()
    if error.errno in NO_RIGHT and where.is_relative_to(_existing(path.parent)):
        raise _no_right(path.parent, NO_RIGHT[error.errno]) from error


def _no_right(folder: Path, got: str) -> StorageError:
    return StorageError(f"{folder} must be writable", got=got, fix="choose another folder, or change its rights")


def _existing(folder: Path) -> Path:
    """The folder or the nearest above it that is there, and that this user may know of."""
    folders = folder.absolute(), *folder.absolute().parents
    return next(each for each in folders if os.path.exists(each))  # Path.exists raises where there is no right to look


def _umask() -> int:
    """mkstemp makes files that only the owner may read; a report should have the rights of any other new file."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


# --- one process at a time --------------------------------------------------------------------------------------------


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A folder in which no other process works. The system forgets the lock when the process ends, however it does. Of
    the processes that torchrun starts for one run the first has it."""
    if "WORLD_SIZE" in os.environ and os.environ.get("RANK", "0") != "0":  # without both it is a process of its own
        yield
        return
    path = folder / LOCK
    file = _held(path)
    try:
        yield
    finally:
        if file is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)  # while it is held: whoever waits for this file takes a new one
            file.close()


def is_locked(folder: Path) -> bool:
    """Whether a process works in the folder now; where the file system knows no locks, none is seen to."""
    with suppress(OSError, ImportError), (folder / LOCK).open() as file:
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def require_unlocked(folder: Path) -> None:
    """Before a folder is moved."""
    if (folder / LOCK).exists():
        with locked(folder):
            pass


def _held(path: Path) -> IO[str] | None:
    """The file that is locked for as long as it is open; none where the file system knows no locks."""
    while True:
        with storing(path):
            file = path.open("a+", encoding="utf-8")
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(file, path.parent) from None
        except (ImportError, OSError) as error:  # Windows, NFS without its lock service
            file.close()
            path.unlink(missing_ok=True)
            words = f"{path.parent} is on a file system without locks ({error}): start no second process on it"
            warnings.warn(words, StorageWarning, stacklevel=4)
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                break
        file.close()  # it was released and removed between the two
    with suppress(OSError):  # no room for a name
        file.truncate(0)
        file.write(f"{os.getpid()} {socket.gethostname()}\n")
        file.flush()
    return file


def _in_use(file: IO[str], folder: Path) -> RunError:
    with file:
        file.seek(0)
        number, _, host = file.read().strip().partition(" ")
    where = f" on {host}" if host and host != socket.gethostname() else ""
    got = f"process {number}{where}, which works on it" if number else "one that works on it"
    return RunError(f"one process at a time works on {folder}", got=got, fix="wait until it ends, or stop it")
