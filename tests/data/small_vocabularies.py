"""Folders as published models have them, with vocabularies that are learned in a moment."""

import json
from pathlib import Path

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

TEXTS = [
    "The cat sat on the mat; don't you think she'll like it?",
    "Die Katze saß auf der Matte, und die Matte war rot.",
    "گربه روی فرش نشست و می‌خوابد",
    "बिल्ली चटाई पर बैठी",
    "猫坐在垫子上。 12 3,456 🙂🙂",
] * 3
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


def write_gpt2(folder: Path) -> Path:
    """vocab.json and merges.txt; the end of the text has the last number."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    _train(tokenizer, trainers.BpeTrainer(vocab_size=400, initial_alphabet=BYTES, show_progress=False))
    return _write(tokenizer, folder, "<|endoftext|>")


def write_clip(folder: Path) -> Path:
    """The same with ends of words. Learning gives those to letters seen last in one; each byte needs them."""
    tokenizer = tokenizers.Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    _train(
        tokenizer,
        trainers.BpeTrainer(vocab_size=500, initial_alphabet=BYTES, end_of_word_suffix="</w>", show_progress=False),
    )
    return _write(tokenizer, folder, *[f"{letter}</w>" for letter in BYTES], "<|startoftext|>", "<|endoftext|>")


def write_bert(folder: Path, **config: object) -> Path:
    """vocab.txt, and tokenizer_config.json if there is anything to say."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))  # noqa: S106  # no password
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    _train(tokenizer, trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False))
    vocabulary = tokenizer.get_vocab()
    (folder / "vocab.txt").write_text(
        "".join(f"{token}\n" for token in sorted(vocabulary, key=vocabulary.__getitem__)), encoding="utf-8"
    )
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def _train(tokenizer: tokenizers.Tokenizer, trainer: trainers.Trainer) -> None:
    from neuropil.data.tokenizers.encoding import own_threads

    with own_threads():
        tokenizer.train_from_iterator(TEXTS, trainer)


def _write(tokenizer: tokenizers.Tokenizer, folder: Path, *more: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.model.save(str(folder))
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    for token in more:
        vocabulary.setdefault(token, len(vocabulary))
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    return folder
