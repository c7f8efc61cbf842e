import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.length_batches import Sequences
from neuropil.data.text_batches import EncodedTexts, encode_texts, hide_tokens, shorten
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.protocols import PADDING, UNKNOWN

TOKENIZER = Tokenizer.train(["a b c d e f g h"], "words")


def test_long_texts_are_cut_at_either_side_and_counted():
    texts, targets = ["a b c", "d e", ""], torch.tensor([0, 1, 0])
    whole, end = (encode_texts(texts, targets, TOKENIZER, limit, "end") for limit in (3, 2))
    beginning = encode_texts(texts, targets, TOKENIZER, 2, "beginning")
    a, b, c, d, e = TOKENIZER.encode(["a b c d e"])[0]
    everything = torch.arange(3)
    assert whole.inputs.padded(everything).tolist() == [[a, b, c], [d, e, 0], [UNKNOWN, 0, 0]]
    assert end.inputs.padded(everything).tolist() == [[b, c], [d, e], [UNKNOWN, 0]]
    assert beginning.inputs.padded(everything).tolist() == [[a, b], [d, e], [UNKNOWN, 0]]
    assert (whole.too_long, end.too_long, beginning.too_long) == (0, 1, 1)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(4, 99), max_size=20), st.integers(1, 30))
def test_a_text_is_never_without_a_token(ids: list[int], limit: int):
    for side in ("beginning", "end"):
        assert 1 <= len(shorten(ids, limit, side)) <= limit


def test_texts_and_their_classes_stay_together():
    encoded = encode_texts(["a", "b c", "d"], torch.tensor([5, 6, 7]), TOKENIZER, 9, "end")
    batch = encoded.take(torch.tensor([2, 1])).batch(torch.tensor([1, 0]))
    assert batch["target"].tolist() == [6, 7]
    assert batch["input"].tolist() == [TOKENIZER.encode(["b c"])[0], [*TOKENIZER.encode(["d"])[0], PADDING]]


def test_tags_are_padded_where_tokens_are():
    encoded = EncodedTexts(Sequences.of([[4, 5, 6], [7]]), Sequences.of([[1, 2, 1], [3]]))
    batch = encoded.take(torch.tensor([1, 0])).batch(torch.tensor([0, 1]))
    assert batch["input"].tolist() == [[7, 0, 0], [4, 5, 6]]
    assert batch["target"].tolist() == [[3, 0, 0], [1, 2, 1]]


def test_hidden_tokens_are_as_many_as_asked_for_and_never_padding():
    tokens = torch.randint(4, 99, (200, 50)).masked_fill(torch.arange(50) >= 30, PADDING)
    batch = hide_tokens(0.2)({"input": tokens, "target": torch.arange(200)}, torch.Generator().manual_seed(0))
    hidden = batch["input"] == UNKNOWN
    assert 0.17 < hidden[:, :30].double().mean() < 0.23
    assert torch.equal(batch["input"][~hidden], tokens[~hidden])
    assert torch.equal(batch["input"] == PADDING, tokens == PADDING)
    assert torch.equal(batch["target"], torch.arange(200))
    assert torch.equal(hide_tokens(0.0)({"input": tokens}, torch.Generator())["input"], tokens)
