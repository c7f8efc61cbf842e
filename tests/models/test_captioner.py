from typing import cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from neuropil.data.captions.embedded import make_scenes
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.errors import InputError
from neuropil.inspection import record
from neuropil.models.captioner import Captioner, CaptionerConfig
from neuropil.models.recurrent import CellName
from neuropil.parts.attention import Additive
from neuropil.parts.recurrence import Hidden
from neuropil.protocols import END, PADDING, START
from neuropil.sampling.text.beam_search import beam_search, greedy_search

SMALL = CaptionerConfig(width=4, hidden_size=12, embedding_size=6, attention_size=5, dropout=0.3)
CELLS: list[CellName] = ["rnn", "lstm", "gru", "mingru"]


def captioner(**options: object) -> Captioner:
    torch.manual_seed(0)
    model = Captioner(CaptionerConfig(**{**SMALL.to_dict(), "shape": (1, 24, 24), **options})).eval()
    model.standardize.fit(pictures(20, model.config.shape))
    return model


def pictures(count: int, shape: tuple[int, ...] = (1, 24, 24)) -> Tensor:
    return torch.randint(0, 256, (count, *shape), dtype=torch.uint8)


def captions(count: int, time: int) -> Tensor:
    return torch.cat([torch.full((count, 1), START), torch.randint(4, 30, (count, time - 1))], 1)


def test_it_is_its_equations():
    model = captioner(cell="rnn").double()
    x, y = pictures(3), captions(3, 5)
    a = model.see(x)
    assert a.shape == (3, 36, 16)
    h = model.writer.cells[0].step(
        model.first(F.layer_norm(a.mean(1), (16,))), Hidden(torch.zeros(3, 12, dtype=torch.float64))
    )
    score = cast(Additive, model.attention.score)
    logits = []
    for word in y.unbind(1):
        h = model.writer.cells[0].step(model.words(word), h)
        e = torch.tanh(score.query(h.h)[:, None] + score.key(a)) @ score.weight
        z = F.layer_norm((e.softmax(-1)[..., None] * a).sum(1), (16,))
        logits.append(model.output(torch.tanh(model.combine(torch.cat([z, h.h], -1)))))
    torch.testing.assert_close(model(x, y), torch.stack(logits, 1))


@settings(deadline=None, max_examples=12)
@given(
    cell=st.sampled_from(CELLS),
    attention=st.booleans(),
    layers=st.integers(1, 2),
    time=st.integers(1, 6),
    count=st.integers(1, 4),
)
def test_written_step_by_step_it_says_what_it_says_at_once(
    cell: CellName, attention: bool, layers: int, time: int, count: int
):
    model = captioner(cell=cell, attention=attention, layers=layers)
    x, y = pictures(count), captions(count, time)
    with torch.no_grad():
        whole, state = model(x, y), model.begin(x)
        steps = [model.step(y[:, [t]], state) for t in range(time)]
    torch.testing.assert_close(torch.stack(steps, 1), whole, atol=1e-5, rtol=1e-4)


@settings(deadline=None, max_examples=12)
@given(padding=st.integers(0, 5), attention=st.booleans(), cell=st.sampled_from(CELLS))
def test_padding_changes_nothing(padding: int, attention: bool, cell: CellName):
    model = captioner(attention=attention, cell=cell)
    x, y = pictures(2), captions(2, 4)
    padded = F.pad(y, (0, padding), value=PADDING)
    torch.testing.assert_close(model(x, padded)[:, :4], model(x, y), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("attention", [True, False])
@pytest.mark.parametrize("cell", CELLS)
def test_a_beam_of_one_is_greedy(cell: CellName, attention: bool):
    model = captioner(cell=cell, attention=attention)
    x = pictures(5)
    with torch.no_grad():
        one_by_one = greedy_search(model.step, model.begin(x), [9] * 5, start=START, end=END)
        beams = beam_search(model.step, model.begin(x), [9] * 5, width=1, start=START, end=END)
    assert [each.tokens for each in one_by_one] == [ranked[0].tokens for ranked in beams]


def test_looking_changes_nothing_and_the_weights_of_a_word_sum_to_one():
    model = captioner()
    x, y = pictures(2), captions(2, 5)
    with record(model) as tape:
        watched = model(x, y)
    assert torch.equal(watched, model(x, y))
    (weights,) = tape.attention.values()
    assert list(tape.attention) == ["attention"]
    assert weights.shape == (2, 1, 5, 36)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 5))


def test_without_attention_every_place_counts_alike():
    """The same network whose weights are all equal: the score is a constant."""
    model = captioner()
    blind = captioner(attention=False)
    with torch.no_grad():
        cast(Additive, model.attention.score).weight.zero_()
    blind.load_state_dict(
        {name: value for name, value in model.state_dict().items() if not name.startswith("attention")}
    )
    x, y = pictures(3), captions(3, 4)
    torch.testing.assert_close(model(x, y), blind(x, y))


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 20, 33), (1, 64, 64)])
def test_the_grid_follows_from_the_size_of_the_picture(shape: tuple[int, ...]):
    model = captioner(shape=shape)
    rows, columns = model.config.grid
    x = pictures(2, shape)
    assert model.see(x).shape == (2, rows * columns, model.config.stack.width)
    assert model(x, captions(2, 3)).shape == (2, 3, 30)


def test_pictures_of_another_shape_are_refused():
    with pytest.raises(InputError) as error:
        captioner()(pictures(2, (1, 20, 24)), captions(2, 3))
    assert str(error.value) == (
        "inputs must have the shape [batch, 1, 24, 24] that the model was made for, but got [2, 1, 20, 24]."
    )
    with pytest.raises(InputError) as error:
        CaptionerConfig(shape=(64,))
    assert (
        str(error.value) == "a captioner needs pictures of channels, height and width, but got inputs of shape (64,)."
    )


def test_it_learns_what_single_digits_are_called():
    torch.manual_seed(0)
    data = make_scenes(600, 0, 1).train
    chosen = torch.tensor([index for index, group in enumerate(data.groups) if group == "one digit"])
    ones = data.take(chosen)
    tokenizer = Tokenizer.train(ones.texts, "words")
    y = torch.tensor([[START, *ids, END] for ids in tokenizer.encode(ones.texts)])
    model = Captioner(
        CaptionerConfig(
            width=8, hidden_size=32, embedding_size=16, attention_size=16, dropout=0.0, vocabulary_size=len(tokenizer)
        )
    )
    model.standardize.fit(ones.pictures)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses: list[float] = []
    for _ in range(50):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ones.pictures, y[:, :-1]).flatten(0, 1), y[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3  # to know the words and their places, but not the digits, is worth ln(10) / 3 = 0.77
