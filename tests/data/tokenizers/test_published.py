"""Tokenizers as they come with published models."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from data.small_vocabularies import TEXTS, write_bert, write_clip, write_gpt2
from neuropil.data.tokenizers.encoding import AnyTokenizer
from neuropil.data.tokenizers.learned import Tokenizer, learn_merges, learn_word_pieces
from neuropil.data.tokenizers.published import PublishedTokenizer, require_fits
from neuropil.errors import InputError, RunError


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> PublishedTokenizer:
    return PublishedTokenizer.load(write_gpt2(tmp_path_factory.mktemp("gpt2")))


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> PublishedTokenizer:
    return PublishedTokenizer.load(write_clip(tmp_path_factory.mktemp("clip")))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> PublishedTokenizer:
    return PublishedTokenizer.load(write_bert(tmp_path_factory.mktemp("bert"), model_max_length=64))


# --- texts and labels -------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(text=st.text())
def test_gpt2_gives_every_text_back_exactly(gpt2: PublishedTokenizer, text: str):
    assert gpt2.decode(gpt2.encode([text])[0]) == text


@settings(deadline=None)
@given(data=st.data())
def test_labels_join_to_the_text_whatever_the_tokens(
    gpt2: PublishedTokenizer, clip: PublishedTokenizer, data: st.DataObject
):
    for tokenizer in (gpt2, clip):
        special = {tokenizer.start, tokenizer.end}
        ids = data.draw(
            st.lists(st.integers(0, len(tokenizer) - 1).filter(lambda number, special=special: number not in special))
        )
        labels = "".join(label for label in tokenizer.tokens(ids) if label != "…")
        assert tokenizer.decode(ids) == (labels.rstrip(" ") if tokenizer is clip else labels)


def test_labels_show_spaces_ends_of_words_and_parts_of_words(
    gpt2: PublishedTokenizer, clip: PublishedTokenizer, bert: PublishedTokenizer
):
    assert gpt2.tokens(gpt2.encode(["The cat𝄞"])[0]) == ["The", " cat", "…", "…", "…", "𝄞"]
    assert clip.tokens(clip.encode(["The Mat."], special=True)[0])[1:-1] == ["the ", "mat ", ". "]
    assert bert.tokens(bert.encode(["The matter Ω"], special=True)[0]) == [
        "[CLS]",
        "the",
        "mat",
        "##te",
        "##r",
        "[UNK]",
        "[SEP]",
    ]


def test_what_surrounds_a_text_says_nothing_and_a_mask_does(
    gpt2: PublishedTokenizer, clip: PublishedTokenizer, bert: PublishedTokenizer
):
    assert gpt2.encode(["cat"], special=True) == gpt2.encode(["cat"])
    assert clip.encode([""], special=True) == [[clip.start, clip.end]]
    assert bert.decode([0, *bert.encode(["the [MASK] sat"], special=True)[0], 0]) == "the [MASK] sat"
    assert bert.mask in bert.encode(["the [MASK] sat"])[0]
    assert gpt2.decode([*gpt2.encode(["a cat<|endoftext|>"])[0]]) == "a cat"


def test_a_long_text_loses_its_end_and_keeps_what_surrounds_it(bert: PublishedTokenizer):
    (ids,) = bert.encode(["the cat " * 50], special=True, longest=bert.max_length)
    assert len(ids) == bert.max_length == 64
    assert (ids[0], ids[-1]) == (bert.start, bert.end)
    assert bert.encode(["the cat"], special=True, longest=1) == [[bert.start, bert.end]]


def test_numbers_beyond_the_vocabulary_have_no_text(gpt2: PublishedTokenizer, bert: PublishedTokenizer):
    """A model may know more tokens than its tokenizer, to have a round number of them."""
    for tokenizer in (gpt2, bert):
        assert tokenizer.decode([len(tokenizer) + 3]) == ""
        assert tokenizer.tokens([len(tokenizer) + 3]) == [f"<{len(tokenizer) + 3}>"]


def test_families_without_a_token_for_a_role_say_so(gpt2: PublishedTokenizer, clip: PublishedTokenizer):
    assert (gpt2.padding, gpt2.mask) == (None, None)
    assert gpt2.start == gpt2.end == gpt2.unknown == len(gpt2) - 1
    assert (clip.start, clip.end, clip.padding, clip.mask) == (len(clip) - 2, len(clip) - 1, len(clip) - 1, None)


def test_learned_and_published_tokenizers_can_stand_for_each_other(gpt2: PublishedTokenizer):
    for tokenizer in (gpt2, Tokenizer.train(TEXTS, "bpe", 300)):
        assert isinstance(tokenizer, AnyTokenizer)
        assert tokenizer.decode(tokenizer.encode(TEXTS)[0]) == TEXTS[0]


# --- files ------------------------------------------------------------------------------------------------------------


def test_special_tokens_may_be_named_in_the_files(tmp_path: Path):
    write_gpt2(tmp_path)
    vocabulary = json.loads((tmp_path / "vocab.json").read_text())
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary | {"<pad>": len(vocabulary)}))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"pad_token": {"content": "<pad>", "lstrip": False}}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 10**30}))
    tokenizer = PublishedTokenizer.load(tmp_path)
    assert tokenizer.padding == len(vocabulary) == tokenizer.encode(["a<pad>"])[0][1]
    assert tokenizer.max_length is None


def test_what_is_saved_is_read_back(tmp_path: Path, clip: PublishedTokenizer):
    clip.save(tmp_path)
    again = PublishedTokenizer.load(str(tmp_path))
    assert again.family == "clip"
    assert again.encode(TEXTS, special=True) == clip.encode(TEXTS, special=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]


def refused(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        PublishedTokenizer.load(folder)
    return str(caught.value).replace(str(folder), "FOLDER")


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path):
    rule = "FOLDER must hold a tokenizer: tokenizer.json, or vocab.json with merges.txt, or vocab.txt"
    fix = "take these files from where the model comes from"
    assert refused(tmp_path) == f"{rule}, but got none of them: {fix}."
    (tmp_path / "vocab.json").write_text("{}")
    assert refused(tmp_path) == f"{rule}, but got none of them: {fix}."
    assert refused(tmp_path / "nowhere") == f"{rule}, but got no such folder: {fix}."


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize("content", [b"", b'{"version": "1.0", "mod', b"\xff\xfe\x00", b"[1, 2]"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes):
    write_bert(tmp_path)
    (tmp_path / name).write_bytes(content)
    assert refused(tmp_path) == (
        f"FOLDER/{name} must be a file that Hugging Face's tokenizers can read, "
        "but got a damaged one: download it again."
    )


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_the_tokenizer_of_a_run_is_copied_again_and_not_downloaded(tmp_path: Path, name: str):
    learn_merges(TEXTS, 300).save(tmp_path)
    assert PublishedTokenizer.restore(tmp_path).encode(TEXTS) == learn_merges(TEXTS, 300).encode(TEXTS)
    (tmp_path / name).write_text("{")
    with pytest.raises(RunError) as damaged:
        PublishedTokenizer.restore(tmp_path)
    assert str(damaged.value) == (
        f"{tmp_path / name} must be a file that Hugging Face's tokenizers can read, but got a damaged one: "
        "copy the whole folder again, or train again."
    )
    (tmp_path / name).unlink()
    with pytest.raises(RunError) as missing:
        PublishedTokenizer.restore(tmp_path)
    assert str(missing.value) == (
        f"{tmp_path / name} must be what neuropil wrote, but got no such file: "
        "copy the whole folder again, or train again."
    )


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("vocab.json", lambda content: b""),
        ("vocab.json", lambda content: content[: len(content) // 2]),
        ("vocab.json", lambda content: b"[1, 2]"),
        ("merges.txt", lambda content: content[:-3]),
        ("merges.txt", lambda content: content + b"of another\n"),
        ("merges.txt", lambda content: b"\xff\xfe"),
    ],
)
def test_vocabulary_and_merges_must_belong_together(tmp_path: Path, name: str, damage: Callable[[bytes], bytes]):
    path = write_gpt2(tmp_path) / name
    path.write_bytes(damage(path.read_bytes()))
    assert refused(tmp_path) == (
        "FOLDER must hold a vocab.json and a merges.txt that belong together, "
        "but got damaged files, or those of different tokenizers: "
        "take both from where the model comes from."
    )


def test_a_vocabulary_without_the_special_tokens_is_refused(tmp_path: Path):
    (tmp_path / "vocab.txt").write_text("[PAD]\nthe\ncat\n")
    assert (
        refused(tmp_path)
        == "FOLDER/vocab.txt must hold the token [UNK], but got a vocabulary without it: download it again."
    )
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xfe")
    assert refused(tmp_path) == (
        "FOLDER/vocab.txt must be a file that Hugging Face's tokenizers can read, "
        "but got a damaged one: download it again."
    )


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (tokenizers.models.Unigram([("a", -1.0)], 0, byte_fallback=False), "Unigram"),
        (tokenizers.models.BPE({"a": 0}, []), "BPE of another kind"),
    ],
)
def test_other_kinds_of_tokenizers_are_refused_by_name(tmp_path: Path, model: tokenizers.models.Model, kind: str):
    (tmp_path / "tokenizer.json").write_text(tokenizers.Tokenizer(model).to_str())
    assert (
        refused(tmp_path) == f"FOLDER/tokenizer.json must be byte-level BPE, WordPiece or CLIP's BPE, but got {kind}."
    )


NOT_READ = (
    "FOLDER/tokenizer.json must be a file that Hugging Face's tokenizers can read, "
    "but got a damaged one: download it again."
)
UNFIT = "the tokenizer's files in FOLDER must fit together, but got some that do not: download them again."


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("tokenizer.json", {"model": {"unk_token": "[GONE]"}}, NOT_READ),
        ("tokenizer.json", {"post_processor": {"special_tokens": {}}}, NOT_READ),
        ("tokenizer.json", {"decoder": None}, UNFIT),
        ("tokenizer_config.json", {"cls_token": 5}, UNFIT),
        ("tokenizer_config.json", {"cls_token": {}}, UNFIT),
        ("tokenizer_config.json", {"cls_token": "\ud800"}, UNFIT),
    ],
)
def test_what_the_library_would_panic_at_is_refused(
    tmp_path: Path, name: str, change: dict[str, Any], sentence: str, capfd: pytest.CaptureFixture[str]
):
    learn_word_pieces(["the cat"], 60).save(tmp_path)
    content = json.loads((tmp_path / name).read_text())
    for key, value in change.items():
        content[key] = {**content[key], **value} if isinstance(value, dict) and value else value
    (tmp_path / name).write_text(json.dumps(content))
    assert refused(tmp_path) == sentence
    assert capfd.readouterr().err == ""


def test_merges_with_a_prefix_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    learn_merges(["the cat"], 262).save(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["model"]["continuing_subword_prefix"] = "long prefix"
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert refused(tmp_path) == NOT_READ
    assert capfd.readouterr().err == ""


def test_a_tokenizer_that_has_nothing_for_a_letter_is_refused(tmp_path: Path):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({"b": 0}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_str())
    assert (
        refused(tmp_path) == "a tokenizer must have a token for every text, but got one without any for the letter a."
    )


def test_a_tokenizer_must_fit_the_vocabulary_of_its_model(bert: PublishedTokenizer):
    size = len(bert)
    require_fits(bert, size, "folder")
    require_fits(bert, size + 8, "folder")
    for vocabulary in (size - 1, 2 * size):
        with pytest.raises(InputError) as caught:
            require_fits(bert, vocabulary, "folder")
        assert str(caught.value) == (
            f"the tokenizer in folder must fit the model's vocabulary of {vocabulary} tokens, but got one of {size}: "
            "take the tokenizer's files from where the model comes from."
        )
