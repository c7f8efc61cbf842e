"""New tokenizers of the published kinds, learned from the user's own text: byte-level BPE as GPT-2 has it, WordPiece as BERT has it.

The same texts always give the same tokenizer. Where they have fewer tokens to offer than `vocabulary`, it is smaller.
"""

from collections.abc import Sequence

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from neuropil.data.formats.contents import tracked
from neuropil.data.tokenizers.learned import byte_of_letter, own_threads
from neuropil.data.tokenizers.published import FAMILIES, PublishedTokenizer

MARK = "##"
"""Before a piece that goes on with a word."""


def learn_merges(texts: Sequence[str], vocabulary: int) -> PublishedTokenizer:
    """GPT-2's: frequent neighbours become one token. All 256 bytes are kept, however small the vocabulary, so every text comes back."""
    special = FAMILIES["gpt2"].special
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=sorted(set(special.values())),
        initial_alphabet=sorted(byte_of_letter()),
        show_progress=False,
    )
    _learn(tokenizer, texts, trainer)
    return PublishedTokenizer(tokenizer, "gpt2", special)


def learn_word_pieces(texts: Sequence[str], vocabulary: int) -> PublishedTokenizer:
    """BERT's: frequent words are one token, others are put together from pieces. Letters lose their case."""
    special = FAMILIES["bert"].special
    normalizer, split = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    learner = tokenizers.Tokenizer(models.WordPiece(unk_token=special["unk_token"]))
    learner.normalizer, learner.pre_tokenizer = normalizer, split
    # The library numbers letters inside words as it meets them, in an order that differs from run to run: here they are numbered first.
    inside = {
        letter
        for text in texts
        for word, _ in split.pre_tokenize_str(normalizer.normalize_str(text))
        for letter in word[1:]
    }
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        special_tokens=[*special.values(), *(f"{MARK}{letter}" for letter in sorted(inside))],
        continuing_subword_prefix=MARK,
        show_progress=False,
    )
    _learn(learner, texts, trainer)
    tokenizer = tokenizers.Tokenizer(models.WordPiece(learner.get_vocab(), unk_token=special["unk_token"]))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = (
        normalizer,
        split,
        decoders.WordPiece(prefix=MARK),
    )
    tokenizer.add_special_tokens(list(special.values()))
    first, last = special["cls_token"], special["sep_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first}:0 $A:0 {last}:0",
        pair=f"{first}:0 $A:0 {last}:0 $B:1 {last}:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last)],
    )
    return PublishedTokenizer(tokenizer, "bert", special)


def _learn(tokenizer: tokenizers.Tokenizer, texts: Sequence[str], trainer: trainers.Trainer) -> None:
    with own_threads():
        tokenizer.train_from_iterator(tracked(texts, "Learning the vocabulary"), trainer)
