"""The four shapes: what is read once equals what is read by hand, what is written at once equals what is written step
by step."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from neuropil.errors import InputError
from neuropil.models.recurrent import CELLS, CellName, RecurrentBlocks, RecurrentNetwork, RecurrentNetworkConfig
from neuropil.parts.recurrence import Recurrence, valid_mask
from neuropil.pretrained.torch_recurrence import to_torch
from neuropil.protocols import END, PADDING, START

NAMES: tuple[CellName, ...] = get_args(CellName)
POOLINGS = ["last", "mean", "max"]
TINY = RecurrentNetworkConfig(hidden_size=4, embedding_size=3, vocabulary_size=9, output_size=5)


def model_of(**options: Any) -> RecurrentNetwork:
    torch.manual_seed(0)
    return RecurrentNetwork(dataclasses.replace(TINY, **options)).double().eval()


@st.composite
def texts(draw: st.DrawFn, longest: int = 6) -> Tensor:
    """Rows of tokens, some of them empty, padded to the longest or further."""
    rows = draw(st.lists(st.lists(st.integers(1, 8), max_size=longest), min_size=1, max_size=4))
    width = max(map(len, rows)) + draw(st.integers(0, 3))
    return torch.tensor([row + [PADDING] * (width - len(row)) for row in rows], dtype=torch.int64).reshape(
        len(rows), width
    )


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("bidirectional", [False, True])
@settings(deadline=None, max_examples=15)
@given(x=texts(), cell=st.sampled_from(NAMES), layers=st.integers(1, 2))
def test_a_text_is_answered_as_if_it_were_alone(
    pooling: str, bidirectional: bool, x: Tensor, cell: CellName, layers: int
):
    """Without any padding, and pooled by hand; an empty text is a vector of zeros."""
    model = model_of(cell=cell, layers=layers, bidirectional=bidirectional, pooling=pooling)
    answers = model(x)
    for row, answer in zip(x, answers, strict=True):
        tokens = row[row != PADDING]
        outputs = model.reader(model.embedding(tokens.unsqueeze(0))).outputs[0]
        if len(tokens) == 0:
            pooled = torch.zeros(model.reader.width).double()
        elif pooling == "mean":
            pooled = outputs.mean(0)
        elif pooling == "max":
            pooled = outputs.amax(0)
        else:
            pooled = torch.cat([outputs[-1, :4], outputs[0, 4:]])
        torch.testing.assert_close(answer, model.output(pooled))


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_many_to_one_is_torchs_recurrence_and_a_linear_layer(cell: CellName, bidirectional: bool, layers: int):
    model = model_of(cell=cell, bidirectional=bidirectional, layers=layers)
    x = torch.tensor([[3, 1, 4, 1, 5], [2, 6, PADDING, PADDING, PADDING], [5, 3, 5, 8, PADDING]])
    embedding = nn.Embedding(9, 3, padding_idx=PADDING, _weight=model.embedding.weight.detach().clone())
    linear = nn.Linear(model.reader.width, 5).double()
    linear.load_state_dict(model.output.state_dict())
    assert isinstance(model.reader, Recurrence)
    packed = pack_padded_sequence(embedding(x), torch.tensor([5, 2, 4]), batch_first=True, enforce_sorted=False)
    last = to_torch(model.reader)(packed)[1]
    h = last[0] if isinstance(last, tuple) else last
    expected = linear(torch.cat([h[-2], h[-1]], -1) if bidirectional else h[-1])
    torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_aligned_is_torchs_recurrence_and_a_linear_layer_at_every_step(cell: CellName):
    model = model_of(cell=cell, bidirectional=True, shape="aligned")
    x = torch.tensor([[3, 1, 4, 1, 5], [2, 6, PADDING, PADDING, PADDING]])
    assert isinstance(model.reader, Recurrence)
    packed = pack_padded_sequence(model.embedding(x), torch.tensor([5, 2]), batch_first=True)
    outputs, _ = pad_packed_sequence(to_torch(model.reader)(packed)[0], batch_first=True)
    torch.testing.assert_close(model(x), model.output(outputs))


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_of_vectors_whatever_stands_in_the_padding_reaches_neither_answers_nor_gradients(
    pooling: str, bidirectional: bool
):
    model = model_of(
        vocabulary_size=0, input_size=3, bidirectional=bidirectional, pooling=pooling, layers=2, cell="gru"
    )
    x, lengths = torch.randn(3, 6, 3).double(), torch.tensor([6, 0, 2])
    results = []
    for garbage in (0.0, math.nan, 1e30):
        filled = x.masked_fill(~valid_mask(lengths, 6).unsqueeze(-1), garbage)
        answers = model(filled, lengths=lengths)
        results.append([answers, *torch.autograd.grad(answers.square().sum(), list(model.parameters()))])
    for other in results[1:]:
        assert all(map(torch.equal, results[0], other))


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (0, 0)])
def test_texts_of_no_tokens_and_batches_of_no_texts_are_answered(pooling: str, shape: tuple[int, int]):
    model, x = model_of(bidirectional=True, pooling=pooling), torch.zeros(shape, dtype=torch.int64)
    torch.testing.assert_close(model(x), model.output.bias.expand(shape[0], 5))
    aligned = model_of(shape="aligned", bidirectional=True)
    assert aligned(x).shape == (*shape, 5)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("cell", NAMES)
def test_a_stream_in_pieces_is_answered_as_the_whole(cell: CellName, residual: bool):
    model, x = model_of(cell=cell, shape="aligned", layers=2, residual=residual), torch.randint(1, 9, (2, 7))
    whole, states = model.stream(x)
    torch.testing.assert_close(whole, model(x))
    first, between = model.stream(x[:, :3], model.begin_stream(x))
    second, last = model.stream(x[:, 3:], between)
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    torch.testing.assert_close(last, states)


# --- writing ----------------------------------------------------------------------------------------------------------

WRITERS: list[dict[str, Any]] = [
    {"shape": "one_to_many", "input_size": 6},
    {"shape": "one_to_many", "input_size": 6, "writes_tokens": False},
    {"shape": "encoder_decoder"},
    {"shape": "encoder_decoder", "bidirectional": True, "pooling": "max"},
    {"shape": "encoder_decoder", "vocabulary_size": 0, "input_size": 2, "writes_tokens": False},
    {"shape": "encoder_decoder", "residual": True},
]


def source_for(model: RecurrentNetwork, batch: int) -> Tensor:
    config = model.config
    if not config.reads:
        return torch.randn(batch, config.input_size).double()
    if not config.vocabulary_size:
        return torch.randn(batch, 5, config.input_size).double()
    x = torch.randint(1, 9, (batch, 5))
    x[0, 2:] = PADDING
    return x


def fed_for(model: RecurrentNetwork, batch: int, steps: int) -> Tensor:
    return torch.randint(1, 5, (batch, steps)) if model.config.writes_tokens else torch.randn(batch, steps, 5).double()


@pytest.mark.parametrize("cell", NAMES)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("options", WRITERS)
def test_teacher_forcing_at_once_is_step_by_step(options: dict[str, Any], cell: CellName, layers: int):
    model = model_of(cell=cell, layers=layers, **options)
    x, fed = source_for(model, 3), fed_for(model, 3, 6)
    states, steps = model.begin(x), []
    for entering in fed.unbind(1):
        output, states = model.step(entering, states)
        steps.append(output)
    torch.testing.assert_close(model(x, fed), torch.stack(steps, 1))
    torch.testing.assert_close(model(x, fed, sampling_probability=1e-12), torch.stack(steps, 1))


@pytest.mark.parametrize("cell", NAMES)
@pytest.mark.parametrize("options", WRITERS)
def test_fed_with_nothing_but_its_own_it_runs_free(options: dict[str, Any], cell: CellName):
    """What it writes, fed back by a teacher, is what it answers; tokens up to the end of each row."""
    model = model_of(cell=cell, **options)
    x, fed = source_for(model, 4), fed_for(model, 4, 7)
    written = model.write(x, fed[:, 0], 7)
    outputs = model(x, fed, sampling_probability=1.0)
    taught = model(x, torch.cat([fed[:, :1], written], 1)[:, : written.shape[1]])
    if model.config.writes_tokens:
        not_ended = torch.cat([torch.zeros(4, 1, dtype=torch.bool), written == END], 1).cumsum(1)[:, :-1] == 0
        assert torch.equal(outputs.argmax(-1)[:, : written.shape[1]][not_ended], written[not_ended])
        assert torch.equal(taught.argmax(-1)[not_ended], written[not_ended])
        assert not written[~not_ended].any()
    else:
        torch.testing.assert_close(written, outputs)
        torch.testing.assert_close(taught, outputs)


def test_writing_stops_where_all_rows_have_ended_and_pads_the_shorter():
    model = model_of(shape="one_to_many", input_size=6)
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.copy_(torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]).double())
    assert model.write(torch.randn(3, 6).double(), torch.full((3,), START), 9).tolist() == [[END]] * 3
    turns = iter([[4, 4], [END, 4], [4, 4], [4, END], [4, 4]])
    model.output.register_forward_hook(lambda *_: nn.functional.one_hot(torch.tensor(next(turns)), 5).double())
    written = model.write(torch.randn(2, 6).double(), torch.full((2,), START), 9)
    assert written.tolist() == [[4, END, PADDING, PADDING], [4, 4, 4, END]]


def test_of_no_steps_nothing_is_written_and_of_no_rows_nothing_either():
    tokens, numbers = (
        model_of(shape="one_to_many", input_size=6),
        model_of(shape="one_to_many", input_size=6, writes_tokens=False),
    )
    assert tokens.write(torch.randn(2, 6).double(), torch.full((2,), START), 0).shape == (2, 0)
    assert numbers.write(torch.randn(2, 6).double(), torch.zeros(2, 5).double(), 0).shape == (2, 0, 5)
    assert numbers.write(torch.randn(0, 6).double(), torch.zeros(0, 5).double(), 3).shape == (0, 3, 5)


def test_now_and_then_its_own_answer_enters():
    model = model_of(shape="one_to_many", input_size=6, output_size=9)
    with torch.no_grad():
        model.output.bias[7] = 100
    fed, entered = torch.full((400, 5), 3), []
    model.fed_embedding.register_forward_hook(lambda _, arguments, __: entered.append(arguments[0]))
    model(torch.randn(400, 6).double(), fed, sampling_probability=0.3)
    own = torch.stack(entered, 1) == 7
    assert not own[:, 0].any()
    assert ((own[:, 1:].float().mean(0) - 0.3).abs() < 4 * math.sqrt(0.21 / 400)).all()


def test_gradients_are_the_same_at_once_and_step_by_step():
    model = model_of(shape="encoder_decoder", bidirectional=True)
    x, fed = source_for(model, 3), fed_for(model, 3, 4)
    at_once, stepped = (
        torch.autograd.grad(model(x, fed, sampling_probability=share).square().sum(), list(model.parameters()))
        for share in (0.0, 1e-12)
    )
    torch.testing.assert_close(at_once, stepped)


@pytest.mark.parametrize("options", [{}, *WRITERS])
@pytest.mark.parametrize("cell", NAMES)
@pytest.mark.usefixtures("bfloat16")
def test_every_shape_trains_under_autocast(options: dict[str, Any], cell: CellName):
    """A decoder's first state then comes from a layer that answers in bfloat16."""
    model = model_of(cell=cell, **options).float().train()
    x = source_for(model, 3)
    fed = [fed_for(model, 3, 4)] if model.config.writes else []
    x, fed = (
        (x.float() if x.is_floating_point() else x),
        [part.float() if part.is_floating_point() else part for part in fed],
    )
    exact = model(x, *fed)
    with torch.autocast("cpu", torch.bfloat16):
        answers = model(x, *fed)
        if fed:
            torch.testing.assert_close(model(x, *fed, sampling_probability=1e-12).float(), exact, rtol=0.1, atol=0.1)
    torch.testing.assert_close(answers.float(), exact, rtol=0.1, atol=0.1)
    answers.float().square().sum().backward()
    assert all(parameter.grad is not None and torch.isfinite(parameter.grad).all() for parameter in model.parameters())


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            lambda: model_of(shape="encoder_decoder")(torch.ones(2, 3, dtype=torch.int64)),
            "a decoder needs the tokens or vectors that it is fed, but got nothing: call write() to let it run free.",
        ),
        (
            lambda: model_of(vocabulary_size=0, input_size=3)(torch.zeros(2, 4, 2).double()),
            "a recurrence reads sequences of shape [batch, time, 3], but got [2, 4, 2].",
        ),
        (
            lambda: model_of(vocabulary_size=0, input_size=3)(
                torch.zeros(2, 4, 3).double(), lengths=torch.tensor([1, 7])
            ),
            "lengths must be 2 whole numbers from 0 to 4, but got [1, 7].",
        ),
        (
            lambda: model_of(residual=True, bidirectional=True),
            "residual blocks read in one direction, but got bidirectional=True as well: choose one of the two.",
        ),
    ],
)
def test_a_mistake_gets_one_sentence(run: Callable[[], object], message: str):
    with pytest.raises(InputError) as error:
        run()
    assert str(error.value) == message


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_has_a_builder(name: CellName):
    cell = CELLS[name](3, 4)
    assert (cell.input_size, cell.hidden_size) == (3, 4)
    assert len(CELLS) == len(NAMES)


# --- residual blocks: run whole, in pieces, and a step at a time ---------------------------------------------


def blocks(name: CellName, seed: int = 0) -> RecurrentBlocks:
    torch.manual_seed(seed)
    return RecurrentBlocks(CELLS[name], 3, 4, layers=2).eval()


@settings(deadline=None, max_examples=30)
@given(name=st.sampled_from(NAMES), cut=st.integers(0, 7), seed=st.integers(0, 2**16))
def test_pieces_and_single_steps_are_the_whole(name: CellName, cut: int, seed: int):
    recurrence = blocks(name, seed)
    x = torch.randn(2, 7, 3)
    with torch.no_grad():
        whole = recurrence(x)
        first = recurrence(x[:, :cut])
        second = recurrence(x[:, cut:], first.states)
        states, steps = recurrence.initial(x), []
        for t in range(7):
            y, states = recurrence.step(x[:, t], states)
            steps.append(y)
    torch.testing.assert_close(torch.cat([first.outputs, second.outputs], 1), whole.outputs, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(torch.stack(steps, 1), whole.outputs, atol=1e-5, rtol=1e-4)
    for a, b, c in zip(whole.states, second.states, states, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(a, c, atol=1e-5, rtol=1e-4)


@settings(deadline=None, max_examples=30)
@given(name=st.sampled_from(NAMES), lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_padding_changes_nothing_and_is_zero(name: CellName, lengths: list[int]):
    recurrence = blocks(name)
    x = torch.randn(len(lengths), 6, 3)
    with torch.no_grad():
        padded = recurrence(x, lengths=torch.tensor(lengths))
        for row, length in enumerate(lengths):
            alone = recurrence(x[row : row + 1, :length])
            torch.testing.assert_close(padded.outputs[row : row + 1, :length], alone.outputs, atol=1e-5, rtol=1e-4)
            assert not padded.outputs[row, length:].any()
            for ours, theirs in zip(padded.states, alone.states, strict=True):
                torch.testing.assert_close(ours.h[row : row + 1], theirs.h, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_number_in_the_padding_reaches_no_gradient(name: CellName):
    recurrence = blocks(name)
    x = torch.randn(2, 6, 3)
    x[1, 2:] = torch.nan
    recurrence(x, lengths=torch.tensor([6, 2])).outputs.square().sum().backward()
    assert all(
        torch.isfinite(parameter.grad).all() for parameter in recurrence.parameters() if parameter.grad is not None
    )


def test_a_block_whose_nets_are_silent_only_hands_on_what_it_reads():
    recurrence = blocks("mingru")
    with torch.no_grad():
        for block in recurrence.blocks:
            for parameter in block.parameters():
                parameter.zero_()
    x = torch.randn(2, 5, 3)
    torch.testing.assert_close(recurrence(x).outputs, recurrence.norm(recurrence.enter(x)))


def test_two_directions_are_refused():
    with pytest.raises(InputError) as error:
        RecurrentNetworkConfig(residual=True, bidirectional=True)
    assert (
        str(error.value)
        == "residual blocks read in one direction, but got bidirectional=True as well: choose one of the two."
    )
