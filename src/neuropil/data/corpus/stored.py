"""A text that is larger than memory: it stays in its files, and its tokens are kept in one more.

It is read twice. The first time it is measured: what is held out is taken from its end, and a sample that is spread
evenly over the rest is kept, from which a vocabulary is learned. The second time it is cut into tokens. Both are done
once for all runs on the same files, in the user's cache folder, by one process while others wait for it.
"""

import hashlib
import json
import re
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from neuropil.data.corpus.sources import TextFiles
from neuropil.data.corpus.token_file import TokenFile, type_for, write_tokens
from neuropil.data.tokenizers.encoding import AnyTokenizer, encode_blocks
from neuropil.errors import InputError
from neuropil.files import cache_folder, in_turn, remove_parts, write_text
from neuropil.memory import written
from neuropil.progress import measured

MOST_IN_MEMORY = 2**28
"""Bytes of a text that is read as a whole: what a text gives does not depend on the machine."""
MOST_HELD_OUT = 1_000_000
"""Characters of each part that is held out: more would not tell more, and scoring reads all of them."""
ENDING = 8_000_000
"""Characters before those, which the strongest baselines read."""
SAMPLE_BLOCK, MOST_BLOCKS = 2**16, 2**10
"""Characters of a block, and blocks of the sample, of which there is half at the least."""
VERSION = 2
"""Of what is kept."""
WORDS = re.compile(r"\s.*\s", re.DOTALL)


@dataclass(frozen=True)
class TextSummary:
    """What the first reading finds."""

    length: int
    """Characters of the training part."""
    fingerprint: str
    """Of the whole text."""
    num_bytes: int
    """Of the whole text in UTF-8; its files may be larger, by their other columns."""
    sample: list[str]
    ending: str
    """Of the training part."""
    validation: str
    test: str


@dataclass(frozen=True)
class StoredText:
    """The training part of a text that is not held in memory."""

    files: TextFiles
    summary: TextSummary
    folder: Path
    """Where its tokens are kept."""

    def __len__(self) -> int:
        return self.summary.length

    def pieces(self) -> Iterator[str]:
        left = len(self)
        for block in in_blocks(self.files.pieces(), SAMPLE_BLOCK):
            yield block[:left]
            left -= len(block)
            if left <= 0:
                return

    def tokens(self, tokenizer: AnyTokenizer) -> TokenFile:
        """From the file that holds them, which is made if nobody has made it yet."""
        path = self.folder / f"tokens-{tokenizer.fingerprint}"
        with in_turn(self.folder / "lock"):
            if not path.exists():
                remove_parts(self.folder)
                self._require_room(tokenizer)
                write_tokens(path, encode_blocks(tokenizer, self.pieces(), len(self)), len(tokenizer))
        return TokenFile(path, len(tokenizer), f"{self.summary.fingerprint} {tokenizer.fingerprint}")

    def _require_room(self, tokenizer: AnyTokenizer) -> None:
        sample = self.summary.sample[0]
        share = len(tokenizer.encode([sample])[0]) / len(sample)
        needed, free = share * len(self) * type_for(len(tokenizer)).itemsize, shutil.disk_usage(self.folder).free
        if needed > free:
            got = f"about {written(needed)}, of {written(free)} free"
            fix = "make room, or set XDG_CACHE_HOME to a folder on another disk"
            raise InputError(f"the tokens of {self.files.name} must fit into {self.folder}", got=got, fix=fix)


def store_text(files: TextFiles, validation: float, test: float) -> StoredText:
    """The shares are held out at its end."""
    folder = cache_folder() / "texts" / _key(files, validation, test)
    path = folder / "text.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        rule = f"a text of more than {written(MOST_IN_MEMORY)} needs a cache folder"
        fix = "set XDG_CACHE_HOME to a folder on a large disk"
        raise InputError(rule, got=f"{folder}, which cannot be made", fix=fix) from cause
    with in_turn(folder / "lock"):
        if not path.exists():
            remove_parts(folder)
            write_text(path, json.dumps(asdict(measure(files, validation, test))))
    return StoredText(files, TextSummary(**json.loads(path.read_text(encoding="utf-8"))), folder)


def _key(files: TextFiles, *shares: float) -> str:
    """By the names of the files, how large they are and when they were changed. Copies may keep the time of another
    file (cp -p, rsync -t, tar), but not the time of its inode."""
    found = [(str(path.resolve()), path.stat()) for path in files.files]
    facts = [(name, each.st_size, each.st_mtime_ns, each.st_ctime_ns, each.st_ino) for name, each in found]
    return hashlib.sha256(json.dumps([VERSION, files.text_column, shares, facts]).encode()).hexdigest()[:16]


# --- the first reading ------------------------------------------------------------------------------------------------


def measure(files: TextFiles, validation: float, test: float) -> TextSummary:
    digest, length, num_bytes, last = hashlib.sha256(), 0, 0, deque[str]()
    sample, every = list[tuple[int, str]](), 1
    last_blocks = -(-(ENDING + 2 * MOST_HELD_OUT) // SAMPLE_BLOCK) + 1
    blocks = measured(in_blocks(files.pieces(), SAMPLE_BLOCK), f"Reading {files.name}", len, files.num_bytes)
    for number, block in enumerate(blocks):
        encoded = block.encode()
        digest.update(encoded)
        num_bytes += len(encoded)
        last.append(block)
        if len(last) > last_blocks:
            last.popleft()
        if number % every == 0:
            sample.append((length, block))
            if len(sample) > MOST_BLOCKS:
                sample, every = sample[::2], 2 * every
        length += len(block)
    end = "".join(last)
    before = length - len(end)
    held = [min(round(share * length), MOST_HELD_OUT) for share in (validation, test)]
    begin_validation, begin_test = held_out_places(end, *held)
    learned = before + begin_validation
    kept = [whole_words(block) for begin, block in sample if begin + len(block) <= learned]
    parts = end[begin_validation:begin_test], end[begin_test:]
    return TextSummary(learned, digest.hexdigest()[:16], num_bytes, kept, end[:begin_validation][-ENDING:], *parts)


def held_out_places(text: str, validation: int, test: int) -> tuple[int, int]:
    """Where the validation and the test part begin at the end of a text, with about so many characters."""
    begin_test = next_line(text, len(text) - test)
    return next_line(text, begin_test - validation), begin_test


def next_line(text: str, place: int) -> int:
    """Where the next line begins; the place itself, where that would be more than half of what comes after it."""
    end = text.find("\n", place - 1, (place + len(text)) // 2)
    return end + 1 if end >= 0 else place


def in_blocks(pieces: Iterable[str], size: int) -> Iterator[str]:
    """The same text in blocks of `size` characters; the last may be shorter."""
    held, length = list[str](), 0
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length >= size:
            text = "".join(held)
            whole = length - length % size
            yield from (text[begin : begin + size] for begin in range(0, whole, size))
            held, length = [text[whole:]], length - whole
    if length:
        yield "".join(held)


def whole_words(block: str) -> str:
    """Without the word that is cut at either end, where there is white space at all."""
    found = WORDS.search(block)
    return found[0] if found else block
