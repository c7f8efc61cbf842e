"""g2p-en, which says how English words that are in no dictionary are pronounced: its GRU encoder and decoder as a
`Seq2Seq`, and back.

    # of the installed package, or of a checkpoint20.npz
    g2p = from_g2p()
    state = g2p.model.begin(g2p.encode(["neuropil"]))
    written = greedy_search(g2p.model.step, state, [MOST_PHONEMES], start=START, end=END)
    g2p.decode(written[0].tokens)                                        # ["N", "UH1", "R", …]

Two things differ, and none of them in what is computed. Our tokens begin with padding, start, end and unknown, so that
rows change places. And of the two biases that PyTorch's GRU adds to each gate, ours has the sum, except where the reset
gate comes between them.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.data.formats.npz import open_npz
from neuropil.errors import InputError
from neuropil.models.seq2seq import Seq2Seq, Seq2SeqConfig
from neuropil.protocols import PADDING, UNKNOWN

CHECKPOINT = "checkpoint20.npz"
RULE = f"from_g2p reads {CHECKPOINT} of the package g2p-en"
MOST_PHONEMES = 20
"""After so many their own `predict` stops."""

OUR_FIRST = ("<pad>", "<s>", "</s>", "<unk>")
"""By the numbers of PADDING, START, END and UNKNOWN."""
THEIR_LETTERS = ("<pad>", "<unk>", "</s>", *ascii_lowercase)
VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW".split()  # noqa: SIM905 (a list of them is a page)
CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH".split()  # noqa: SIM905
STRESSED = sorted([*CONSONANTS, *(vowel + stress for vowel in VOWELS for stress in "012"), "UW"])
THEIR_PHONEMES = ("<pad>", "<unk>", "<s>", "</s>", *STRESSED)
"""Vowels with their stress: none, primary, secondary; one of them also without."""
LETTERS = (*OUR_FIRST, *ascii_lowercase)
PHONEMES = (*OUR_FIRST, *THEIR_PHONEMES[4:])

NAMES = {
    "encoder.forwards.0.input_weight": "enc_w_ih",
    "encoder.forwards.0.state_weight": "enc_w_hh",
    "decoder.recurrence.forwards.0.input_weight": "dec_w_ih",
    "decoder.recurrence.forwards.0.state_weight": "dec_w_hh",
}
ROWS = {
    "source.weight": ("enc_emb", LETTERS, THEIR_LETTERS),
    "target.weight": ("dec_emb", PHONEMES, THEIR_PHONEMES),
    "output.weight": ("fc_w", PHONEMES, THEIR_PHONEMES),
    "output.bias": ("fc_b", PHONEMES, THEIR_PHONEMES),
}
"""Those with a row for each token, and what the rows stand for, in our order and in theirs."""
CELLS = {"encoder.forwards.0": "enc", "decoder.recurrence.forwards.0": "dec"}
"""Those with two biases."""
THEIRS = {
    *NAMES.values(),
    *(name for name, _, _ in ROWS.values()),
    *(f"{cell}_b_{kind}" for cell in CELLS.values() for kind in ("ih", "hh")),
}


@dataclass(frozen=True)
class G2P:
    """`letters` and `phonemes` are by the numbers of their tokens."""

    model: Seq2Seq
    letters: tuple[str, ...] = LETTERS
    phonemes: tuple[str, ...] = PHONEMES

    def encode(self, words: Sequence[str]) -> Int64[Tensor, "batch time"]:
        """Words of lower-case letters; what is none is unknown to the model."""
        numbers = {letter: number for number, letter in enumerate(self.letters)}
        rows = [[*(numbers.get(letter, UNKNOWN) for letter in word), numbers["</s>"]] for word in words]
        longest = max(map(len, rows), default=0)
        padded = [row + [PADDING] * (longest - len(row)) for row in rows]
        return torch.tensor(padded, dtype=torch.int64).reshape(len(rows), longest)

    def decode(self, tokens: Sequence[int]) -> list[str]:
        return [self.phonemes[number] for number in tokens]


def from_g2p(path: Path | str | None = None) -> G2P:
    """From the installed package g2p-en, or from a checkpoint20.npz. Nothing of the package is executed."""
    arrays = _read(_installed() if path is None else Path(path))
    units, width = arrays["enc_w_hh"].shape[-1], arrays["enc_emb"].shape[-1]
    config = Seq2SeqConfig(
        cell="gru",
        attention="none",
        embedding_size=width,
        hidden_size=units,
        bidirectional=False,
        dropout=0.0,
        source_vocabulary_size=len(LETTERS),
        target_vocabulary_size=len(PHONEMES),
    )
    model = Seq2Seq(config)
    _require_shapes(arrays, to_g2p(model))
    theirs = {name: torch.from_numpy(array) for name, array in arrays.items()}
    weights = {ours: theirs[name] for ours, name in NAMES.items()}
    weights |= {ours: _reordered(theirs[name], own, other) for ours, (name, own, other) in ROWS.items()}
    for ours, cell in CELLS.items():
        outside, inside = theirs[f"{cell}_b_ih"], theirs[f"{cell}_b_hh"]
        weights[f"{ours}.bias"] = torch.cat([outside[: 2 * units] + inside[: 2 * units], outside[2 * units :]])
        weights[f"{ours}.state_bias"] = inside[2 * units :]
    model.load_state_dict(weights)
    return G2P(model.eval())


def to_g2p(model: Seq2Seq) -> dict[str, np.ndarray]:
    """What `np.savez` makes a checkpoint20.npz of, for a model of the same form, perhaps trained further."""
    weights, different = model.state_dict(), _other_form(model.config)
    if different is not None:
        rule = "g2p-en has one layer of GRU in one direction without attention, for its letters and phonemes"
        raise InputError(rule, got=different)
    arrays = {name: weights[ours] for ours, name in NAMES.items()}
    arrays |= {name: _reordered(weights[ours], other, own) for ours, (name, own, other) in ROWS.items()}
    for ours, cell in CELLS.items():
        inside = weights[f"{ours}.state_bias"]
        arrays[f"{cell}_b_ih"] = weights[f"{ours}.bias"]
        arrays[f"{cell}_b_hh"] = torch.cat([inside.new_zeros(2 * len(inside)), inside])
    return {name: tensor.cpu().numpy() for name, tensor in arrays.items()}


def _other_form(config: Seq2SeqConfig) -> str | None:
    """What keeps a model from being one of theirs."""
    form = {"cell": "gru", "attention": "none", "layers": 1, "bidirectional": False}
    form |= {"source_vocabulary_size": len(LETTERS), "target_vocabulary_size": len(PHONEMES)}
    different = (name for name, value in form.items() if getattr(config, name) != value)
    return next((f"{name}={getattr(config, name)!r}" for name in different), None)


def _reordered(
    rows: Float[Tensor, "from *any"], wanted: Sequence[str], given: Sequence[str]
) -> Float[Tensor, "to *any"]:
    """Their letters know no start, and nothing ever reads its row."""
    place = {name: number for number, name in enumerate(given)}
    return torch.stack([rows[place[name]] if name in place else torch.zeros_like(rows[0]) for name in wanted])


def _installed() -> Path:
    spec = importlib.util.find_spec("g2p_en")
    if spec is None or not spec.submodule_search_locations:
        fix = "pip install --no-deps g2p-en, or give the file's path"
        raise InputError(RULE, got="no such package installed", fix=fix)
    return Path(spec.submodule_search_locations[0]) / CHECKPOINT


def _read(path: Path) -> Mapping[str, np.ndarray]:
    if not path.is_file():
        raise InputError(RULE, got=f"{str(path)!r}, which is no file")
    with open_npz(path) as file:
        arrays = {name: file[name] for name in file.files}
    if different := sorted(THEIRS ^ arrays.keys()):
        raise InputError(RULE, got=f"a file {'without' if different[0] in THEIRS else 'with'} {different[0]!r}")
    for name, array in arrays.items():
        if array.dtype != np.float32 or array.ndim != (1 if name.startswith(("enc_b", "dec_b", "fc_b")) else 2):
            raise InputError(RULE, got=f"a file whose {name!r} has {array.ndim} axes of {array.dtype}")
    return arrays


def _require_shapes(arrays: Mapping[str, np.ndarray], like: Mapping[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        if array.shape != like[name].shape:
            wanted = f"where {like[name].shape} would fit the others"
            raise InputError(RULE, got=f"a file whose {name!r} has the shape {array.shape} {wanted}")
