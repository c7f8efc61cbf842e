"""What is read at once equals what is read by hand, and every shape of input and output goes through one interface."""

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
from neuropil.models.captioner import Captioner, CaptionerConfig
from neuropil.models.forecaster import Forecaster, ForecasterConfig
from neuropil.models.recurrent import CELLS, CellName, RecurrentBlocks, RecurrentNetwork, RecurrentNetworkConfig
from neuropil.models.seq2seq import Seq2Seq, Seq2SeqConfig
from neuropil.models.tracker import Tracker, TrackerConfig
from neuropil.parts.recurrence import Recurrence, valid_mask
from neuropil.pretrained.torch_recurrence import to_torch
from neuropil.protocols import PADDING

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


# --- one interface for every shape ------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """How recurrences are called: with a whole sequence or with one step, from nothing or from states."""
    made: list[tuple[str, str]] = []
    forward, step = Recurrence.forward, Recurrence.step

    def watched_forward(self: Recurrence, x: Tensor, states: Any = None, lengths: Any = None) -> Any:
        made.append(("sequence", "from nothing" if states is None else "from states"))
        return forward(self, x, states, lengths)

    def watched_step(self: Recurrence, x: Tensor, states: Any = None) -> Any:
        made.append(("step", "from nothing" if states is None else "from states"))
        return step(self, x, states)

    monkeypatch.setattr(Recurrence, "forward", watched_forward)
    monkeypatch.setattr(Recurrence, "step", watched_step)
    return made


def captioned() -> Tensor:
    sizes: dict[str, Any] = {"width": 4, "hidden_size": 6, "embedding_size": 4, "attention_size": 4}
    return Captioner(CaptionerConfig(**sizes)).eval()(torch.zeros(2, 1, 24, 24), torch.ones(2, 5, dtype=torch.int64))


def tracked() -> Tensor:
    return Tracker(TrackerConfig(width=4, features=5, hidden_size=6)).eval()(torch.zeros(2, 4, 1, 28, 28))


def translated() -> Tensor:
    sizes = Seq2SeqConfig(hidden_size=6, embedding_size=4, source_vocabulary_size=9, target_vocabulary_size=9)
    model = Seq2Seq(dataclasses.replace(sizes, attention="general")).eval()
    return model(torch.ones(2, 7, dtype=torch.int64), torch.ones(2, 5, dtype=torch.int64))


def forecast() -> Tensor:
    return Forecaster(ForecasterConfig(hidden_size=4, members=1)).eval()(torch.randn(2, 12), torch.randn(2, 24, 4))


READ, CONTINUED = ("sequence", "from nothing"), ("sequence", "from states")


@pytest.mark.parametrize(
    ("answer", "expected", "shape"),
    [
        (captioned, [("step", "from nothing"), CONTINUED], (2, 5, 30)),  # one to many
        (lambda: model_of()(torch.ones(2, 7, dtype=torch.int64)), [READ], (2, 5)),  # many to one
        (lambda: model_of(shape="aligned")(torch.ones(2, 7, dtype=torch.int64)), [READ], (2, 7, 5)),  # many to many
        (tracked, [READ], (2, 4, 2)),
        (translated, [READ, CONTINUED], (2, 5, 9)),  # many to many, encoder and decoder
        (forecast, [READ, CONTINUED], (2, 12, 7)),
    ],
    ids=["captioner", "text classifier", "tagger", "tracker", "seq2seq", "forecaster"],
)
def test_every_system_goes_through_the_same_interface(
    answer: Callable[[], Tensor], expected: list[tuple[str, str]], shape: tuple[int, ...], calls: list[tuple[str, str]]
):
    assert answer().shape == shape
    assert calls == expected


FEED_FORWARD: dict[CellName, Callable[..., Tensor]] = {
    "rnn": lambda a, **_: torch.tanh(a),
    "lstm": lambda i, f, g, o, **_: torch.sigmoid(o) * torch.tanh(torch.sigmoid(i) * torch.tanh(g)),
    "gru": lambda r, z, a, state_bias: torch.sigmoid(-z) * torch.tanh(a + torch.sigmoid(r) * state_bias),
    "mingru": lambda g, a, **_: torch.sigmoid(g) * a,
}


@pytest.mark.parametrize("name", NAMES)
def test_one_to_one_is_a_feed_forward_layer(name: CellName):
    """A step from nothing: whatever is multiplied by the state is zero."""
    torch.manual_seed(0)
    recurrence, x = Recurrence(CELLS[name], 3, 4).double(), torch.randn(5, 3).double()
    for parameter in recurrence.parameters():
        nn.init.normal_(parameter)
    weights = recurrence.cells[0].state_dict()
    layer = nn.Linear(3, len(weights["bias"])).double()
    layer.load_state_dict({"weight": weights["input_weight"], "bias": weights["bias"]})
    inside = {"state_bias": weights["state_bias"]} if name == "gru" else {}
    h, states = recurrence.step(x)
    torch.testing.assert_close(h, FEED_FORWARD[name](*layer(x).split(4, -1), **inside))
    assert torch.equal(states[0].h, h)


def test_a_run_of_before_decoders_left_is_opened():
    saved = TINY.to_dict() | {"writes_tokens": True}
    assert RecurrentNetworkConfig.from_dict(saved) == TINY


# --- under autocast ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"shape": "aligned"}, {"bidirectional": True, "pooling": "max"}])
@pytest.mark.parametrize("cell", NAMES)
@pytest.mark.usefixtures("bfloat16")
def test_every_shape_trains_under_autocast(options: dict[str, Any], cell: CellName):
    model, x = model_of(cell=cell, **options).float().train(), torch.randint(1, 9, (3, 5))
    x[0, 2:] = PADDING
    exact = model(x)
    with torch.autocast("cpu", torch.bfloat16):
        answers = model(x)
    torch.testing.assert_close(answers.float(), exact, rtol=0.1, atol=0.1)
    answers.float().square().sum().backward()
    assert all(parameter.grad is not None and torch.isfinite(parameter.grad).all() for parameter in model.parameters())


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "message"),
    [
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
        (
            lambda: model_of(cell="lstm", reset="before"),
            "the convention of the gates is chosen for the cell gru, but got gate 'keep' and reset 'before' with the "
            "cell lstm.",
        ),
        (
            lambda: model_of(cell="gru", activation="relu"),
            "an activation is chosen for the cell rnn, but got activation 'relu' with the cell gru.",
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
