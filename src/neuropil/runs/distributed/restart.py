"""Elastic restart: when a process is lost, torchrun starts all of them again with the same command, which then goes on
with the run that it had begun."""

import os
from contextlib import suppress
from pathlib import Path

from neuropil.errors import RunError
from neuropil.runs.run import Run
from neuropil.runs.settings import read_settings
from neuropil.training.distributed.processes import is_restart, launch_of


def begun_before(command: str, out: str | Path | None) -> str | None:
    """The folder of the run that this launch of torchrun began with this command: in `out`, or under runs/. One that is
    finished is begun anew, unless torchrun itself has started the command again."""
    launch = launch_of(os.environ)
    if launch is None:
        return None
    for config in [Path(out) / "config.json"] if out is not None else sorted(Path("runs").glob("*/config.json")):
        with suppress(RunError, OSError):  # what is there is no run of ours
            settings = read_settings(config.parent)
            same = settings.get("launch") == [launch, command]
            if same and (is_restart(os.environ) or not Run(config.parent, settings).finished):
                return str(config.parent)
    return None
