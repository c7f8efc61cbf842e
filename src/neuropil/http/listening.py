"""The port to listen at."""

import errno
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
        except (OSError, OverflowError, UnicodeError) as error:
            listening.close()
            wrong = error
            continue
        return listening
    ports = f"ports {first} to {first + PORTS_TO_TRY - 1}, which are" if port is None else f"port {port}, which is"
    fix = "give a free one with --port" if port is None else "choose another with --port, or leave --port out"
    raise _refusal(what, host, ports, fix, wrong)


def _refusal(what: str, host: str, ports: str, fix: str, wrong: Exception | None) -> InputError:
    """In plain words for what happens every day, else in those of the system."""
    number = wrong.errno if isinstance(wrong, OSError) else None
    if number == errno.EADDRINUSE:
        return InputError(f"{what} needs a free port", got=f"{ports} in use", fix=fix)
    if number == errno.EACCES:
        return InputError(f"{what} needs a port that it may listen at", got=f"{ports} kept for the system", fix=fix)
    if number == errno.EADDRNOTAVAIL or isinstance(wrong, socket.gaierror | UnicodeError):
        fix = "leave --host out, or give 0.0.0.0 for all addresses"
        return InputError(f"{what} needs an address of this machine to listen at", got=f"--host {host}", fix=fix)
    said = wrong.strerror if isinstance(wrong, OSError) else wrong
    return InputError(f"{what} needs a port that it may listen at", got=f"{ports} not to be had ({said})", fix=fix)


def address_of(listening: socket.socket, host: str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
