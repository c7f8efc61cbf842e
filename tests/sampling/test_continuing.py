"""Going on with a text, drawn from what a model expects."""

from itertools import islice

import pytest
import torch

from neuropil.errors import InputError
from neuropil.models.sequence import Sequence, SequenceConfig
from neuropil.protocols import PADDING
from neuropil.sampling.continuing import continued, draw

PROMPT = torch.tensor([5, 6, 7])


@pytest.fixture(scope="module")
def model() -> Sequence:
    torch.manual_seed(0)
    return Sequence(SequenceConfig(cell="gru", units=8, layers=2, embedding=6, tokens=12, outputs=12, shape="aligned")).eval()


def test_the_likeliest_tokens_are_those_of_reading_everything_again(model: Sequence):
    written = list(islice(continued(model.stream, PROMPT, temperature=0, never=[PADDING]), 12))
    text = PROMPT.tolist()
    for token in written:
        with torch.no_grad():
            assert token == int(model(torch.tensor([text]))[0, -1, 1:].argmax()) + 1
        text.append(token)


def test_a_seed_always_gives_the_same_text_and_another_another(model: Sequence):
    texts = [list(islice(continued(model.stream, PROMPT, generator=torch.Generator().manual_seed(seed)), 30)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_it_is_lazy_and_has_no_end(model: Sequence):
    calls = []

    def counted(x, states=None):
        calls.append(x.shape[1])
        return model.stream(x, states)

    tokens = continued(counted, PROMPT)
    next(tokens)
    next(tokens)
    assert calls == [3, 1]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
def test_tokens_come_as_often_as_the_softened_logits_say(temperature: float):
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0])
    generator = torch.Generator().manual_seed(0)
    counts = torch.bincount(torch.tensor([draw(logits, temperature, generator) for _ in range(4_000)]), minlength=4) / 4_000
    torch.testing.assert_close(counts, (logits / temperature).softmax(0), atol=0.03, rtol=0)


def test_forbidden_tokens_never_come_and_logits_stay_as_they_are():
    logits = torch.tensor([9.0, 0.0, -1.0, 8.0])
    drawn = {draw(logits, temperature, torch.Generator().manual_seed(0), never=(0, 3)) for temperature in (0.0, 1.0, 5.0)}
    assert drawn <= {1, 2}
    assert logits.tolist() == [9.0, 0.0, -1.0, 8.0]


@pytest.mark.parametrize(
    ("prompt", "temperature", "sentence"),
    [
        (
            torch.tensor([], dtype=torch.int64),
            1.0,
            "a text is continued from its beginning, but got an empty one: give at least one token.",
        ),
        (PROMPT, -1.0, "temperature must be 0 or more, but got -1."),
        (PROMPT, float("nan"), "temperature must be 0 or more, but got nan."),
    ],
)
def test_what_cannot_be_continued_is_refused(model: Sequence, prompt: torch.Tensor, temperature: float, sentence: str):
    with pytest.raises(InputError) as error:
        next(continued(model.stream, prompt, temperature=temperature))
    assert str(error.value) == sentence
