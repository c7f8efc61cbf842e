"""A vocabulary for CLIP from captions of the user's: byte-level pieces that know where a word ends, as CLIP's own.

    bytes, bytes that end a word, merged pieces in the order of their merges, <|startoftext|>, <|endoftext|>

Every text can be written in it, and it opens as a `CLIPTokenizer` in Hugging Face's library.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from neuropil.data.tokenizers.learned import byte_of_letter, own_threads
from neuropil.data.tokenizers.published import FAMILIES, WORD_END, PublishedTokenizer
from neuropil.files import write_text


def learn_clip_vocabulary(captions: Sequence[str], size: int) -> PublishedTokenizer:
    """At most `size` tokens, and no fewer than all bytes need."""
    letters = sorted(byte_of_letter())
    special = [FAMILIES["clip"].special[role] for role in ("bos_token", "eos_token")]
    base = [*letters, *(letter + WORD_END for letter in letters)]
    merges = _merges(captions, max(0, size - len(base) - len(special)))
    vocabulary = dict.fromkeys([*base, *("".join(pair) for pair in merges), *special])
    with tempfile.TemporaryDirectory() as folder:
        write_text(Path(folder, "vocab.json"), json.dumps({token: number for number, token in enumerate(vocabulary)}))
        write_text(
            Path(folder, "merges.txt"), "#version: 0.2\n" + "".join(f"{first} {second}\n" for first, second in merges)
        )
        return PublishedTokenizer.load(folder)


def _merges(captions: Sequence[str], most: int) -> list[tuple[str, str]]:
    """Pairs of pieces, the most frequent first."""
    learner = tokenizers.Tokenizer(models.BPE(end_of_word_suffix=WORD_END))
    learner.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    words = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(words), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    alphabet = sorted(byte_of_letter())
    # The trainer counts only those letters that it meets at the end of a word.
    trainer = trainers.BpeTrainer(
        vocab_size=2 * len(alphabet) + most, initial_alphabet=alphabet, end_of_word_suffix=WORD_END, show_progress=False
    )
    with own_threads():
        learner.train_from_iterator(captions, trainer)
    merges = [(first, second) for first, second in json.loads(learner.to_str())["model"]["merges"]]
    return merges[:most]
