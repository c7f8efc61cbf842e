"""Sequence to sequence: the papers' equations written out, the whole against step by step, and what may be seen."""

import copy
import dataclasses
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.inspection import record
from neuropil.models.seq2seq import Seq2Seq, Seq2SeqConfig
from neuropil.parts.objectives import SequenceToSequence
from neuropil.parts.parameters import count_parameters
from neuropil.protocols import END, PADDING, START
from neuropil.sampling.text.beam_search import beam_search, greedy_search

TINY = Seq2SeqConfig(embedding_size=5, hidden_size=6, dropout=0.1, source_vocabulary_size=13, target_vocabulary_size=11)
LOOKS = [("none", False), ("bahdanau", False), *product(("dot", "general", "concat"), (False, True))]
"""Every attention, without input feeding and, where there is such, with it."""
CELLS = ("rnn", "lstm", "gru", "mingru")


def made(**options: Any) -> Seq2Seq:
    """Not in its first state, in which biases are zero; with little dropout, so that forgetting to switch it off would
    show."""
    torch.manual_seed(0)
    model = Seq2Seq(dataclasses.replace(TINY, **options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


MODELS = {
    (cell, attention, feeding): made(
        cell=cell, attention=attention, input_feeding=feeding, layers=layers, bidirectional=layers == 1
    )
    for (cell, layers), (attention, feeding) in product(zip(CELLS, (2, 1, 2, 1), strict=True), LOOKS)
} | {
    (cell, attention, True, "other"): made(cell=cell, attention=attention, layers=layers, bidirectional=layers == 2)
    for cell, layers, attention in (
        ("rnn", 1, "general"),
        ("lstm", 2, "bahdanau"),
        ("gru", 1, "bahdanau"),
        ("mingru", 2, "none"),
    )
}
models = st.sampled_from(sorted(MODELS))


def tokens(*shape: int) -> Tensor:
    return torch.randint(4, 11, shape)


# --- as the papers say ------------------------------------------------------------------------------------------------


def torch_cell(cell: Any) -> nn.GRUCell:
    """PyTorch's own step with the weights of ours."""
    theirs = nn.GRUCell(cell.input_size, cell.hidden_size).double()
    inside = torch.cat([torch.zeros(2 * cell.hidden_size), cell.state_bias])
    theirs.load_state_dict(
        {"weight_ih": cell.input_weight, "weight_hh": cell.state_weight, "bias_ih": cell.bias, "bias_hh": inside}
    )
    return theirs


def wider(cell: nn.GRUCell, feed: Tensor) -> nn.GRUCell:
    """The same cell with more inputs, whose weights are those of `feed`."""
    theirs = nn.GRUCell(cell.input_size + feed.shape[1], cell.hidden_size).double()
    theirs.load_state_dict({**cell.state_dict(), "weight_ih": torch.cat([cell.weight_ih, feed], 1)})
    return theirs


def read(model: Seq2Seq, source: Tensor) -> tuple[Tensor, Tensor]:
    """h̄ of a text, and the state with which writing begins."""
    x, ends = model.source.weight[source], {}
    for direction, (cell, order) in enumerate(zip(model.encoder.cells, (x, x.flip(0)), strict=True)):
        h, states = torch.zeros(1, cell.hidden_size, dtype=torch.float64), []
        for vector in order:
            h = torch_cell(cell)(vector[None], h)
            states.append(h)
        ends[direction] = torch.cat(states).flip(0) if direction else torch.cat(states)
    return torch.cat([ends[0], ends[1]], 1), torch.cat([ends[0][-1:], ends[1][:1]], 1)


def look(weights: Tensor, memory: Tensor) -> Tensor:
    return sum((weight * vector for weight, vector in zip(weights, memory, strict=True)), torch.zeros(()))[None]


@torch.no_grad()
def test_bahdanaus_attention_is_the_papers():
    model, source, target = made(attention="bahdanau").double(), tokens(7), tokens(4)
    memory, s = read(model, source)
    score: Any = model.decoder.cross.score
    cell = wider(torch_cell(model.decoder.recurrence.cells[0]), model.decoder.feed.weight)
    for t, logits in enumerate(model(source[None], target[None])[0]):
        e = torch.stack([score.weight @ torch.tanh(score.query.weight @ s[0] + score.key.weight @ h) for h in memory])
        c = look(e.exp() / e.exp().sum(), memory)
        y = model.target.weight[target[t]][None]
        s = cell(torch.cat([y, c], 1), s)
        vector = torch.tanh(torch.cat([c, s, y], 1) @ model.decoder.combine.weight.T)
        torch.testing.assert_close(logits, (vector @ model.output.weight.T + model.output.bias)[0])


@torch.no_grad()
@pytest.mark.parametrize(("attention", "feeding"), LOOKS[2:])
def test_luongs_attention_is_the_papers(attention: str, feeding: bool):
    model, source, target = made(attention=attention, input_feeding=feeding).double(), tokens(7), tokens(4)
    memory, s = read(model, source)
    score: Any = model.decoder.cross.score
    cell = torch_cell(model.decoder.recurrence.cells[0])
    cell = wider(cell, model.decoder.feed.weight) if feeding else cell
    scores = {
        "dot": lambda h: s[0] @ h,
        "general": lambda h: s[0] @ score.weight @ h,
        "concat": lambda h: score.weight @ torch.tanh(score.projection.weight @ torch.cat([s[0], h])),
    }
    vector = torch.zeros_like(s)
    for t, logits in enumerate(model(source[None], target[None])[0]):
        y = model.target.weight[target[t]][None]
        s = cell(torch.cat([y, vector], 1) if feeding else y, s)
        e = torch.stack([scores[attention](h) for h in memory])
        c = look(e.exp() / e.exp().sum(), memory)
        vector = torch.tanh(torch.cat([c, s], 1) @ model.decoder.combine.weight.T)
        torch.testing.assert_close(logits, (vector @ model.output.weight.T + model.output.bias)[0])


# --- the whole and its parts ------------------------------------------------------------------------------------------


def cuts(time: int) -> st.SearchStrategy[list[int]]:
    """Lengths of the pieces of a sequence, none empty."""
    return st.sets(st.integers(1, time - 1) if time > 1 else st.nothing()).map(
        lambda at: [b - a for a, b in pairwise([0, *sorted(at), time])]
    )


def padded(lengths: list[int]) -> Tensor:
    longest = max(lengths)
    return tokens(len(lengths), longest).masked_fill(torch.arange(longest) >= torch.tensor(lengths)[:, None], PADDING)


def one_by_one(model: Seq2Seq, source: Tensor, target: Tensor) -> Tensor:
    state = model.begin(source)
    return torch.stack([model.step(token, state) for token in target.split(1, dim=1)], 1)


@pytest.mark.parametrize("which", sorted(MODELS), ids=lambda which: "-".join(map(str, which)))
@settings(deadline=None, max_examples=4)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3), time=st.integers(1, 6), seed=st.integers(0, 2**16))
def test_a_whole_target_is_its_steps_one_by_one(which: Any, lengths: list[int], time: int, seed: int):
    torch.manual_seed(seed)
    model, source, target = MODELS[which], padded(lengths), tokens(len(lengths), time)
    torch.testing.assert_close(one_by_one(model, source, target), model(source, target), atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=20)
@given(which=models, pieces=st.integers(1, 12).flatmap(cuts), seed=st.integers(0, 2**16))
def test_steps_of_any_length_give_the_logits_of_the_whole(which: Any, pieces: list[int], seed: int):
    torch.manual_seed(seed)
    model, source, target, done = MODELS[which], padded([3, 6]), tokens(2, sum(pieces)), 0
    whole, state = model(source, target), model.begin(source)
    for piece in target.split(pieces, dim=1):
        done += piece.shape[1]
        torch.testing.assert_close(model.step(piece, state), whole[:, done - 1], atol=1e-5, rtol=0)


def test_hidden_vectors_and_their_weights_give_the_logits_bias_included():
    model, source, target = MODELS["gru", "general", False], padded([3, 6]), tokens(2, 4)
    torch.testing.assert_close(F.linear(model.hidden(source, target), model.output_weight), model(source, target))


# --- what may be seen -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", sorted(MODELS), ids=lambda which: "-".join(map(str, which)))
@settings(deadline=None, max_examples=4)
@given(source=st.integers(1, 5), target=st.integers(1, 5), more_source=st.integers(0, 4), more_target=st.integers(0, 4))
def test_padding_never_changes_an_answer(which: Any, source: int, target: int, more_source: int, more_target: int):
    model, x, y = MODELS[which], tokens(2, source), tokens(2, target)
    longer = model(F.pad(x, (0, more_source), value=PADDING), F.pad(y, (0, more_target), value=PADDING))
    torch.testing.assert_close(longer[:, :target], model(x, y), atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=20)
@given(which=models, time=st.integers(2, 7), data=st.data())
def test_no_token_sees_what_is_written_after_it(which: Any, time: int, data: st.DataObject):
    model, source, target = MODELS[which], tokens(2, 5), tokens(2, time)
    first = data.draw(st.integers(1, time - 1))
    other = torch.cat([target[:, :first], tokens(2, time - first)], 1)
    torch.testing.assert_close(model(source, other)[:, :first], model(source, target)[:, :first], atol=1e-5, rtol=0)


@pytest.mark.parametrize("which", sorted(MODELS), ids=lambda which: "-".join(map(str, which)))
def test_every_token_of_the_source_is_seen(which: Any):
    """By the last logits, from the first token to the last, in the longer and in the shorter text."""
    model, source, target = MODELS[which], padded([3, 6]), tokens(2, 4)
    embedded: list[Tensor] = []
    handle = model.source.register_forward_hook(
        lambda module, given, found: found.retain_grad() or embedded.append(found)
    )
    model(source, target)[:, -1].square().sum().backward()
    handle.remove()
    seen = embedded[0].grad.abs().sum(-1) > 0  # type: ignore[union-attr]
    assert torch.equal(seen, source != PADDING)


@pytest.mark.parametrize("which", sorted(MODELS), ids=lambda which: "-".join(map(str, which)))
def test_a_source_of_nothing_but_padding_is_read_as_nothing(which: Any):
    assert torch.isfinite(MODELS[which](torch.full((1, 3), PADDING), tokens(1, 4))).all()


# --- where it looks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "which", [which for which in sorted(MODELS) if which[1] != "none"], ids=lambda which: "-".join(map(str, which))
)
def test_looking_changes_nothing_and_shows_the_weights_of_every_step(which: Any):
    torch.manual_seed(1)
    model, source, target = MODELS[which], padded([3, 6]), tokens(2, 4)
    with torch.no_grad():
        expected = model(source, target)
        with record(model) as tape:
            assert torch.equal(model(source, target), expected)
        (weights,) = tape.attention.values()
        assert list(tape.attention) == ["decoder.cross"]
        assert weights.shape == (2, 1, 4, 6)
        state = model.begin(source)
        for t, token in enumerate(target.split(1, dim=1)):
            with record(model) as tape:
                model.step(token, state)
            torch.testing.assert_close(tape.attention["decoder.cross"], weights[:, :, t : t + 1], atol=1e-5, rtol=0)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 4))
    assert not weights[0, :, :, 3:].any()


@torch.no_grad()
@pytest.mark.parametrize(("attention", "feeding"), LOOKS[1:])
def test_recorded_weights_are_those_that_mixed_the_context(attention: str, feeding: bool):
    """With W_c that passes the context on and nothing else, h̃ is the tanh of what the weights mix."""
    model, source, target = made(attention=attention, input_feeding=feeding), padded([3, 6]), tokens(2, 4)
    model.decoder.combine.weight.copy_(torch.eye(6, model.decoder.combine.in_features))
    with record(model) as tape:
        vectors = model.vectors(source, target)
    memory = model.begin(source).memory
    assert memory is not None
    torch.testing.assert_close(vectors, torch.tanh(tape.attention["decoder.cross"][:, 0] @ memory.values))


# --- writing ----------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=12)
@given(which=models, seed=st.integers(0, 2**16), time=st.integers(1, 6))
def test_greedy_writing_takes_the_most_probable_token_and_a_beam_of_one_writes_the_same(
    which: Any, seed: int, time: int
):
    torch.manual_seed(seed)
    model, source = copy.deepcopy(MODELS[which]).double(), tokens(3, time)
    with torch.no_grad():
        written = greedy_search(model.step, model.begin(source), [8] * 3, start=START, end=END)
        narrow = beam_search(model.step, model.begin(source), [8] * 3, width=1, start=START, end=END)
        for row, one in enumerate(written):
            best = model(source[row : row + 1], torch.tensor([[START, *one.tokens]]))[0].log_softmax(-1).max(-1)
            following = [*one.tokens, END] if one.finished else one.tokens
            assert best.indices.tolist()[: len(following)] == following
            assert one.log_probability == pytest.approx(best.values[: len(following)].sum().item(), abs=1e-4)
            assert narrow[row][0].tokens == one.tokens


@settings(deadline=None, max_examples=12)
@given(which=models, seed=st.integers(0, 2**16), width=st.integers(1, 4))
def test_a_beam_whose_rows_are_dropped_and_repeated_scores_as_the_whole_does(which: Any, seed: int, width: int):
    torch.manual_seed(seed)
    model, source = MODELS[which], padded([5, 2, 4])
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


# --- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", sorted(MODELS), ids=lambda which: "-".join(map(str, which)))
def test_gradients_reach_every_parameter(which: Any):
    model = copy.deepcopy(MODELS[which])
    SequenceToSequence(model).loss({"source": padded([3, 6, 5]), "target": tokens(3, 5)}).backward()
    assert [
        name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()
    ] == []


@pytest.mark.parametrize(("attention", "feeding"), LOOKS)
def test_with_its_own_tokens_alone_it_learns_from_what_it_would_write(attention: str, feeding: bool):
    model = made(attention=attention, input_feeding=feeding, scheduled_sampling=1.0, dropout=0.0)
    source, target = padded([3, 6]), tokens(2, 6)
    free = model.train()(source, target)
    own = torch.cat([target[:, :1], free.argmax(-1)[:, :-1]], 1)
    torch.testing.assert_close(free, model.eval()(source, own), atol=1e-5, rtol=0)
    assert not torch.equal(own, target)


def test_scheduled_sampling_feeds_the_share_that_it_was_given_and_only_while_training():
    torch.manual_seed(0)
    model = made(scheduled_sampling=0.25, dropout=0.0)
    source, target = tokens(1, 4).expand(400, -1), tokens(1, 2).expand(400, -1)
    plain = model(source[:1], target[:1])[0, 1]
    assert torch.equal(model(source, target), model(source, target))
    changed = (model.train()(source, target)[:, 1] - plain).abs().amax(-1) > 1e-4
    assert 0.15 < changed.float().mean().item() < 0.35


def test_dropout_is_on_embeddings_and_outputs_and_between_layers():
    for layers in (1, 2):
        model, source, target = made(layers=layers, dropout=0.5).train(), tokens(2, 5), tokens(2, 4)
        assert not torch.equal(model(source, target), model(source, target))
    assert sum(isinstance(module, nn.Dropout) and module.p == 0.5 for module in model.modules()) == 3


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", sorted(MODELS), ids=lambda which: "-".join(map(str, which)))
def test_the_parameter_table_is_the_model(which: Any):
    model = MODELS[which]
    for row in model.parameter_table():
        own = dict(model.named_parameters()).get(row.name)
        assert row.count == (count_parameters(model.get_submodule(row.name)) if own is None else own.numel()), row
    assert sum(row.count for row in model.parameter_table()) == count_parameters(model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"hidden_size": 7},
            "a bidirectional encoder needs an even hidden size, half for each direction, but got 7.",
        ),
        (
            {"input_feeding": True},
            "input feeding is for the attentions dot, general and concat, but got attention 'bahdanau'.",
        ),
        (
            {"attention": "none", "input_feeding": True},
            "input feeding is for the attentions dot, general and concat, but got attention 'none'.",
        ),
        ({"scheduled_sampling": 1.5}, "scheduled_sampling must be at most 1, but got 1.5."),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_config_that_cannot_be_says_why(options: dict[str, Any], message: str):
    with pytest.raises(InputError) as error:
        dataclasses.replace(TINY, **options)
    assert str(error.value) == message
