"""The pronunciations of g2p-en's own code, word for word, from its weights in our encoder and decoder.

The package must be there (`pip install --no-deps g2p-en`); the rest of what it asks for need not be. Its module looks
for dictionaries on the network as soon as it is imported, so that only its class is executed here, as it stands in the
file, without a dictionary.
"""

import ast
import importlib.util
import os
import re
import types
import warnings
from pathlib import Path
from pydoc_data import topics
from typing import Any

import numpy as np
import pytest
import torch

from neuropil.pretrained.g2p import G2P, MOST_PHONEMES, THEIR_LETTERS, THEIR_PHONEMES, from_g2p
from neuropil.protocols import END, START
from neuropil.sampling.text.beam_search import beam_search, greedy_search

SPEC = importlib.util.find_spec("g2p_en")
pytestmark = pytest.mark.skipif(SPEC is None, reason="g2p-en is not installed")


@pytest.fixture(scope="module")
def theirs() -> Any:
    folder = Path(SPEC.submodule_search_locations[0])  # type: ignore[union-attr, index]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a backslash in one of its strings
        module = ast.parse((folder / "g2p.py").read_text(encoding="utf-8"))
    module.body = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == "G2p"]
    dictionary = types.SimpleNamespace(dict=dict)  # without a word in it
    names: dict[str, Any] = {
        "np": np,
        "os": os,
        "dirname": str(folder),
        "cmudict": dictionary,
        "construct_homograph_dictionary": dict,
    }
    exec(compile(module, "g2p.py", "exec"), names)  # noqa: S102 (the reference is the package's own code)
    return names["G2p"]()


@pytest.fixture(scope="module")
def ours() -> G2P:
    return from_g2p()


def words() -> list[str]:
    """Of the Python documentation that comes with Python."""
    found = set(re.findall(r"[a-z]{2,}", " ".join(topics.topics.values())))
    return [
        *sorted(found)[::4],
        "x" * 30,
        "élan",
        "don't",
        "MixedCase",
        "pneumonoultramicroscopicsilicovolcanoconiosis",
    ]


@torch.no_grad()
def test_every_word_is_pronounced_as_g2p_en_pronounces_it(ours: G2P, theirs: Any):
    spoken = words()
    assert len(spoken) > 500
    state = ours.model.begin(ours.encode(spoken))
    written = greedy_search(ours.model.step, state, [MOST_PHONEMES] * len(spoken), start=START, end=END)
    different = {
        word: (ours.decode(one.tokens), theirs.predict(word)) for word, one in zip(spoken, written, strict=True)
    }
    assert {word: pair for word, pair in different.items() if pair[0] != pair[1]} == {}


@torch.no_grad()
def test_states_and_logits_are_those_of_g2p_en(ours: G2P, theirs: Any):
    for word in ("neuropil", "a", "attention"):
        read = theirs.gru(
            theirs.encode(word), len(word) + 1, theirs.enc_w_ih, theirs.enc_w_hh, theirs.enc_b_ih, theirs.enc_b_hh
        )
        state = ours.model.begin(ours.encode([word]))
        torch.testing.assert_close(state.states[0].h, torch.from_numpy(read[:, -1]))
        begun = np.take(theirs.dec_emb, [theirs.p2idx["<s>"]], axis=0)
        h = theirs.grucell(begun, read[:, -1], theirs.dec_w_ih, theirs.dec_w_hh, theirs.dec_b_ih, theirs.dec_b_hh)
        logits = dict(zip(theirs.phonemes, (h @ theirs.fc_w.T + theirs.fc_b)[0].tolist(), strict=True))
        found = dict(zip(ours.phonemes, ours.model.step(torch.tensor([[START]]), state)[0].tolist(), strict=True))
        assert found == pytest.approx(logits, abs=1e-4)


def test_letters_and_phonemes_are_g2p_ens(theirs: Any):
    assert list(THEIR_LETTERS) == theirs.graphemes
    assert list(THEIR_PHONEMES) == theirs.phonemes


@torch.no_grad()
def test_a_beam_finds_pronunciations_that_are_at_least_as_probable(ours: G2P):
    spoken = ["neuropil", "activationist", "quokka"]
    best = greedy_search(ours.model.step, ours.model.begin(ours.encode(spoken)), [20] * 3, start=START, end=END)
    beams = beam_search(
        ours.model.step,
        ours.model.begin(ours.encode(spoken)),
        [20] * 3,
        width=5,
        start=START,
        end=END,
        length_penalty=0.0,
    )
    for one, ranked in zip(best, beams, strict=True):
        assert ranked[0].log_probability >= one.log_probability - 1e-4
