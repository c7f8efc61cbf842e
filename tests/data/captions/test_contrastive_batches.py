import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.augmentation import Augment
from neuropil.data.captions.contrastive_batches import MatchingBatches, caption_groups, encode_matches
from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.tokenizers.clip import learn_clip_vocabulary

TOKENIZER = learn_clip_vocabulary(["a cat", "a dog at home"], 600)


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
    matches = encode_matches(data([["a cat", "a dog at home"], ["a cat"], ["a dog"]]), TOKENIZER, 20)
    (batch,) = MatchingBatches(matches, 10, 0, shuffle=False).epoch(0)
    assert batch["picture"][:, 0, 0, 0].tolist() == [0, 0, 1, 2]
    assert batch["group"].tolist()[:3] == [batch["group"][0].item()] * 3
    assert batch["group"][3] != batch["group"][0]
    assert [TOKENIZER.decode(row.tolist()) for row in batch["caption"]] == ["a cat", "a dog at home", "a cat", "a dog"]
    assert batch["caption"][:, 0].tolist() == [TOKENIZER.start] * 4
    assert batch["caption"][0, 3:].tolist() == [TOKENIZER.end] * 3
    assert batch["caption"].dtype == torch.int64


def test_a_caption_that_is_too_long_loses_its_end_and_is_counted():
    matches = encode_matches(data([["a dog at home"], ["a cat"]]), TOKENIZER, 4)
    assert matches.shortened == 1
    assert matches.captions.shape == (2, 4)
    assert (matches.captions[:, -1] == TOKENIZER.end).all()


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_each_pair_comes_once_and_no_batch_is_small(count: int, size: int, alike: int):
    matches = encode_matches(data([[f"{index}"] for index in range(count)]), TOKENIZER, 9)
    batches = MatchingBatches(matches, size, 3, shuffle=True, alike=alike)
    found = list(batches.epoch(1))
    assert len(found) == len(batches)
    assert sorted(torch.cat([batch["picture"][:, 0, 0, 0] for batch in found]).tolist()) == list(range(count))
    assert all(len(batch["group"]) >= min(size, count) for batch in found)


def test_a_pass_is_the_same_from_whatever_batch_on():
    matches = encode_matches(data([[f"{index}"] for index in range(20)]), TOKENIZER, 9)
    batches = MatchingBatches(matches, 4, 3, shuffle=True, augment=Augment(shift=1))
    whole, rest = list(batches.epoch(2)), list(batches.epoch(2, start=3))
    for early, late in zip(whole[3:], rest, strict=True):
        assert all(torch.equal(early[name], late[name]) for name in early)


def test_captions_with_the_same_words_come_into_one_batch():
    texts = [f"{first} {last}" for first in "abcdef" for last in "abcdef" if first != last]
    matches = encode_matches(data([[text] for text in texts]), TOKENIZER, 9)
    alone, together = (MatchingBatches(matches, 10, 3, shuffle=True, alike=alike) for alike in (1, 3))
    drawn = set()
    for number in range(8):
        batches = [
            [TOKENIZER.decode(row.tolist()).split() for row in batch["caption"]] for batch in together.epoch(number)
        ]
        (shared,) = [set.intersection(*map(set, batch)) for batch in batches if set.intersection(*map(set, batch))]
        drawn |= shared  # all ten captions with the word that counts most are in one batch, and so with each its mirror image
    assert len(drawn) > 1
    assert not any(
        set.intersection(*(set(TOKENIZER.decode(row.tolist()).split()) for row in batch["caption"]))
        for batch in alone.epoch(0)
    )


def test_short_captions_come_first_and_each_as_often():
    matches = encode_matches(data([["a"]] * 3 + [["a cat"]] * 3 + [["a dog at home"]] * 6), TOKENIZER, 9)
    batches = MatchingBatches(matches, 4, 3, shuffle=True, short_first=(0.25, 0.5))

    def seen(number: int) -> list[int]:
        return sorted(torch.cat([batch["picture"][:, 0, 0, 0] for batch in batches.epoch(number)]).tolist())

    assert seen(0) == sorted([0, 1, 2] * 4)
    assert seen(1) == sorted([*range(6)] * 2)
    assert seen(2) == seen(3) == list(range(12))
    assert len(list(batches.epoch(0))) == len(batches)
