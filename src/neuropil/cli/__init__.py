"""The command line: `neuropil COMMAND …`. Words become a recipe, a recipe becomes a run; no logic lives here."""

import atexit
import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

IMPORTED, RARELY = 300_000, (10_000, 10, 50)
"""When Python looks for cycles of objects that nothing else holds: as often as `RARELY` says, but not before there are
about as many objects as modules make while they are imported, among which there is nothing to be found."""


def main(words: Sequence[str] | None = None) -> None:
    """Entry point. Exits with 0, with 2 and one sentence for wrong input, with 130 when interrupted."""
    is_ours = words is None  # the process
    if is_ours:
        collect_after_imports()
    words = list(sys.argv[1:] if words is None else words)
    from neuropil.cli.commands import run_command
    from neuropil.cli.output import heard_once, printed_warnings
    from neuropil.errors import NeuropilError

    try:
        with heard_once(), printed_warnings():
            run_command(words)
    except NeuropilError as error:
        _end(f"neuropil: {error}", error.exit_code)
    except KeyboardInterrupt as interrupt:
        if is_ours:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # one more Ctrl-C would end it by a signal instead of with 130
        from neuropil.training.distributed.processes import resume_command
        from neuropil.training.interruption import Interrupted

        folder = getattr(interrupt, "folder", None)
        way_on = f"; go on with: {resume_command(folder, os.environ)}" if folder else ""
        together = isinstance(interrupt, Interrupted)
        _end(f"\nneuropil: {str(interrupt) or 'stopped'}{way_on}", 130, together=together)
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        sys.stderr.close()
        sys.exit(0)
    except (MemoryError, RuntimeError) as error:
        from neuropil.memory import memory_error

        if (refused := memory_error(error)) is None:
            raise
        print(f"neuropil: {refused}", file=sys.stderr)
        sys.exit(refused.exit_code)
    except OSError as error:  # no right to read, no room to write: the system says it best
        _end(f"neuropil: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""), 2)


def collect_after_imports() -> None:
    """What is there by then is never looked through, nor is what is there when the process ends."""

    def settle(*_: Any) -> None:  # before the first search
        gc.callbacks.remove(settle)
        gc.freeze()
        gc.set_threshold(*RARELY)

    gc.set_threshold(IMPORTED)
    gc.callbacks.append(settle)
    atexit.register(gc.freeze)


def _end(sentence: str, exit_code: int, *, together: bool = False) -> NoReturn:
    """Of processes that train together the first to end says why, and all end with its exit code."""
    from neuropil.training.distributed.processes import first_to_end

    speaks, exit_code = first_to_end(exit_code, together=together)
    if speaks:
        print(sentence, file=sys.stderr)
    sys.exit(exit_code)
