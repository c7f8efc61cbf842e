"""Byte-level tokens: each byte is written as a letter that can be seen."""

import codecs
from collections.abc import Sequence
from functools import cache

TO_BE_CONTINUED = "…"


@cache
def byte_of_letter() -> dict[str, int]:
    """Byte-level BPE writes each byte as a letter: itself if visible in Latin-1, otherwise the next from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(0x100 + place): byte for place, byte in enumerate(hidden)}


def bytes_of(token: str) -> bytes:
    return bytes(map(byte_of_letter().__getitem__, token))


def byte_labels(tokens: Sequence[bytes | str]) -> list[str]:
    """A label for each token of bytes; texts are labels already. A character of several tokens stands at the last."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    labels = [token if isinstance(token, str) else decoder.decode(token) or TO_BE_CONTINUED for token in tokens]
    if rest := decoder.decode(b"", final=True):
        last = max(place for place, token in enumerate(tokens) if isinstance(token, bytes))
        labels[last] = labels[last].removesuffix(TO_BE_CONTINUED) + rest
    return labels
