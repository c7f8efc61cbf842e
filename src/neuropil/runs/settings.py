"""What a run folder says of itself in `config.json`, and that of a search in `study.json`: read without PyTorch,
and refused with a sentence if neuropil did not write it."""

import json
import shlex
from pathlib import Path
from typing import Any

from neuropil.errors import RunError

FORMAT = 2
SETTINGS = {"command": str, "facts": dict, "options": dict, "recipe": str, "seed": int}
"""What every `config.json` holds of ours, and of which type."""
STUDY, STUDY_FORMAT = "study.json", 1
STUDIED = ("recipe", "options", "space", "given", "seed", "command", "metric")


def read_settings(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))["neuropil"]
        written = int(settings["format"])
        missing = [name for name, kind in SETTINGS.items() if not isinstance(settings.get(name), kind)]
        command = settings.get("command", "neuropil train")
        words = shlex.split(command) if command.startswith("neuropil ") else []  # a call of Python has none
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise RunError(
            f"{path} must be the JSON that neuropil wrote",
            got=f"a damaged file ({error})",
            fix="train again or restore it",
        ) from error
    if missing and written == FORMAT:
        got = f"one without a valid {', '.join(missing)}"
        raise RunError(f"{path} must be the JSON that neuropil wrote", got=got, fix="train again or restore it")
    if words[-2:-1] == ["--out"]:  # which was kept once, and would name the folder that is there
        command = shlex.join(words[:-2])
    if written != FORMAT:
        fix = "upgrade neuropil" if written > FORMAT else f"train again with `{command}`"
        raise RunError(f"{folder} must be a run of format {FORMAT}", got=f"format {written}", fix=fix)
    return settings | {"command": command}


def read_study(folder: Path) -> dict[str, Any]:
    path = folder / STUDY
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        written = int(settings["format"])
        for name in STUDIED:
            _ = settings[name]
    except (OSError, ValueError, KeyError, TypeError) as error:
        got = f"a damaged file ({error})"
        raise RunError(f"{path} must be the JSON that neuropil wrote", got=got, fix="tune anew") from error
    if written != STUDY_FORMAT:
        raise RunError(f"{folder} must be a search of format {STUDY_FORMAT}", got=f"format {written}", fix="tune anew")
    return settings
