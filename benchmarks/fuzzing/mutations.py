"""Changes of a file: of any bytes, and of those that keep its structure, so that a change gets past the checksums,
lengths and directories that would give it away."""

import gzip
import io
import json
import random
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

Random: TypeAlias = random.Random
Mutation: TypeAlias = Callable[[Random, bytes], bytes]

LONGEST = 1 << 16
"""Bytes of a case: what grows beyond is cut."""
NUMBERS = (0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 1_000, 32_767, 65_535, 65_536, 2**24, 2**31 - 1, 2**31, 2**32 - 1)
HUGE = (2**33, 2**40, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
TEXT_NUMBERS = (
    *map(str, (*NUMBERS, *HUGE)),
    *("-1", "-0", "-2147483649", "1e9", "1e38", "1e39", "1e308", "1e400", "-1e400", "0.1", "1e-400", "nan", "inf"),
    *("-inf", "NaN", "Infinity", "00", "1_000", "0x10", "9" * 30, "9" * 5_000, "1,5", "1.000,5", "true", "٣", "½"),
)
SIGNS = (*("\0", "\r", "\n", "\r\n", "\t", '"', "'", "\\", ",", ";", "|", "\ufeff", "\u2028", "\x1c", "\x85", "😀"),)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 0.5, -0.5, 1e308, float("inf"), float("nan"), 2**31, 2**40, 2**63, 10**400),
    *("", "a", "\0", "\ud800", "../x", "/etc/passwd", "gelu", "9" * 40, [], {}, [[]], [1], [None], {"": None}, "null"),
)
"""What may stand in JSON, or what Python reads as such."""
DEEP = "deep brackets"


def any_bytes(random: Random, data: bytes) -> bytes:
    """One to four small changes anywhere."""
    content = bytearray(data)
    for _ in range(1 + int(random.random() ** 3 * 4)):
        BYTE_CHANGES[int(random.random() * len(BYTE_CHANGES))](random, content)
    return bytes(content[:LONGEST])


def _place(random: Random, content: bytearray, length: int = 1) -> int:
    """Half of all changes are near the beginning, where headers are."""
    last = max(len(content) - length + 1, 1)
    return int(random.random() * (min(last, 32) if random.random() < 0.5 else last))


def _flip(random: Random, content: bytearray) -> None:
    if content:
        content[_place(random, content)] ^= 1 << int(random.random() * 8)


def _set(random: Random, content: bytearray) -> None:
    if content:
        content[_place(random, content)] = int(random.random() * 256)


def _number(random: Random, content: bytearray) -> None:
    length, sign = random.choice(((1, "B"), (2, "H"), (4, "I"), (4, "I"), (8, "Q")))
    if len(content) >= length:
        number = random.choice((*NUMBERS, *HUGE, len(content), len(content) * 8)) % (1 << (8 * length))
        packed = struct.pack(("<" if random.random() < 0.5 else ">") + sign, number)
        place = _place(random, content, length)
        content[place : place + length] = packed


def _remove(random: Random, content: bytearray) -> None:
    place = _place(random, content)
    del content[place : place + 1 + int(random.random() ** 4 * len(content))]


def _cut(random: Random, content: bytearray) -> None:
    del content[int(random.random() * (len(content) + 1)) :]


def _repeat(random: Random, content: bytearray) -> None:
    place = _place(random, content)
    piece = content[place : place + 1 + int(random.random() ** 2 * 64)]
    content[place:place] = piece * (1 + int(random.random() ** 4 * 40))


def _insert(random: Random, content: bytearray) -> None:
    place = _place(random, content)
    content[place:place] = random.randbytes(1 + int(random.random() ** 3 * 16))


def _text_number(random: Random, content: bytearray) -> None:
    """One of the numbers that stand in the file as text."""
    start = _place(random, content)
    if found := re.compile(rb"[+-]?\d[\d.eE+-]*").search(content, start, start + 4_096):
        content[found.start() : found.end()] = random.choice(TEXT_NUMBERS).encode()


BYTE_CHANGES = (_flip, _set, _number, _remove, _cut, _repeat, _insert, _text_number)


# --- text -------------------------------------------------------------------------------------------------------------


def any_text(random: Random, data: bytes) -> bytes:
    """Numbers, words and signs between them; now and then bytes that are no text, or another encoding."""
    if random.random() < 0.2:
        return any_bytes(random, data)
    pieces = re.split(r"(\s+|[^\w.+-])", data.decode("utf-8", "replace"))
    for _ in range(1 + int(random.random() ** 3 * 4)):
        place, kind = int(random.random() * len(pieces)), random.random()
        if kind < 0.3:
            pieces[place] = random.choice(TEXT_NUMBERS)
        elif kind < 0.5:
            pieces[place] = random.choice(SIGNS)
        elif kind < 0.65:
            pieces[place] = ""
        elif kind < 0.8:
            pieces[place] = random.choice(pieces)
        elif kind < 0.9:
            pieces.insert(place, random.choice(SIGNS))
        else:
            pieces[place] = pieces[place] * int(1 + random.random() ** 4 * 300)
    text, kind = "".join(pieces), random.random()
    encoding = "utf-16" if kind < 0.01 else "latin-1" if kind < 0.03 else "utf-8"
    return text.encode(encoding, "replace")[:LONGEST]


def any_json(random: Random, data: bytes) -> bytes:
    """Values of a tree of JSON; one in five is changed as text is."""
    if random.random() < 0.2:
        return any_text(random, data)
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return any_text(random, data)
    for _ in range(1 + int(random.random() ** 3 * 3)):
        tree = _changed(random, tree)
    text = json.dumps(tree, ensure_ascii=random.random() < 0.5)
    deep = int(random.random() * 3_000)  # brackets in brackets, deeper than Python would write them
    text = text.replace(f'"{DEEP}"', "[" * deep + "]" * deep)
    return text.encode("utf-8", "surrogatepass")[:LONGEST]


def _changed(random: Random, tree: Any) -> Any:
    """One value, at any depth."""
    if not isinstance(tree, dict | list) or not tree or random.random() < 0.1:
        return _other(random, tree)
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    key, kind = keys[int(random.random() * len(keys))], random.random()
    if kind < 0.08:
        del tree[key]
    elif kind < 0.14 and isinstance(tree, dict):
        tree[str(random.choice(VALUES))] = tree.pop(key)
    elif kind < 0.2 and isinstance(tree, list):
        tree.extend(deepcopy(tree[key]) for _ in range(1 + int(random.random() ** 4 * 100)))
    else:
        tree[key] = _changed(random, tree[key])
    return tree


def _other(random: Random, value: Any) -> Any:
    kind = random.random()
    if kind < 0.02:
        return DEEP
    if kind < 0.5 and isinstance(value, int | float) and not isinstance(value, bool):
        return random.choice((*NUMBERS, *HUGE, -value, value + 1, value - 1, value * 2, str(value)[:50]))
    if kind < 0.4 and isinstance(value, str):
        return random.choice((value * 2, value[:-1], value.upper(), f"../{value}", value + "\0", value + "\ud800"))
    return deepcopy(random.choice(VALUES))


# --- files within files -----------------------------------------------------------------------------------------------


def packed(inner: Mutation) -> Mutation:
    """Of a gzip file now and then the packed bytes, else what is in it; of a plain file one is made now and then."""

    def mutation(random: Random, data: bytes) -> bytes:
        if data[:2] != b"\x1f\x8b":
            changed = inner(random, data)
            return gzip.compress(changed, 1, mtime=0) if random.random() < 0.02 else changed
        try:
            content = zlib.decompressobj(31).decompress(data, LONGEST)
        except zlib.error:
            content = None
        if content is None or random.random() < 0.5:
            return any_bytes(random, data)
        return gzip.compress(inner(random, content), 1, mtime=0)

    return mutation


ZIP_NAMES = ("../x", "/x", "C:\\x", "a/../../x", "x.npy", "y.npy", "", ".", "x" * 300, "a\0b", "\\\\host\\x", "x/")


def in_zip(inner: Mutation) -> Mutation:
    """A member, its name or how it is packed, with checksums and directory made anew; or any bytes of the archive."""

    def mutation(random: Random, data: bytes) -> bytes:
        members = _members(data) if random.random() < 0.7 else None
        if not members:
            return any_bytes(random, data)
        place, kind = int(random.random() * len(members)), random.random()
        name, content = members[place]
        if kind < 0.6:
            members[place] = name, inner(random, content)
        elif kind < 0.7:
            members[place] = random.choice((*ZIP_NAMES, f"{name}/", name.upper(), f"../{name}")), content
        elif kind < 0.8:
            members.append((name, content))
        elif kind < 0.9:
            del members[place]
        else:
            members[place] = name, content[:200] * (1 + int(random.random() ** 3 * 1_000))
        written = _zipped(random, members)
        return _directory(random, written) if random.random() < 0.3 else written

    return mutation


def _members(data: bytes) -> list[tuple[str, bytes]] | None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            if sum(info.file_size for info in infos) > 4 * LONGEST:
                return None
            return [(info.filename, archive.read(info)) for info in infos]
    except Exception:  # whatever the archive was changed to
        return None


def _zipped(random: Random, members: Sequence[tuple[str, bytes]]) -> bytes:
    file, kind = io.BytesIO(), random.random()
    method = zipfile.ZIP_LZMA if kind < 0.03 else zipfile.ZIP_DEFLATED if kind < 0.4 else zipfile.ZIP_STORED
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method, compresslevel=1) as archive:
        warnings.simplefilter("ignore")  # two members may have one name
        for name, content in members:
            info = zipfile.ZipInfo(name or "x")
            info.compress_type = method
            if random.random() < 0.03:
                info.external_attr = 0o120777 << 16  # a symbolic link
            archive.writestr(info, content)
    return file.getvalue()


def _directory(random: Random, data: bytes) -> bytes:
    """A number in one of the records of the directory: sizes, places, counts, flags, methods."""
    content = bytearray(data)
    signs = [found.start() for found in re.finditer(rb"PK(\x01\x02|\x03\x04|\x05\x06)", data)]
    if signs:
        place = random.choice(signs) + 4 + int(random.random() * 42)
        length, sign = random.choice(((2, "<H"), (4, "<I")))
        if place + length <= len(content):
            content[place : place + length] = struct.pack(sign, random.choice(NUMBERS) % (1 << (8 * length)))
    return bytes(content)


DTYPES = (
    *("<f8", ">f4", "|u1", "<i8", "|b1", "<f2", "<c16", "<U3", "|S5", "|O", "<M8[ns]", "|V8", "<f16", "<U999999999"),
    *("|S0", "<U0", "|V0", "x", "", "[('a', '<f8'), ('b', '|O')]"),
)
SHAPES = (
    *("()", "(0,)", "(1,)", "(6,)", "(-1,)", "(6, 0)", "(99999999999,)", "(4294967296, 4294967296)", "(2147483648,)"),
    *("(0, 99999999999999)", "(1, 1, 1, 1, 1, 6)", f"({'1, ' * 70})", "(True,)", "(1.5,)", "None", "6", "(6, 4, 1)"),
)


def npy(random: Random, data: bytes) -> bytes:
    """The header of one array, with its length made anew, or any of its bytes."""
    if random.random() < 0.4 or data[:6] != b"\x93NUMPY" or len(data) < 10:
        return any_bytes(random, data)
    start = 10 + struct.unpack("<H", data[8:10])[0]
    header, values = data[10:start].decode("latin-1"), data[start:]
    if random.random() < 0.4:
        header = re.sub(r"'descr': [^,]*,", lambda _: f"'descr': {random.choice(DTYPES)!r},", header)
    if random.random() < 0.6:
        header = re.sub(r"'shape': \([^)]*\)", lambda _: f"'shape': {random.choice(SHAPES)}", header)
    if random.random() < 0.2:
        header = any_text(random, header.encode())[:60_000].decode("latin-1")
    if random.random() < 0.1:
        header = header.replace("False", "True")
    encoded = header.encode("latin-1")
    return data[:8] + struct.pack("<H", len(encoded) & 0xFFFF) + encoded + values


def safetensors(random: Random, data: bytes) -> bytes:
    """The header, with its length made anew, or any bytes."""
    if random.random() < 0.3 or len(data) < 8:
        return any_bytes(random, data)
    length = min(struct.unpack("<Q", data[:8])[0], len(data) - 8)
    header = any_json(random, data[8 : 8 + length])
    if random.random() < 0.5:
        header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def picture(random: Random, data: bytes) -> bytes:
    """A chunk of a PNG, with its length and checksum made anew; the header of any other; or any bytes."""
    if data[:8] != b"\x89PNG\r\n\x1a\n" or random.random() < 0.3:
        return any_bytes(random, data)
    chunks, place = [], 8
    while place + 12 <= len(data) and len(chunks) < 64:
        length = struct.unpack(">I", data[place : place + 4])[0]
        chunks.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += 12 + length
    for _ in range(1 + int(random.random() * 2)):
        if chunks:
            which, kind = int(random.random() ** 2 * len(chunks)), random.random()
            name, content = chunks[which]
            if kind < 0.1:
                chunks[which] = random.choice(PNG_CHUNKS), content
            elif kind < 0.2:
                chunks.insert(which, (name, content))
            elif kind < 0.3:
                del chunks[which]
            elif kind < 0.5 and name == b"IDAT":
                chunks[which] = name, _repacked(random, content)
            else:
                chunks[which] = name, any_bytes(random, content)
    return data[:8] + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in chunks
    )


PNG_CHUNKS = (
    b"IHDR",
    b"PLTE",
    b"IDAT",
    b"IEND",
    b"tRNS",
    b"iCCP",
    b"zTXt",
    b"iTXt",
    b"eXIf",
    b"acTL",
    b"fcTL",
    b"fdAT",
)


def _repacked(random: Random, content: bytes) -> bytes:
    try:
        return zlib.compress(any_bytes(random, zlib.decompressobj().decompress(content, LONGEST)), 1)
    except zlib.error:
        return any_bytes(random, content)


def below_first_line(inner: Mutation) -> Mutation:
    """Of a case whose first line says what the rest is; that line is changed now and then."""

    def mutation(random: Random, data: bytes) -> bytes:
        line, _, rest = data.partition(b"\n")
        if random.random() < 0.05:
            line = any_text(random, line).replace(b"\n", b"")
        return line + b"\n" + inner(random, rest)

    return mutation
