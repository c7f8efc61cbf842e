import json
import subprocess
import sys
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from neuropil.data.corpus.embedded import python_documentation
from neuropil.data.tokenizers.byte_level import byte_of_letter
from neuropil.data.tokenizers.learned import (
    SPECIAL,
    Kind,
    Tokenizer,
    learn_clip_vocabulary,
    learn_merges,
    learn_word_pieces,
)
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.errors import RunError

KINDS: tuple[Kind, ...] = ("bpe", "characters", "words")
TEXTS = [
    "The cat sat on the mat.",
    "Die Katze saß auf der Matte; die Matte war rot.",
    "گربه روی فرش نشست و می‌خوابد",
    "बिल्ली चटाई पर बैठी",
    "猫坐在垫子上。",
    '<end> is written "<end>", � too',
] * 3
TRAINED = {kind: Tokenizer.train(TEXTS, kind, 400) for kind in KINDS}
BPE, CHARACTERS, WORDS = (TRAINED[kind] for kind in KINDS)

any_text = st.text() | st.lists(st.sampled_from([*"abcdeT .ßé\n\r\t\0猫ब़ि\u200c\u202f🙂🏽", *SPECIAL])).map("".join)


def ids_of(text: str, kind: Kind = "bpe") -> list[int]:
    (ids,) = TRAINED[kind].encode([text])
    return ids


# The way there and back


@settings(deadline=None)
@given(any_text)
def test_bpe_gives_every_text_back_exactly_and_knows_no_unknowns(text: str):
    assert BPE.decode(ids_of(text)) == text
    assert min(ids_of(text), default=4) > BPE.unknown


@settings(deadline=None)
@given(st.text(st.sampled_from(sorted(set("".join(TEXTS))))))
def test_known_characters_are_given_back_exactly_one_token_each(text: str):
    ids = ids_of(text, "characters")
    assert len(ids) == len(text)
    assert CHARACTERS.decode(ids) == text
    assert CHARACTERS.tokens(ids) == list(text)


def test_unknown_characters_and_words_are_shown_as_such():
    assert CHARACTERS.decode(ids_of("cat Ω", "characters")) == "cat �"
    assert ids_of("Ω", "characters") == [CHARACTERS.unknown]
    assert WORDS.decode(ids_of("The elephant sat.", "words")) == "The � sat ."


def test_words_are_split_at_spaces_and_punctuation_and_keep_their_case():
    assert WORDS.tokens(ids_of("  The cat;the\nmat.", "words")) == ["The", "cat", ";", "the", "mat", "."]
    assert WORDS.tokens(ids_of("می‌خوابد चटाई", "words")) == ["می‌خوابد", "चटाई"]


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_have_fixed_numbers_that_no_text_can_produce(kind: Kind):
    tokenizer = TRAINED[kind]
    assert (tokenizer.padding, tokenizer.start, tokenizer.end, tokenizer.unknown) == (0, 1, 2, 3)
    assert tokenizer.tokens([0, 1, 2, 3]) == ["<pad>", "<start>", "<end>", "�"]
    assert not {0, 1, 2} & set(ids_of("<pad> a <start> b <end>", kind))
    ids = ids_of("The cat", kind)
    assert tokenizer.decode([1, *ids, 2, 0, 0]) == tokenizer.decode(ids) == "The cat"


# Labels


@settings(deadline=None)
@given(st.lists(st.integers(4, len(BPE) - 1)))
def test_labels_of_bpe_tokens_join_to_the_text_whatever_the_tokens(ids: list[int]):
    labels = BPE.tokens(ids)
    assert len(labels) == len(ids)
    assert "".join(label for label in labels if label != "…") == BPE.decode(ids)


def test_a_character_of_several_tokens_stands_at_the_last_of_them():
    assert BPE.tokens(ids_of("🙂")) == ["…", "…", "…", "🙂"]
    assert BPE.tokens(ids_of("🙂")[:2]) == ["…", "�"]
    assert BPE.tokens([*ids_of("🙂")[:2], 2, 0]) == ["…", "�", "<end>", "<pad>"]
    assert BPE.tokens([1, *ids_of("The"), 2])[0::2] == ["<start>", "<end>"]


def test_the_letters_of_bytes_are_those_of_hugging_face():
    assert set(byte_of_letter()) == set(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    decoder = tokenizers.decoders.ByteLevel()
    for letter, byte in byte_of_letter().items():
        if byte < 128:
            assert decoder.decode([letter]) == chr(byte)


# Learning


def test_the_same_texts_give_the_same_tokenizer_in_another_process(tmp_path: Path):
    program = (
        "import sys, json; from pathlib import Path; from neuropil.data.tokenizers.learned import Tokenizer\n"
        "for kind in sys.argv[3:]: Tokenizer.train(json.loads(sys.argv[1]), kind, 400).save(Path(sys.argv[2], kind))"
    )
    subprocess.run([sys.executable, "-c", program, json.dumps(TEXTS), str(tmp_path), *KINDS], check=True)
    for kind in KINDS:
        TRAINED[kind].save(tmp_path / "here.json")
        assert (tmp_path / "here.json").read_bytes() == (tmp_path / kind).read_bytes()


def test_the_vocabulary_is_no_larger_than_wanted_nor_than_the_texts_allow():
    assert len(Tokenizer.train(TEXTS, "bpe", 300)) == 300
    assert len(Tokenizer.train(TEXTS, "words", 10)) == 10
    assert len(Tokenizer.train(["abcb"], "characters", 8_000)) == 4 + 3
    assert len(Tokenizer.train(["abab"], "bpe", 8_000)) == 4 + 256 + 2
    assert len(Tokenizer.train([], "bpe", 1)) == 4 + 256


def test_the_most_frequent_are_kept():
    tokenizer = Tokenizer.train(["aaa bb c"], "characters", 6)
    assert tokenizer.tokens(tokenizer.encode(["abc"])[0]) == ["a", "�", "�"]
    assert tokenizer.tokens(tokenizer.encode([" "])[0]) == [" "]


def test_frequent_pieces_become_single_tokens():
    assert BPE.tokens(ids_of("The cat sat")) == ["The", " cat", " sat"]


def test_long_lists_of_texts_keep_their_order():
    texts = [f"cat {number}" for number in range(2_500)]
    assert [BPE.decode(ids) for ids in BPE.encode(texts)] == texts


def test_no_thread_of_the_library_is_left_for_a_fork_to_warn_about():
    program = (
        "import os\nfrom neuropil.data.tokenizers.learned import Tokenizer\n"
        "t = Tokenizer.train(['some text', 'and more'] * 3000, 'bpe', 300); t.encode(['some'] * 5000)\n"
        "assert 'TOKENIZERS_PARALLELISM' not in os.environ\n"
        "child = os.fork()\n"
        "t.encode(['some'] * 5000)\n"
        "if child: os.waitpid(child, 0)\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, capture_output=True, text=True)
    assert done.stderr == ""


# Files


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_is_read_back_and_read_by_hugging_face_too(kind: Kind, tmp_path: Path):
    path = tmp_path / "tokenizer.json"
    TRAINED[kind].save(path)
    loaded, foreign = Tokenizer.load(path), tokenizers.Tokenizer.from_file(str(path))
    foreign.encode_special_tokens = True
    assert loaded.kind == kind
    assert len(loaded) == len(TRAINED[kind]) == foreign.get_vocab_size()
    texts = [*TEXTS, "Ω new\n\tthings 🙂", ""]
    assert (
        loaded.encode(texts)
        == TRAINED[kind].encode(texts)
        == [encoding.ids for encoding in foreign.encode_batch(texts)]
    )


def refused(path: Path) -> str:
    with pytest.raises(RunError) as caught:
        Tokenizer.load(path)
    return str(caught.value).replace(str(path), "tokenizer.json")


def test_a_missing_damaged_or_foreign_tokenizer_is_refused(tmp_path: Path):
    path = tmp_path / "tokenizer.json"
    assert (
        refused(path)
        == "tokenizer.json must be the tokenizer that neuropil wrote, but got no such file: train again or restore it."
    )
    BPE.save(path)
    rule = "tokenizer.json must be the tokenizer that neuropil wrote"
    damaged = f"{rule}, but got a damaged file or another kind: train again or restore it."
    path.write_bytes(path.read_bytes()[:-100])
    assert refused(path) == damaged
    path.write_bytes(b"\xff\xfe\x00")
    assert refused(path) == damaged
    path.write_text(tokenizers.Tokenizer(tokenizers.models.BPE()).to_str())
    assert refused(path) == damaged
    other = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "c": 2, "d": 3}, unk_token="a"))  # noqa: S106  # no password
    other.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    path.write_text(other.to_str())
    assert refused(path) == (
        "tokenizer.json must be the tokenizer that neuropil wrote, "
        "but got one with other special tokens: train again or restore it."
    )


TEXT = python_documentation()[0][:30_000]
MERGES, PIECES = learn_merges([TEXT], 400), learn_word_pieces([TEXT], 600)
plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).filter(lambda text: "<|" not in text)


@given(text=plain)
@settings(deadline=None)
def test_merged_bytes_give_every_text_back(text: str):
    assert MERGES.decode(MERGES.encode([text])[0]) == text


def test_vocabularies_have_the_asked_size_and_the_special_tokens():
    assert (len(MERGES), len(PIECES)) == (400, 600)
    assert (MERGES.start, MERGES.end, MERGES.padding) == (0, 0, None)
    assert (PIECES.padding, PIECES.start, PIECES.end, PIECES.mask, PIECES.unknown) == (0, 1, 2, 3, 4)
    assert len(learn_merges(["aaab"], 5_000)) < 300


def test_frequent_words_are_one_token_and_others_have_several():
    ids = PIECES.encode(["The class [MASK]"], special=True)[0]
    assert PIECES.tokens(ids)[:3] == ["[CLS]", "the", "class"]
    assert ids[3:] == [PIECES.mask, PIECES.end]
    assert len(PIECES.encode(["xylophones"])[0]) > 1


def test_the_same_text_makes_the_same_tokenizer(tmp_path: Path):
    """In another process too, where sets of strings have another order."""
    code = (
        "import sys; from pathlib import Path; from neuropil.data.tokenizers.learned import learn_merges, "
        "learn_word_pieces; "
        "text = Path(sys.argv[1]).read_text(encoding='utf-8'); "
        "learn_merges([text], 400).save(sys.argv[2]); learn_word_pieces([text], 600).save(sys.argv[3])"
    )
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    MERGES.save(tmp_path / "merges")
    PIECES.save(tmp_path / "pieces")
    folders = [str(tmp_path / name) for name in ("text", "merges again", "pieces again")]
    subprocess.run([sys.executable, "-c", code, *folders], check=True)
    for name in ("merges", "pieces"):
        assert (tmp_path / name / "tokenizer.json").read_text() == (
            tmp_path / f"{name} again" / "tokenizer.json"
        ).read_text()


def test_what_is_saved_is_loaded(tmp_path: Path):
    for name, tokenizer in (("merges", MERGES), ("pieces", PIECES)):
        folder = tmp_path / name
        tokenizer.save(folder)
        again = PublishedTokenizer.load(folder)
        assert again.family == tokenizer.family
        assert again.encode([TEXT[:500]], special=True) == tokenizer.encode([TEXT[:500]], special=True)
        assert (again.padding, again.end, again.mask) == (tokenizer.padding, tokenizer.end, tokenizer.mask)


CAPTIONS = ["a two left of a five", "A two above an eight", "a seven", "it's a dog, isn't it?"] * 3
LEARNED = learn_clip_vocabulary(CAPTIONS, 1_000)


def test_frequent_words_are_one_token_between_start_and_end():
    (ids,) = LEARNED.encode(["a two left of a five"], special=True)
    assert LEARNED.tokens(ids[1:-1]) == ["a ", "two ", "left ", "of ", "a ", "five "]
    assert (ids[0], ids[-1]) == (LEARNED.start, LEARNED.end) == (len(LEARNED) - 2, len(LEARNED) - 1)


@given(st.text())
@settings(deadline=None, max_examples=60)
def test_every_text_can_be_written_without_the_end_in_its_midst(text: str):
    if "<|" in text:
        return
    (ids,) = LEARNED.encode([text])
    assert LEARNED.end not in ids
    assert LEARNED.decode(ids).split() == LEARNED.decode(LEARNED.encode([LEARNED.decode(ids)])[0]).split()


def test_it_opens_in_hugging_faces_library(tmp_path: Path):
    LEARNED.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    texts = ["a two left of a five", "An OWL?", "straße 12"]
    assert theirs(texts)["input_ids"] == LEARNED.encode(texts, special=True)
    assert PublishedTokenizer.load(tmp_path).encode(texts) == LEARNED.encode(texts)


def test_it_is_as_small_as_asked_for_but_knows_all_bytes():
    assert len(learn_clip_vocabulary(CAPTIONS, 520)) == 520
    assert len(learn_clip_vocabulary(CAPTIONS, 10)) == 514
    assert len(LEARNED) < 600
    assert learn_clip_vocabulary(CAPTIONS, 600).encode(["a five"]) == learn_clip_vocabulary(CAPTIONS, 600).encode(
        ["a five"]
    )
