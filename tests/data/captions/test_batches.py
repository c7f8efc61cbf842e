import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.augmentation import Augment
from neuropil.data.captions.batches import (
    CaptionBatches,
    EncodedCaptions,
    MatchingBatches,
    caption_groups,
    encode_captions,
    encode_matches,
)
from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.tokenizers.learned import Tokenizer, learn_clip_vocabulary
from neuropil.protocols import END, PADDING, START

CAPTIONS = [["a cat"], ["a dog at home", "dog"], ["a bird in the sky"], ["cat"]]
DATA = CaptionedPictures(
    torch.arange(4, dtype=torch.uint8).reshape(4, 1, 1, 1).expand(4, 1, 2, 2).contiguous(), CAPTIONS, (), "four"
)
TOKENIZER = Tokenizer.train(DATA.texts, "words")


def many(count: int) -> EncodedCaptions:
    texts = [[" ".join(["cat"] * (1 + index % 5))] for index in range(count)]
    pictures = torch.arange(count, dtype=torch.int64).to(torch.uint8).reshape(count, 1, 1, 1)
    return encode_captions(CaptionedPictures(pictures, texts, (), ""), TOKENIZER)


def test_each_caption_goes_with_its_picture():
    encoded = encode_captions(DATA, TOKENIZER)
    batch = encoded.batch(torch.arange(5))
    assert batch["source"][:, 0, 0, 0].tolist() == [0, 1, 1, 2, 3]
    for row, text in zip(batch["target"].tolist(), DATA.texts, strict=True):
        ids = [token for token in row if token != PADDING]
        assert (ids[0], ids[-1]) == (START, END)
        assert TOKENIZER.decode(ids) == text
        assert row == ids + [PADDING] * (len(row) - len(ids))


def test_long_captions_are_left_out_and_counted():
    encoded = encode_captions(DATA, TOKENIZER, max_tokens=4)
    assert (len(encoded), encoded.too_long) == (3, 2)
    assert encoded.batch(torch.arange(3))["source"][:, 0, 0, 0].tolist() == [0, 1, 3]


@settings(deadline=None, max_examples=30)
@given(count=st.integers(1, 40), size=st.integers(1, 9), shuffle=st.booleans(), number=st.integers(0, 3))
def test_a_pass_has_every_caption_once(count: int, size: int, shuffle: bool, number: int):
    batches = CaptionBatches(many(count), size, seed=1, shuffle=shuffle)
    found = list(batches.epoch(number))
    assert len(found) == len(batches)
    assert sorted(torch.cat([batch["source"].flatten() for batch in found]).tolist()) == list(range(count))
    assert all(
        int(batch["target"].ne(PADDING).any(0).sum()) == batch["target"].shape[1] for batch in found
    )  # no column of padding alone


def test_a_batch_has_captions_of_all_lengths():
    """Else batch normalisation would see in a batch what no picture shows: how much there is to say."""
    lengths = [
        int((batch["target"] != PADDING).sum(1).unique().numel())
        for batch in CaptionBatches(many(200), 20, 1, shuffle=True).epoch(0)
    ]
    assert min(lengths) >= 4


def test_a_pass_goes_on_from_any_batch():
    batches = CaptionBatches(many(30), 4, seed=1, shuffle=True, augment=Augment(shift=1))
    whole = list(batches.epoch(2))
    for start in (0, 3, 7):
        for one, other in zip(whole[start:], batches.epoch(2, start), strict=True):
            assert torch.equal(one["source"], other["source"])
            assert torch.equal(one["target"], other["target"])
    other = list(batches.epoch(3))
    assert not all(torch.equal(a["source"], b["source"]) for a, b in zip(whole, other, strict=True))


@pytest.mark.parametrize("count", [9, 5])
def test_no_picture_is_alone_in_its_batch(count: int):
    assert [len(batch["source"]) for batch in CaptionBatches(many(count), 4, seed=0, shuffle=False).epoch(0)][-1] > 1


def test_only_training_pictures_are_changed():
    encoded = many(8)
    plain = next(iter(CaptionBatches(encoded, 8, 0, shuffle=False).epoch(0)))
    assert torch.equal(plain["source"].flatten().sort().values, encoded.pictures.flatten())


CLIP_TOKENIZER = learn_clip_vocabulary(["a cat", "a dog at home"], 600)


def data(captions: list[list[str]]) -> CaptionedPictures:
    pictures = torch.arange(len(captions), dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 4, 4).contiguous()
    return CaptionedPictures(pictures, captions, (), "")


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=3), min_size=1, max_size=8))
@settings(deadline=None, max_examples=60)
def test_pictures_are_of_one_group_if_captions_lead_from_one_to_the_other(captions: list[list[str]]):
    groups = caption_groups(data(captions)).tolist()
    linked = [{i} for i in range(len(captions))]
    for _ in captions:  # spread until nothing changes
        linked = [
            {k for j in each for k in range(len(captions)) if set(captions[j]) & set(captions[k])} for each in linked
        ]
    for i in range(len(captions)):
        assert [groups[j] == groups[i] for j in range(len(captions))] == [j in linked[i] for j in range(len(captions))]


def test_a_batch_holds_pictures_with_their_captions_filled_up_with_the_end():
    matches = encode_matches(data([["a cat", "a dog at home"], ["a cat"], ["a dog"]]), CLIP_TOKENIZER, 20)
    (batch,) = MatchingBatches(matches, 10, 0, shuffle=False).epoch(0)
    assert batch["picture"][:, 0, 0, 0].tolist() == [0, 0, 1, 2]
    assert batch["group"].tolist()[:3] == [batch["group"][0].item()] * 3
    assert batch["group"][3] != batch["group"][0]
    assert [CLIP_TOKENIZER.decode(row.tolist()) for row in batch["caption"]] == [
        "a cat",
        "a dog at home",
        "a cat",
        "a dog",
    ]
    assert batch["caption"][:, 0].tolist() == [CLIP_TOKENIZER.start] * 4
    assert batch["caption"][0, 3:].tolist() == [CLIP_TOKENIZER.end] * 3
    assert batch["caption"].dtype == torch.int64


def test_a_caption_that_is_too_long_loses_its_end_and_is_counted():
    matches = encode_matches(data([["a dog at home"], ["a cat"]]), CLIP_TOKENIZER, 4)
    assert matches.shortened == 1
    assert matches.captions.shape == (2, 4)
    assert (matches.captions[:, -1] == CLIP_TOKENIZER.end).all()


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_each_pair_comes_once_and_no_batch_is_small(count: int, size: int, alike: int):
    matches = encode_matches(data([[f"{index}"] for index in range(count)]), CLIP_TOKENIZER, 9)
    batches = MatchingBatches(matches, size, 3, shuffle=True, alike=alike)
    found = list(batches.epoch(1))
    assert len(found) == len(batches)
    assert sorted(torch.cat([batch["picture"][:, 0, 0, 0] for batch in found]).tolist()) == list(range(count))
    assert all(len(batch["group"]) >= min(size, count) for batch in found)


def test_a_pass_is_the_same_from_whatever_batch_on():
    matches = encode_matches(data([[f"{index}"] for index in range(20)]), CLIP_TOKENIZER, 9)
    batches = MatchingBatches(matches, 4, 3, shuffle=True, augment=Augment(shift=1))
    whole, rest = list(batches.epoch(2)), list(batches.epoch(2, start=3))
    for early, late in zip(whole[3:], rest, strict=True):
        assert all(torch.equal(early[name], late[name]) for name in early)


def test_captions_with_the_same_words_come_into_one_batch():
    texts = [f"{first} {last}" for first in "abcdef" for last in "abcdef" if first != last]
    matches = encode_matches(data([[text] for text in texts]), CLIP_TOKENIZER, 9)
    alone, together = (MatchingBatches(matches, 10, 3, shuffle=True, alike=alike) for alike in (1, 3))
    drawn = set()
    for number in range(8):
        batches = [
            [CLIP_TOKENIZER.decode(row.tolist()).split() for row in batch["caption"]]
            for batch in together.epoch(number)
        ]
        (shared,) = [set.intersection(*map(set, batch)) for batch in batches if set.intersection(*map(set, batch))]
        # All ten captions with the word that counts most are in one batch, and so with each its mirror image.
        drawn |= shared
    assert len(drawn) > 1
    assert not any(
        set.intersection(*(set(CLIP_TOKENIZER.decode(row.tolist()).split()) for row in batch["caption"]))
        for batch in alone.epoch(0)
    )


def test_short_captions_come_first_and_each_as_often():
    matches = encode_matches(data([["a"]] * 3 + [["a cat"]] * 3 + [["a dog at home"]] * 6), CLIP_TOKENIZER, 9)
    batches = MatchingBatches(matches, 4, 3, shuffle=True, short_first=(0.25, 0.5))

    def seen(number: int) -> list[int]:
        return sorted(torch.cat([batch["picture"][:, 0, 0, 0] for batch in batches.epoch(number)]).tolist())

    assert seen(0) == sorted([0, 1, 2] * 4)
    assert seen(1) == sorted([*range(6)] * 2)
    assert seen(2) == seen(3) == list(range(12))
    assert len(list(batches.epoch(0))) == len(batches)
