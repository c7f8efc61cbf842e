"""The port to listen at."""

import socket

from neuropil.errors import InputError

PORTS_TO_TRY = 20


def bind(host: str, port: int | None, *, first: int, what: str) -> socket.socket:
    """The port that was asked for, or the first free one of a few."""
    wrong: Exception | None = None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in range(first, first + PORTS_TO_TRY) if port is None else (port,):
        listening = socket.socket(family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            listening.listen(128)  # whoever comes before the server is up waits, and is not refused
        except (OSError, OverflowError) as error:
            listening.close()
            wrong = error
            continue
        return listening
    fix = "choose another with --port, or leave --port out" if port is not None else "give a free one with --port"
    raise InputError(f"{what} needs a port that it may listen at", got=f"{host} {port or first} ({wrong})", fix=fix)


def address_of(listening: socket.socket, host: str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
