"""What a page may send at most, where a number's bounds do not say it."""

from collections.abc import Sized

from neuropil.errors import InputError


def require_length(name: str, value: Sized, most: int, *, fewest: int = 0) -> None:
    """Of a text in characters, of a list in entries."""
    unit = "characters" if isinstance(value, str) else "entries"
    if len(value) > most:
        raise InputError(f"{name} must have at most {most:,} {unit}", got=f"{len(value):,}")
    if len(value) < fewest:
        raise InputError(f"{name} must have at least {fewest:,} {unit}", got=f"{len(value):,}")
