"""The command line: `neuropil COMMAND …`. Words become a recipe, a recipe becomes a run; no logic lives here."""

import shlex
import sys
from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> None:
    """Entry point. Exits with 0, with 2 and one sentence for wrong input, with 130 when interrupted."""
    words = list(sys.argv[1:] if words is None else words)
    from neuropil.cli.commands import run_command
    from neuropil.cli.output import printed_warnings
    from neuropil.errors import NeuropilError

    try:
        with printed_warnings():
            run_command(words)
    except NeuropilError as error:
        print(f"neuropil: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt as interrupt:
        folder = getattr(interrupt, "folder", None)
        way_on = f"; go on with: neuropil resume {shlex.quote(str(folder))}" if folder else ""
        print(f"\nneuropil: {str(interrupt) or 'stopped'}{way_on}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # no right to read, no room to write: the system says it best
        print(
            f"neuropil: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""), file=sys.stderr
        )
        sys.exit(2)
