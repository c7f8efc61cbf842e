from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.data.films.batches import FilmBatches
from neuropil.data.films.embedded import make_films
from neuropil.errors import InputError
from neuropil.models.tracker import MemoryName, Tracker, TrackerConfig, Tracking

SMALL = {"width": 4, "features": 6, "hidden_size": 8, "shape": (1, 12, 14)}
MEMORIES: list[MemoryName] = ["rnn", "lstm", "gru", "mingru", "none"]


def tracker(**options: Any) -> Tracker:
    torch.manual_seed(0)
    model = Tracker(TrackerConfig(**{**SMALL, **options})).eval()
    model.standardize.fit(films(4, 5).flatten(0, 1))
    model.target_scale.fit(torch.tensor([[0.0, 5.0], [10.0, 6.0]]))
    return model


def films(count: int, time: int) -> Tensor:
    return torch.randint(0, 256, (count, time, 1, 12, 14), dtype=torch.uint8)


def test_it_is_its_equations():
    model = tracker(cell="lstm")
    x = films(2, 4)
    g = F.relu(model.look(model.cnn(model.standardize(x.flatten(0, 1))).flatten(1))).unflatten(0, (2, 4))
    theirs = nn.LSTM(6, 8, batch_first=True)
    weights = model.state_dict()
    ours = [weights[f"memory.forwards.0.{name}"] for name in ("input_weight", "state_weight", "bias")]
    theirs.load_state_dict(dict(zip(theirs.state_dict(), [*ours, torch.zeros(32)], strict=True)))
    # p = μ + σ (V h + c), μ = (5, 5.5), σ = (5, 0.5)
    expected = torch.tensor([5.0, 5.5]) + torch.tensor([5.0, 0.5]) * model.output(theirs(g)[0])
    torch.testing.assert_close(model(x), expected)


@settings(deadline=None, max_examples=15)
@given(
    cell=st.sampled_from(MEMORIES), layers=st.integers(1, 2), pieces=st.lists(st.integers(1, 3), min_size=1, max_size=4)
)
def test_a_film_in_pieces_is_followed_as_the_whole(cell: MemoryName, layers: int, pieces: list[int]):
    model = tracker(cell=cell, layers=layers)
    x = films(2, sum(pieces))
    with torch.no_grad():
        states, found = None, []
        for piece in x.split(pieces, dim=1):
            answers, states = model.follow(piece, states)
            found.append(answers)
        torch.testing.assert_close(torch.cat(found, 1), model(x), atol=1e-4, rtol=1e-4)


@settings(deadline=None, max_examples=15)
@given(
    cell=st.sampled_from(MEMORIES), lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4), training=st.booleans()
)
def test_what_fills_a_batch_up_changes_nothing(cell: MemoryName, lengths: list[int], training: bool):
    """In training too, where the batch norm of the frames would notice."""
    model = tracker(cell=cell).train(training)
    x, length = films(len(lengths), 5), torch.tensor(lengths)
    real = torch.arange(5) < length[:, None]
    other = torch.where(real[..., None, None, None], x, films(len(lengths), 5))
    torch.testing.assert_close(model(x, length)[real], model(other, length)[real])
    torch.testing.assert_close(model.eval()(x, length)[real], model(x)[real], atol=1e-4, rtol=1e-4)


def test_without_a_memory_each_frame_is_on_its_own():
    model = tracker(cell="none")
    x = films(2, 5)
    order = torch.randperm(5)
    torch.testing.assert_close(model(x[:, order]), model(x)[:, order])
    with_memory = tracker(cell="gru")
    assert not torch.allclose(with_memory(x[:, order]), with_memory(x)[:, order])


@pytest.mark.parametrize("cell", MEMORIES)
def test_what_nobody_knows_is_neither_taught_nor_scored(cell: MemoryName):
    model = tracker(cell=cell).train()
    x, target = films(2, 4), torch.rand(2, 4, 2)
    target[0, 2], target[1, 3, 0] = torch.nan, torch.nan
    batch = {"input": x, "length": torch.tensor([4, 3]), "target": target}
    learner = Tracking(model)
    learner.loss(batch).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    model.eval()
    answers = model(x, batch["length"]).detach()
    known = [(0, 0), (0, 1), (0, 3)], [(1, 0), (1, 1), (1, 2)]
    metrics = learner.metrics(batch)
    for film, places in enumerate(known):
        far = [(answers[place] - target[place]).norm() for place in places]
        torch.testing.assert_close(metrics["error"][film].detach(), torch.stack(far).mean())
        scaled = [
            0.5 * ((answers[place] - target[place]) / torch.tensor([5.0, 0.5])).square().sum() for place in places
        ]
        torch.testing.assert_close(metrics["loss"][film].detach(), torch.stack(scaled).mean())
    torch.testing.assert_close(learner.loss(batch), metrics["loss"].mean())


def test_it_learns_to_find_a_digit():
    torch.manual_seed(0)
    data = make_films(24, 0, 1).train
    model = Tracker(TrackerConfig(width=4, features=32, hidden_size=32, cell="none"))
    model.standardize.fit(data.frames)
    model.target_scale.fit(data.positions)
    learner, batches = Tracking(model), FilmBatches(data, 6, 0, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    losses = []
    for epoch in range(8):
        for batch in batches.epoch(epoch):
            optimizer.zero_grad()
            loss = learner.loss(batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert sum(losses[-4:]) < 0.6 * sum(losses[:4])


def test_frames_of_another_shape_are_refused():
    with pytest.raises(InputError) as error:
        tracker()(torch.zeros(1, 2, 1, 8, 8))
    assert (
        str(error.value)
        == "inputs must have the shape [batch, 1, 12, 14] that the model was made for, but got [2, 1, 8, 8]."
    )
    with pytest.raises(InputError) as error:
        TrackerConfig(shape=(64,))
    assert str(error.value) == "a tracker needs frames of channels, height and width, but got inputs of shape (64,)."
