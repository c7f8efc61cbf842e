"""A text that stays on disk gives what the same text gives in memory."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import torch

from neuropil.data.corpus import files, stored
from neuropil.data.corpus.dataset import Corpus
from neuropil.data.corpus.files import TextDataConfig, prepare_text
from neuropil.data.corpus.sources import text_files
from neuropil.data.corpus.streams import TextStreams
from neuropil.data.corpus.windows import TextWindows
from neuropil.data.tokenizers.learned import Kind, Tokenizer, learn_merges, learn_word_pieces
from neuropil.errors import InputError

TEXT = "".join(f"Line {number}: {number**3} is the cube, ü and 日本.\n" for number in range(6_000))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sizes at which a text of some hundred kilobytes is a long one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "MOST_IN_MEMORY", 1_000)
    monkeypatch.setattr(stored, "SAMPLE_BLOCK", 1_000)
    monkeypatch.setattr(stored, "MOST_BLOCKS", 16)
    monkeypatch.setattr(stored, "ENDING", 5_000)


def both(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Corpus, Corpus]:
    """On disk and in memory."""
    on_disk = prepare_text(TextDataConfig(data=(path,)))
    monkeypatch.setattr(files, "MOST_IN_MEMORY", 1 << 30)
    return on_disk, prepare_text(TextDataConfig(data=(path,)))


@pytest.fixture
def corpora(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Corpus, Corpus]:
    (tmp_path / "long.txt").write_text(TEXT, encoding="utf-8")
    return both(tmp_path / "long.txt", monkeypatch)


def test_the_parts_are_the_same_as_in_memory(corpora: tuple[Corpus, Corpus]):
    on_disk, in_memory = corpora
    assert on_disk.stored is not None
    assert in_memory.stored is None
    assert "".join(on_disk.train.pieces()) == in_memory.train
    assert (on_disk.validation, on_disk.test) == (in_memory.validation, in_memory.test)
    assert on_disk.source == in_memory.source
    assert on_disk.ending == in_memory.train[-5_000:]
    assert len(on_disk.train) == len(in_memory.train)


@pytest.mark.parametrize("kind", ["bpe", "characters", "words", "merges", "word pieces"])
def test_tokens_are_the_same_as_in_memory(corpora: tuple[Corpus, Corpus], kind: Kind | str):
    on_disk, in_memory = corpora
    learn = {"merges": learn_merges, "word pieces": learn_word_pieces}.get(kind)
    texts = on_disk.learned_texts
    tokenizer = Tokenizer.train(texts, kind, 400) if learn is None else learn(texts, 400)  # type: ignore[arg-type]
    found, expected = on_disk.tokens(tokenizer), in_memory.tokens(tokenizer)
    assert all(torch.equal(found[part][:], expected[part][:]) for part in expected)


def test_batches_are_the_same_as_in_memory(corpora: tuple[Corpus, Corpus]):
    on_disk, in_memory = corpora
    tokenizer = learn_merges(on_disk.learned_texts, 400)
    found, expected = on_disk.tokens(tokenizer)["train"], in_memory.tokens(tokenizer)["train"]
    for ours, theirs in (
        (TextWindows(found, 8, 64, seed=3), TextWindows(expected, 8, 64, seed=3)),
        (TextStreams(found, 8, 64, seed=3), TextStreams(expected, 8, 64, seed=3)),
        (TextStreams(found, 8, 64), TextStreams(expected, 8, 64)),
    ):
        for start in (0, len(ours) // 2):
            for a, b in zip(ours.epoch(1, start), theirs.epoch(1, start), strict=True):
                assert all(torch.equal(a[name], b[name]) for name in b)


def test_the_sample_is_bounded_spread_over_the_training_part_and_of_whole_words(corpora: tuple[Corpus, Corpus]):
    on_disk, in_memory = corpora
    sample = on_disk.learned_texts
    assert 8 <= len(sample) <= 16
    places = torch.tensor([in_memory.train.index(block) / len(in_memory.train) for block in sample])
    assert (places.diff() > 0).all()
    assert places.diff().max() < 2 * places.diff().min() + 0.01
    assert places[0] < 0.01
    assert places[-1] > 0.85
    words = set(in_memory.train.split())
    assert all(set(block.split()) <= words for block in sample)


def test_a_vocabulary_needs_no_more_than_the_sample(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """However long the text is."""
    sizes = []
    for times in (1, 4):
        (tmp_path / "long.txt").write_text(times * TEXT, encoding="utf-8")
        corpus = prepare_text(TextDataConfig(data=(tmp_path / "long.txt",)))
        sizes.append(sum(map(len, corpus.learned_texts)) + len(corpus.ending))
    assert max(sizes) <= 16 * 1_000 + 5_000


def test_what_is_held_out_is_bounded(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stored, "MOST_HELD_OUT", 3_000)
    (tmp_path / "long.txt").write_text(TEXT, encoding="utf-8")
    corpus = prepare_text(TextDataConfig(data=(tmp_path / "long.txt",)))
    assert len(corpus.validation) == pytest.approx(3_000, abs=60)
    assert len(corpus.test) == pytest.approx(3_000, abs=60)
    assert "".join(corpus.train.pieces()) + corpus.validation + corpus.test == TEXT.removesuffix("\n")
    assert corpus.validation.startswith("Line ")


def write_columns(path: Path, texts: list[str]) -> None:
    """Beside another column that is larger than what is held in memory."""
    columns = {"text": texts, "page": [f"{number} " * 1_000 for number in range(len(texts))]}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def test_a_short_text_in_a_large_file_is_held_in_memory(small: None, tmp_path: Path):
    texts = ["It has few words, ü."] * 12
    write_columns(tmp_path / "wide.parquet", texts)
    corpus = prepare_text(TextDataConfig(data=(tmp_path / "wide.parquet",), text_column="text"))
    assert text_files([tmp_path / "wide.parquet"]).num_bytes > files.MOST_IN_MEMORY
    assert corpus.stored is None
    assert corpus.notes == ()
    assert corpus.train + corpus.validation + corpus.test == "\n\n".join(texts)


def test_bytes_decide_what_is_long(small: None, tmp_path: Path):
    """A character of Japanese has three."""
    for text, long in (("日本" * 160, False), ("日本" * 170, True)):
        write_columns(tmp_path / "wide.parquet", [text])
        corpus = prepare_text(TextDataConfig(data=(tmp_path / "wide.parquet",), text_column="text"))
        assert (corpus.stored is not None) == long


@pytest.mark.parametrize("texts", [["too short"] * 3, [""] * 3])
def test_too_short_a_text_in_a_large_file_is_refused_as_in_a_small_one(small: None, tmp_path: Path, texts: list[str]):
    write_columns(tmp_path / "wide.parquet", texts)
    with pytest.raises(InputError) as error:
        prepare_text(TextDataConfig(data=(tmp_path / "wide.parquet",), text_column="text"))
    length = len("\n\n".join(filter(None, texts)))
    assert str(error.value) == f"wide.parquet must have at least 200 characters to learn from, but got {length}."


def test_one_sentence_says_that_it_is_read_from_disk(corpora: tuple[Corpus, Corpus]):
    on_disk, in_memory = corpora
    assert in_memory.notes == ()
    (note,) = on_disk.notes
    characters = sum(map(len, on_disk.learned_texts))
    assert note == (
        "The text has more than 1.07 GB and is read from disk: its tokens are kept in the user's cache folder, its "
        f"vocabulary is learned from {characters:,} characters that are spread evenly over it, at most 1,000,000 "
        "characters are held out for validation and for the test each, and baselines read the last 5,000 before them."
    ).replace("1.07 GB", "1 kB")


def test_tokens_are_made_once_for_a_text_and_a_vocabulary(small: None, tmp_path: Path):
    path = tmp_path / "long.txt"
    path.write_text(TEXT, encoding="utf-8")
    config = TextDataConfig(data=(path,))
    corpus = prepare_text(config)
    tokenizer, other = learn_merges(corpus.learned_texts, 300), learn_merges(corpus.learned_texts, 400)
    first = corpus.tokens(tokenizer)["train"]
    before = first.path.stat().st_mtime_ns  # type: ignore[union-attr]
    again = prepare_text(config).tokens(tokenizer)["train"]
    assert again.path.stat().st_mtime_ns == before  # type: ignore[union-attr]
    assert again.fingerprint == first.fingerprint  # type: ignore[union-attr]
    assert corpus.tokens(other)["train"].path != first.path  # type: ignore[union-attr]
    path.write_text(TEXT.replace("cube", "kube"), encoding="utf-8")
    changed = prepare_text(config)
    assert changed.train.folder != corpus.train.folder
    assert "kube" in next(changed.train.pieces())


@pytest.mark.parametrize("way", ["written", "moved"])
def test_a_text_of_the_same_size_and_time_is_read_anew(small: None, tmp_path: Path, way: str):
    """As cp -p and rsync -t leave it."""
    path, other = tmp_path / "long.txt", tmp_path / "other.txt"
    path.write_text(TEXT, encoding="utf-8")
    before, corpus = path.stat(), prepare_text(TextDataConfig(data=(path,)))
    target = path if way == "written" else other
    target.write_text(TEXT.replace("cube", "kube"), encoding="utf-8")
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    target.rename(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    changed = prepare_text(TextDataConfig(data=(path,)))
    assert changed.train.folder != corpus.train.folder
    assert "kube" in changed.test


# --- bad days ---------------------------------------------------------------------------------------------------------

PREPARE = """
import sys
from pathlib import Path
from neuropil.data.corpus import files, stored
from neuropil.data.corpus.files import TextDataConfig, prepare_text
from neuropil.data.tokenizers.learned import learn_merges
files.MOST_IN_MEMORY = 1_000
def tokens(path, stop=False):
    corpus = prepare_text(TextDataConfig(data=(Path(path),)))
    tokenizer = learn_merges(corpus.learned_texts, 300)
    encode = stored.encode_blocks
    def slowly(*arguments):
        yield from encode(*arguments)
        print("half", flush=True)
        sys.stdin.read()
    if stop:
        stored.encode_blocks = slowly
    return corpus.tokens(tokenizer)["train"]
"""


def test_a_kill_leaves_no_tokens_and_others_wait_for_whoever_makes_them(tmp_path: Path):
    """The first process is killed when all but the last bytes are written; the second, which waited, makes them."""
    (tmp_path / "long.txt").write_text(TEXT, encoding="utf-8")
    source = str(Path(files.__file__).parents[3])
    environment = os.environ | {"PYTHONPATH": source, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [
        sys.executable,
        "-c",
        f"{PREPARE}\nfound = tokens(sys.argv[1], stop=len(sys.argv) > 2)\nprint(len(found))",
    ]
    how: dict[str, Any] = {"env": environment, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, str(tmp_path / "long.txt"), "stop"], **how) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "half\n"
        kept = [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()]
        assert not any(re.fullmatch("tokens-[0-9a-f]{16}", name) for name in kept)
        with subprocess.Popen([*command, str(tmp_path / "long.txt")], **how) as second:
            first.send_signal(signal.SIGKILL)
            found = int(second.communicate()[0])
        assert second.returncode == 0
    kept = [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert sorted(re.sub("[0-9a-f]{16}", "…", name) for name in kept) == ["lock", "text.json", "tokens-…"]
    assert found > len(TEXT) / 10


def test_a_disk_that_is_too_small_is_refused_before_anything_is_written(corpora: tuple[Corpus, Corpus]):
    on_disk, _ = corpora
    tokenizer = Tokenizer.train(on_disk.learned_texts, "characters")
    huge = dataclasses.replace(on_disk.train, summary=dataclasses.replace(on_disk.train.summary, length=10**18))
    with pytest.raises(InputError) as error:
        huge.tokens(tokenizer)
    assert re.sub(r"of [\d.e+]+ \wB", "of 7 GB", str(error.value)) == (
        f"the tokens of long.txt must fit into {huge.folder}, but got about 2 EB, of 7 GB free: "
        "make room, or set XDG_CACHE_HOME to a folder on another disk."
    )
    assert sorted(path.name for path in huge.folder.iterdir()) == ["lock", "text.json"]


def test_a_cache_folder_that_cannot_be_made_is_refused(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "long.txt"
    path.write_text(TEXT, encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    with pytest.raises(InputError) as error:
        prepare_text(TextDataConfig(data=(path,)))
    folder = path / "neuropil" / "texts" / stored._key(text_files([path]), 0.05, 0.05)
    assert str(error.value) == (
        f"a text of more than 268 MB needs a cache folder, but got {folder}, which cannot be made: "
        "set XDG_CACHE_HOME to a folder on a large disk."
    )
