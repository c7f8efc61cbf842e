from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from neuropil.data.tokenizers.clip import learn_clip_vocabulary
from neuropil.data.tokenizers.published import PublishedTokenizer

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
