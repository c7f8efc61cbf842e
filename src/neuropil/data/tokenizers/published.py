"""The tokenizers of published models, from the files beside their weights: GPT-2's byte-level BPE, BERT's WordPiece and
CLIP's BPE.

`tokenizer.json` holds everything. Older folders have `vocab.json` with `merges.txt` (GPT-2, CLIP) or `vocab.txt`
(BERT), and the rest follows from the family. What `save` writes opens in Hugging Face's `AutoTokenizer`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from neuropil.data.tokenizers.byte_level import byte_labels, bytes_of
from neuropil.data.tokenizers.encoding import AnyTokenizer, encode_all, fingerprint_of
from neuropil.data.tokenizers.parsed import UnfitTokenizerError, parse_tokenizer, refused_by_library
from neuropil.errors import InputError, RunError
from neuropil.files import write_text

FamilyName = Literal["gpt2", "bert", "clip"]

TOKENIZER_FILE, CONFIG_FILE, SPECIAL_FILE = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
WORD_END, CONTINUED = "</w>", "##"
"""With what CLIP marks the end of a word, and BERT a piece that goes on with one."""
CLIP_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
NO_LIMIT = 10**9
"""Hugging Face writes a number beyond this where a tokenizer has no longest text."""
ENOUGH = 0.9
"""Share of a model's vocabulary that its tokenizer must know: models round theirs up, for speed."""


@dataclass(frozen=True)
class TokenizerFamily:
    hugging_face: str
    """The class that reads its files there."""
    special: dict[str, str]
    """Under Hugging Face's names."""


FAMILIES: dict[FamilyName, TokenizerFamily] = {
    "gpt2": TokenizerFamily("GPT2Tokenizer", dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")),
    "bert": TokenizerFamily(
        "BertTokenizer", {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "cls", "sep", "mask", "unk")}
    ),
    "clip": TokenizerFamily(
        "CLIPTokenizer",
        {"bos_token": "<|startoftext|>"} | dict.fromkeys(("eos_token", "unk_token", "pad_token"), "<|endoftext|>"),
    ),
}
ROLES = ("pad_token", "bos_token", "cls_token", "eos_token", "sep_token", "mask_token", "unk_token")


class PublishedTokenizer:
    """`padding`, `start`, `end`, `mask` and `unknown` are token numbers, or None where the family has no such token.

    As with Hugging Face, a text that says `[MASK]` or `<|endoftext|>` means the token. `max_length` is the longest text
    that the model was made for, where the files say it.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, family: FamilyName, config: Mapping[str, Any]):
        self.family: FamilyName = family
        self._tokenizer, self._config = tokenizer, dict(config)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._special = {role: _content(config.get(role)) for role in ROLES}
        self.padding, self.mask, self.unknown = map(self._number, ("pad_token", "mask_token", "unk_token"))
        self.start, self.end = self._number("bos_token", "cls_token"), self._number("eos_token", "sep_token")
        longest = config.get("model_max_length")
        self.max_length = longest if isinstance(longest, int) and longest < NO_LIMIT else None
        self._added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
        self._before, self._after = _surrounding(tokenizer)
        if tokenizer.decoder is None:
            raise UnfitTokenizerError("no decoder")

    @classmethod
    def load(cls, folder: str | Path) -> "PublishedTokenizer":
        folder = Path(folder)
        require_files(folder)
        config = _read_json(folder / SPECIAL_FILE) | _read_json(folder / CONFIG_FILE)
        rule = f"the tokenizer's files in {folder} must fit together"
        with refused_by_library(InputError(rule, got="some that do not", fix="download them again")):
            if (folder / TOKENIZER_FILE).exists():
                tokenizer, family = _read_tokenizer(folder / TOKENIZER_FILE)
            elif (folder / "vocab.txt").exists():
                tokenizer, family = _read_word_pieces(folder / "vocab.txt", config), "bert"
            else:
                tokenizer, family = _read_merges(folder, config)
            return cls(tokenizer, family, {**FAMILIES[family].special, **config})

    @classmethod
    def restore(cls, folder: Path) -> "PublishedTokenizer":
        """From a run, which holds what `save` wrote."""
        fix = "copy the whole folder again, or train again"
        for path in (folder / TOKENIZER_FILE, folder / CONFIG_FILE):
            if not path.exists():
                raise RunError(f"{path} must be what neuropil wrote", got="no such file", fix=fix)
        try:
            return cls.load(folder)
        except InputError as error:
            raise RunError(error.rule, got=error.got, fix=fix) from error

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self._tokenizer)

    @property
    def independent_words(self) -> bool:
        added = self._tokenizer.get_added_tokens_decoder().values()
        reaching = any(token.lstrip or token.rstrip or len(token.content.split()) > 1 for token in added)
        return not reaching and "add_prefix_space=True" not in repr(self._tokenizer.pre_tokenizer)

    def encode(self, texts: Sequence[str], *, special: bool = False, longest: int | None = None) -> list[list[int]]:
        """Token numbers, with `special` between start and end; what is longer than `longest` loses its end."""
        before, after = (self._before, self._after) if special else ([], [])
        room = None if longest is None else max(longest - len(before) - len(after), 0)
        return [[*before, *ids[:room], *after] for ids in encode_all(self._tokenizer, texts)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text; padding, start and end say nothing."""
        silent = (self.padding, self.start, self.end)
        found = (self._tokenizer.id_to_token(number) for number in ids if number not in silent)
        tokens = [token for token in found if token is not None]
        if self.family == "clip":
            tokens = [f"{token.removesuffix(WORD_END)}Ġ" if token.endswith(WORD_END) else token for token in tokens]
            return self._tokenizer.decoder.decode(tokens).rstrip(" ")
        return self._tokenizer.decoder.decode(tokens)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """A label for each token: BERT's as they stand in the vocabulary; of the others the text, see `byte_labels`."""
        texts = [self._tokenizer.id_to_token(number) or f"<{number}>" for number in ids]
        if self.family == "bert":
            return texts
        return byte_labels([text if text in self._added else self._bytes(text) for text in texts])

    def save(self, folder: str | Path) -> None:
        config = {"tokenizer_class": FAMILIES[self.family].hugging_face} | self._config | _normalising(self._tokenizer)
        write_text(Path(folder, TOKENIZER_FILE), self._tokenizer.to_str(pretty=True))
        write_text(Path(folder, CONFIG_FILE), json.dumps(config, indent=2, ensure_ascii=False) + "\n")

    def _number(self, *roles: str) -> int | None:
        found = [self._tokenizer.token_to_id(token) for role in roles if (token := self._special[role]) is not None]
        return next((number for number in found if number is not None), None)

    def _bytes(self, token: str) -> bytes:
        if self.family == "clip" and token.endswith(WORD_END):
            return bytes_of(token.removesuffix(WORD_END)) + b" "
        return bytes_of(token)


def require_fits(tokenizer: AnyTokenizer, vocabulary: int, folder: str | Path) -> None:
    if not ENOUGH * vocabulary <= len(tokenizer) <= vocabulary:
        rule = f"the tokenizer in {folder} must fit the model's vocabulary of {vocabulary:,} tokens"
        got = f"one of {len(tokenizer):,}"
        raise InputError(rule, got=got, fix="take the tokenizer's files from where the model comes from")


def require_files(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else None
    enough = ({TOKENIZER_FILE}, {"vocab.json", "merges.txt"}, {"vocab.txt"})
    if names is None or not any(needed <= names for needed in enough):
        rule = f"{folder} must hold a tokenizer: tokenizer.json, or vocab.json with merges.txt, or vocab.txt"
        got = "no such folder" if names is None else "none of them"
        raise InputError(rule, got=got, fix="take these files from where the model comes from")


# --- reading ----------------------------------------------------------------------------------------------------------


def _read_tokenizer(path: Path) -> tuple[tokenizers.Tokenizer, FamilyName]:
    with refused_by_library(_damaged(path)):
        tokenizer = parse_tokenizer(path.read_text(encoding="utf-8"))
    kind = type(tokenizer.model).__name__
    if kind == "WordPiece":
        return tokenizer, "bert"
    if kind == "BPE" and "ByteLevel" in repr(tokenizer.pre_tokenizer):
        return tokenizer, "clip" if tokenizer.model.end_of_word_suffix == WORD_END else "gpt2"
    got = f"{kind} of another kind" if kind == "BPE" else kind
    raise InputError(f"{path} must be byte-level BPE, WordPiece or CLIP's BPE", got=got)


def _read_word_pieces(path: Path, config: Mapping[str, Any]) -> tokenizers.Tokenizer:
    special = {**FAMILIES["bert"].special, **config}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as cause:
        raise _damaged(path) from cause
    vocabulary = {token.rstrip("\r"): number for number, token in enumerate(lines[:-1] if lines[-1] == "" else lines)}
    needed = [special[role] for role in ("unk_token", "cls_token", "sep_token")]
    _require_tokens(path, vocabulary, *needed)
    unknown, first, last = (_content(token) or "" for token in needed)
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
        strip_accents=config.get("strip_accents"),
        lowercase=config.get("do_lower_case", True),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    _add_special(tokenizer, special)
    finish_word_pieces(tokenizer, first, last)
    return tokenizer


def finish_word_pieces(tokenizer: tokenizers.Tokenizer, first: str, last: str) -> None:
    """As BERT has it: pieces are joined to words, and texts stand between the first token and the last."""
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUED)
    single = f"{first}:0 $A:0 {last}:0"
    special = [(token, tokenizer.token_to_id(token)) for token in (first, last)]
    pair = f"{single} $B:1 {last}:1"
    tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)


def _read_merges(folder: Path, config: Mapping[str, Any]) -> tuple[tokenizers.Tokenizer, FamilyName]:
    rule = f"{folder} must hold a vocab.json and a merges.txt that belong together"
    got, fix = "damaged files, or those of different tokenizers", "take both from where the model comes from"
    with refused_by_library(InputError(rule, got=got, fix=fix)):
        vocabulary, merges = models.BPE.read_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
        # Only CLIP marks the ends of words.
        marked = any(len(token) > len(WORD_END) and token.endswith(WORD_END) for token in vocabulary)
        family: FamilyName = "clip" if marked else "gpt2"
        special = {**FAMILIES[family].special, **config}
        if family == "gpt2":
            tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=config.get("add_prefix_space", False))
        else:
            unknown = _content(special["unk_token"])
            model = models.BPE(vocabulary, merges, end_of_word_suffix=WORD_END, unk_token=unknown)
            tokenizer = tokenizers.Tokenizer(model)
    tokenizer.decoder = decoders.ByteLevel()
    _require_tokens(folder / "vocab.json", vocabulary, special["eos_token"])
    if family == "clip":
        _require_tokens(folder / "vocab.json", vocabulary, special["bos_token"])
        _finish_clip(tokenizer, vocabulary, special)
    _add_special(tokenizer, special)
    return tokenizer, family


def _finish_clip(tokenizer: tokenizers.Tokenizer, vocabulary: Mapping[str, int], special: Mapping[str, Any]) -> None:
    first, last = (_content(special[role]) or "" for role in ("bos_token", "eos_token"))
    one_space = normalizers.Replace(tokenizers.Regex(r"\s+"), " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), one_space, normalizers.Lowercase()])
    tokenizer.pre_tokenizer = split_for_clip(rf"<\|startoftext\|>|<\|endoftext\|>|{CLIP_WORDS}")
    around = (last, vocabulary[last]), (first, vocabulary[first])
    tokenizer.post_processor = processors.RobertaProcessing(*around, trim_offsets=False, add_prefix_space=False)


def split_for_clip(words: str = CLIP_WORDS) -> pre_tokenizers.PreTokenizer:
    split = pre_tokenizers.Split(tokenizers.Regex(words), "removed", invert=True)
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False)])


def _add_special(tokenizer: tokenizers.Tokenizer, special: Mapping[str, Any]) -> None:
    contents = dict.fromkeys(content for role in ROLES if (content := _content(special.get(role))) is not None)
    tokens = [tokenizers.AddedToken(content, special=True, normalized=False) for content in contents]
    tokenizer.add_special_tokens(tokens)


def _surrounding(tokenizer: tokenizers.Tokenizer) -> tuple[list[int], list[int]]:
    """The tokens that stand before and after a text."""
    encoding = tokenizer.encode("a")
    own = [place for place, special in enumerate(encoding.special_tokens_mask) if not special]
    if not own:
        raise InputError("a tokenizer must have a token for every text", got="one without any for the letter a")
    return encoding.ids[: own[0]], encoding.ids[own[-1] + 1 :]


def _normalising(tokenizer: tokenizers.Tokenizer) -> dict[str, Any]:
    """Hugging Face's class for BERT asks the configuration, and not tokenizer.json."""
    normalizer = tokenizer.normalizer
    if not isinstance(normalizer, normalizers.BertNormalizer):
        return {}
    return {
        "do_lower_case": normalizer.lowercase,
        "strip_accents": normalizer.strip_accents,
        "tokenize_chinese_chars": normalizer.handle_chinese_chars,
    }


def _content(token: Any) -> str | None:
    """Written as a text, or as a dictionary of its properties."""
    return token["content"] if isinstance(token, Mapping) else token


def _require_tokens(path: Path, vocabulary: Mapping[str, int], *needed: Any) -> None:
    for token in map(_content, needed):
        if token not in vocabulary:
            rule = f"{path} must hold the token {token}"
            raise InputError(rule, got="a vocabulary without it", fix="download it again")


def _read_json(path: Path) -> dict[str, Any]:
    """Nothing, where there is no such file."""
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")).items())
    except (ValueError, AttributeError, RecursionError) as cause:  # the latter where it is no object
        raise _damaged(path) from cause


def _damaged(path: Path) -> InputError:
    rule = f"{path} must be a file that Hugging Face's tokenizers can read"
    return InputError(rule, got="a damaged one", fix="download it again")


def fitting_tokenizer(folder: Path, vocabulary: int) -> PublishedTokenizer:
    tokenizer = PublishedTokenizer.load(folder)
    require_fits(tokenizer, vocabulary, folder)
    return tokenizer
