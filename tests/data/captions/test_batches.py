import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.augmentation import Augment
from neuropil.data.captions.batches import CaptionBatches, EncodedCaptions, encode_captions
from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.tokenizers.learned import Tokenizer
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
