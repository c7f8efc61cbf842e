"""The Transformer: what it may see, what it writes with and without its cache, and how large it is."""

import copy
import dataclasses
import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.models.transformer import SIZES, Transformer, TransformerConfig, is_token
from neuropil.parts.parameters import count_parameters
from neuropil.parts.positions import PositionName
from neuropil.protocols import END, PADDING, START
from neuropil.sampling.text.beam_search import beam_search, greedy_search

TINY = TransformerConfig(
    width=12, heads=3, layers=2, feed_forward=16, context=40, source_vocabulary_size=15, target_vocabulary_size=15
)


def made(**options: Any) -> Transformer:
    """Not in its first state, in which biases are zero; with little dropout, so that forgetting to switch it off would
    show."""
    torch.manual_seed(0)
    model = Transformer(dataclasses.replace(TINY, **options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model.eval()


MODELS = {
    "published": made(),
    "pre-norm": made(norm="pre"),
    "separate": made(shared_embeddings=False, target_vocabulary_size=11, positions="learned", final_norm=True),
    "pruned": made(positions="none", kept_heads=(3, 0, 1, 2, 0, 3)),
}
models = st.sampled_from(sorted(MODELS))


def tokens(*shape: int) -> Tensor:
    return torch.randint(4, 11, shape)


# --- as the equations say ---------------------------------------------------------------------------------------------


def test_logits_are_those_of_the_equations():
    """One block each, post-norm, written out with plain matrices."""
    model = made(layers=1).double()
    source, target = tokens(1, 5), tokens(1, 4)
    E, d = model.source.weight, 12

    def positions(time: int) -> Tensor:
        table = [
            [(math.cos if j % 2 else math.sin)(i / 10000 ** ((j - j % 2) / d)) for j in range(d)] for i in range(time)
        ]
        return torch.tensor(table, dtype=torch.float64)

    def attention(module: Any, query: Tensor, key: Tensor, causal: bool = False) -> Tensor:
        weights, biases = module.projection.weight.chunk(3), module.projection.bias.chunk(3)
        q, k, v = (x @ W.T + b for x, W, b in zip((query, key, key), weights, biases, strict=True))
        heads = []
        for head in torch.arange(d).split(4):
            scores = q[:, head] @ k[:, head].T / math.sqrt(4)
            scores = scores + torch.full_like(scores, -torch.inf).triu(1) if causal else scores
            heads.append(scores.softmax(-1) @ v[:, head])
        return torch.cat(heads, -1) @ module.output.weight.T + module.output.bias

    def norm(residual: Any, x: Tensor) -> Tensor:
        spread = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
        return spread * residual.norm.weight + residual.norm.bias

    def feed_forward(net: Any, x: Tensor) -> Tensor:
        return (x @ net.inner.weight.T + net.inner.bias).clamp(min=0) @ net.outer.weight.T + net.outer.bias

    x, y = (math.sqrt(d) * E[side[0]] + positions(side.shape[1]) for side in (source, target))
    block, writer = model.encoder[0], model.decoder[0]
    x = norm(block.attention_sum, x + attention(block.attention, x, x))
    x = norm(block.feed_forward_sum, x + feed_forward(block.feed_forward, x))
    y = norm(writer.attention_sum, y + attention(writer.attention, y, y, causal=True))
    y = norm(writer.cross_sum, y + attention(writer.cross, y, x))
    y = norm(writer.feed_forward_sum, y + feed_forward(writer.feed_forward, y))
    torch.testing.assert_close(model(source, target)[0], y @ E.T, atol=1e-6, rtol=1e-6)


def test_shared_embeddings_are_one_matrix_in_three_places():
    model = made()
    assert model.target_embedding is model.source
    assert model.output_weight is model.source.weight
    separate = MODELS["separate"]
    assert (
        len(
            {
                id(weight)
                for weight in (separate.source.weight, separate.target_embedding.weight, separate.output_weight)
            }
        )
        == 3
    )
    source, target = tokens(2, 5), tokens(2, 4)
    assert separate(source, target).shape == (2, 4, 11)
    torch.testing.assert_close(
        separate(source, target), F.linear(separate.hidden(source, target), separate.output.weight)
    )


def test_first_vectors_are_as_long_as_the_positions_and_first_logits_are_small():
    torch.manual_seed(0)
    model = Transformer(
        dataclasses.replace(SIZES["small"], source_vocabulary_size=500, target_vocabulary_size=500)
    ).eval()
    x = math.sqrt(256) * model.source.weight
    assert x.norm(dim=-1).mean().item() == pytest.approx(math.sqrt(256), rel=0.05)
    logits = model(torch.randint(4, 500, (4, 9)), torch.randint(4, 500, (4, 9)))
    assert 0.3 < logits.std().item() < 3


def test_dropout_is_on_every_sublayer_and_on_the_embeddings_as_published():
    assert sum(isinstance(module, nn.Dropout) and module.p == 0.1 for module in made().modules()) == 2 * 2 + 2 * 3 + 1
    model, source, target = made().train(), tokens(2, 5), tokens(2, 4)
    assert not torch.equal(model(source, target), model(source, target))


# --- what may be seen -------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(name=models, time=st.integers(2, 7), data=st.data())
def test_no_token_sees_what_is_written_after_it(name: str, time: int, data: st.DataObject):
    model, source, target = MODELS[name], tokens(2, 5), tokens(2, time)
    first = data.draw(st.integers(1, time - 1))
    other = torch.cat([target[:, :first], tokens(2, time - first)], 1)
    torch.testing.assert_close(model(source, other)[:, :first], model(source, target)[:, :first], atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=40)
@given(
    name=models,
    source=st.integers(1, 6),
    target=st.integers(1, 6),
    more_source=st.integers(0, 5),
    more_target=st.integers(0, 5),
)
def test_padding_never_changes_an_answer(name: str, source: int, target: int, more_source: int, more_target: int):
    model, x, y = MODELS[name], tokens(2, source), tokens(2, target)
    padded = model(F.pad(x, (0, more_source), value=PADDING), F.pad(y, (0, more_target), value=PADDING))
    torch.testing.assert_close(padded[:, :target], model(x, y), atol=1e-5, rtol=0)


def test_a_source_of_nothing_but_padding_is_read_as_nothing():
    model = made()
    logits = model(torch.full((1, 3), PADDING), tokens(1, 4))
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_without_positions_shuffling_the_source_shuffles_what_the_encoder_says_and_changes_no_logit(norm: str):
    model, source, target = made(positions="none", norm=norm), tokens(2, 6), tokens(2, 4)
    source[1, 4:] = PADDING
    order = torch.tensor([2, 5, 0, 4, 3, 1])

    def read(source: Tensor) -> Tensor:
        return model.encode(model.embed(source, model.source), is_token(source))

    torch.testing.assert_close(read(source[:, order]), read(source)[:, order], atol=1e-5, rtol=0)
    torch.testing.assert_close(model(source[:, order], target), model(source, target), atol=1e-5, rtol=0)
    with_positions = made(norm=norm)
    assert not torch.allclose(with_positions(source[:, order], target), with_positions(source, target), atol=1e-2)


def test_learned_positions_refuse_texts_that_are_longer_and_sinusoids_do_not():
    model = made(positions="learned", context=5)
    for source, target in ((6, 2), (2, 6)):
        with pytest.raises(InputError) as error:
            model(tokens(1, source), tokens(1, target))
        assert str(error.value) == (
            "learned positions reach as far as they were trained, to 5 tokens, but got 6: "
            "shorten the text, or train with longer texts or sinusoidal positions."
        )
    state = model.begin(tokens(1, 5))
    model.step(tokens(1, 5), state)
    with pytest.raises(InputError):
        model.step(tokens(1, 1), state)
    short, long, source, target = made(context=3), made(context=50), tokens(2, 20), tokens(2, 30)
    assert torch.equal(short(source, target), long(source, target))


# --- writing ----------------------------------------------------------------------------------------------------------


def cuts(time: int) -> st.SearchStrategy[list[int]]:
    """Lengths of the pieces of a sequence, none empty."""
    return st.sets(st.integers(1, time - 1) if time > 1 else st.nothing()).map(
        lambda at: [b - a for a, b in pairwise([0, *sorted(at), time])]
    )


@settings(deadline=None, max_examples=40)
@given(name=models, pieces=st.integers(1, 36).flatmap(cuts), seed=st.integers(0, 2**16))
def test_steps_of_any_length_give_the_logits_of_the_whole(name: str, pieces: list[int], seed: int):
    torch.manual_seed(seed)
    model, source, target = MODELS[name], tokens(2, 6), tokens(2, sum(pieces))
    source[0, 3:] = PADDING
    whole, done = model(source, target), 0
    state = model.begin(source)
    for piece in target.split(pieces, dim=1):
        logits = model.step(piece, state)
        done += piece.shape[1]
        assert state.length == done
        torch.testing.assert_close(logits, whole[:, done - 1], atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=20)
@given(name=models, seed=st.integers(0, 2**16), time=st.integers(1, 6))
def test_greedy_writing_with_the_cache_is_exactly_greedy_writing_without(name: str, seed: int, time: int):
    torch.manual_seed(seed)
    model, source = copy.deepcopy(MODELS[name]).double(), tokens(3, time)
    with torch.no_grad():
        written = greedy_search(model.step, model.begin(source), [8] * 3, start=START, end=END)
        for row, one in enumerate(written):
            best = model(source[row : row + 1], torch.tensor([[START, *one.tokens]]))[0].log_softmax(-1).max(-1)
            following = [*one.tokens, END] if one.finished else one.tokens
            assert best.indices.tolist()[: len(following)] == following
            assert len(one.tokens) == 8 or one.finished
            assert one.log_probability == pytest.approx(best.values[: len(following)].sum().item(), abs=1e-4)


@settings(deadline=None, max_examples=15)
@given(name=models, seed=st.integers(0, 2**16), width=st.integers(1, 4))
def test_a_beam_whose_rows_are_dropped_and_repeated_scores_as_the_whole_does(name: str, seed: int, width: int):
    torch.manual_seed(seed)
    model, source = MODELS[name], tokens(3, 5)
    source[1, 2:] = PADDING
    with torch.no_grad():
        beams = beam_search(model.step, model.begin(source), [6, 0, 4], width=width, start=START, end=END)
    for row, outputs in enumerate(beams):
        for one in outputs:
            following = [*one.tokens, *([END] if one.finished else [])]
            if following:
                log_probabilities = model(source[row : row + 1], torch.tensor([[START, *following[:-1]]]))[
                    0
                ].log_softmax(-1)
                total = log_probabilities.gather(-1, torch.tensor(following)[:, None]).sum().item()
                assert one.log_probability == pytest.approx(total, abs=1e-4)


# --- sizes ------------------------------------------------------------------------------------------------------------


def published(layers: int, d: int, ff: int, vocabulary: int) -> int:
    attention = 4 * (d * d + d)
    feed_forward = d * ff + ff + ff * d + d
    norm = 2 * d
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return vocabulary * d + layers * (encoder + decoder)


def empty(config: TransformerConfig) -> Transformer:
    with torch.device("meta"):
        return Transformer(config)


def test_the_base_size_has_the_parameters_of_the_published_architecture():
    base = empty(SIZES["base"])
    assert count_parameters(base) == published(6, 512, 2048, 37_000) == 63_082_496
    torchs = nn.Transformer(512, 8, 6, 6, 2048, batch_first=True, device="meta")
    two_final_norms = 2 * 2 * 512
    assert count_parameters(base) == 37_000 * 512 + count_parameters(torchs) - two_final_norms
    with_norms = empty(dataclasses.replace(SIZES["base"], final_norm=True))
    assert count_parameters(with_norms) == 37_000 * 512 + count_parameters(torchs)


def test_the_big_size_is_the_papers():
    assert count_parameters(empty(SIZES["big"])) == published(6, 1024, 4096, 37_000)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("shared", [True, False])
def test_sizes_follow_from_the_options(positions: PositionName, norm: str, shared: bool):
    model = made(positions=positions, norm=norm, shared_embeddings=shared)
    expected = published(2, 12, 16, 15) + (0 if shared else 2 * 15 * 12) + (40 * 12 if positions == "learned" else 0)
    assert count_parameters(model) == expected + (2 * 2 * 12 if norm == "pre" else 0)
    assert sum(row.count for row in model.parameter_table()) == count_parameters(model)


def test_the_table_of_a_pruned_model_counts_what_is_left():
    model = MODELS["pruned"]
    assert (
        sum(row.count for row in model.parameter_table())
        == count_parameters(model)
        == published(2, 12, 16, 15) - 9 * (4 * 4 * 12 + 3 * 4)
    )


# --- what cannot be ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 5}, "the heads must divide the width, but got 5 heads for a width of 12."),
        ({"heads": 0}, "heads must be at least 1, but got 0."),
        ({"dropout": 1.0}, "dropout must be at most 0.95, but got 1.0."),
        (
            {"target_vocabulary_size": 16},
            "shared embeddings need one vocabulary for both sides, but got 15 and 16 tokens: "
            "share the vocabulary or set shared_embeddings=False.",
        ),
        (
            {"kept_heads": (3, 3)},
            "kept_heads must be a number from 0 to 3 for each of the 6 attention modules, but got (3, 3).",
        ),
        (
            {"kept_heads": (3, 3, 4, 3, 3, 3)},
            "kept_heads must be a number from 0 to 3 for each of the 6 attention modules, but got (3, 3, 4, 3, 3, 3).",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_config_that_cannot_be_says_why(options: dict[str, Any], message: str):
    with pytest.raises(InputError) as error:
        dataclasses.replace(TINY, **options)
    assert str(error.value) == message
