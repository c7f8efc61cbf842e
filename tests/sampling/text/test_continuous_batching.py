"""Texts that share a decoder get what each gets alone, whatever else comes, goes or fails."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.errors import InputError
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.sampling.text.continuous_batching import ContinuousBatching, GrowingText, TextRequest, TextUpdate
from neuropil.sampling.text.filters import SamplingConfig
from neuropil.sampling.text.generation import Generation
from neuropil.sampling.text.slots import TransformerSlots
from neuropil.sampling.text.streaming import streamed

BYTES = [b"a", b"b", b"c", b" ", b"\xc3", b"\xa9", b"\xe2", b"\x82", b"\xac", b"d", b"e", b"<end>"]
END, NEVER, CONTEXT, SLOTS = 11, (10,), 24, 3
GREEDY = SamplingConfig(temperature=0.0)


def decode(tokens: Sequence[int]) -> str:
    return b"".join(BYTES[token] for token in tokens).decode(errors="replace")


def small_model() -> GPT2:
    torch.manual_seed(1)
    model = GPT2(GPT2Config(width=16, heads=2, layers=2, feed_forward=24, context=CONTEXT, vocabulary_size=12)).eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model


MODEL = small_model()


def batching(piece: int = 4, decoder: TransformerSlots | None = None) -> ContinuousBatching:
    return ContinuousBatching(decoder or TransformerSlots(MODEL, SLOTS), decode, end=END, never=NEVER, piece=piece)


def alone(request: TextRequest) -> tuple[str, str]:
    """By `Generation`, which knows nothing of slots: the text, and why it ends."""
    prompts = [list(request.prompt)]
    writing = Generation(
        MODEL.step,
        MODEL.begin(),
        prompts,
        sampling=request.sampling,
        length=request.length,
        samples=request.sample + 1,
        end=END,
        never=NEVER,
        context=CONTEXT,
        seed=request.seed,
    )
    pieces = [piece for piece in streamed(writing, decode, prompts, request.stops) if piece.row == request.sample]
    ended = writing.ended[request.sample]
    return "".join(piece.text for piece in pieces), pieces[-1].ended or "" if pieces else ended or ""


def finish(batch: ContinuousBatching) -> dict[GrowingText, list[TextUpdate]]:
    found: dict[GrowingText, list[TextUpdate]] = {}
    while not batch.idle:
        for update in batch.step():
            found.setdefault(update.growing, []).append(update)
    return found


def outcome(updates: Sequence[TextUpdate]) -> tuple[str, str]:
    assert [update.ended for update in updates[:-1]] == [None] * (len(updates) - 1)
    return "".join(update.text for update in updates), updates[-1].ended or ""


sampling = {"temperature": [0.0, 0.7, 1.5], "top_p": [0.8, 1.0], "repetition_penalty": [1.0, 1.3]}
options = st.fixed_dictionaries(
    {
        "prompt": st.lists(st.integers(0, 11), min_size=1, max_size=CONTEXT),
        "sampling": st.fixed_dictionaries({name: st.sampled_from(values) for name, values in sampling.items()}),
        "length": st.none() | st.integers(0, 12),
        "stops": st.lists(st.sampled_from(["é", "ab", "€ a", "c"]), max_size=2),
        "seed": st.integers(0, 5),
        "sample": st.integers(0, 1),
    }
)


@settings(max_examples=15)
@given(asked=st.lists(st.tuples(options, st.integers(0, 4)), min_size=1, max_size=7), piece=st.integers(1, 30))
def test_every_text_is_the_one_that_it_would_be_alone(asked: list[tuple[dict[str, Any], int]], piece: int):
    arrivals = [
        (TextRequest(**{**each, "sampling": SamplingConfig(**each["sampling"])}), steps) for each, steps in asked
    ]
    batch, updates = batching(piece), dict[GrowingText, list[TextUpdate]]()

    def step() -> None:
        for update in batch.step():
            updates.setdefault(update.growing, []).append(update)

    texts = []
    for request, steps in arrivals:
        texts.append(batch.add(request))
        for _ in range(steps):
            step()
    while not batch.idle:
        step()
    assert [outcome(updates[text]) for text in texts] == [alone(request) for request, _ in arrivals]
    assert sorted(batch.free) == list(range(SLOTS))


def test_a_long_prompt_is_read_in_pieces_between_which_the_others_write():
    batch = batching(piece=5)
    short, long = (batch.add(TextRequest(prompt, GREEDY, length=8)) for prompt in ([1], [0, 1, 2, 3] * 5))
    written = [[update.growing for update in batch.step()] for _ in range(9)]
    # 1 + 4 tokens, then of the long prompt 5 at a time, after each of which the short text gets a token.
    assert written == [[short], [short], [], [short], [], [short], [], [short], [long]]
    assert long.read == 20


def test_what_is_cancelled_leaves_its_slot_to_who_waits():
    batch = batching()
    texts = [batch.add(TextRequest([1], GREEDY, length=20)) for _ in range(SLOTS + 2)]
    batch.step()
    assert [text.slot is not None for text in texts] == [True, True, True, False, False]
    batch.cancel(texts[1])
    batch.cancel(texts[4])  # which waits
    freed = texts[1].slot
    batch.step()
    assert texts[3].slot == freed
    batch.cancel(texts[1])  # again, which changes nothing
    updates = finish(batch)
    assert [text for text in texts if text in updates] == [texts[0], texts[2], texts[3]]
    assert outcome(updates[texts[3]]) == alone(texts[3].request)


class Faulty(TransformerSlots):
    """Cannot read the token 10, which no text gets, and is half done when it notices."""

    def _append(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> np.ndarray:
        found = super()._append(slots, tokens)
        if any(10 in row for row in tokens):
            raise RuntimeError("no 10")
        return found


@pytest.mark.parametrize("scored", [False, True])  # read as a piece of a prompt, or among the tokens of a step
def test_who_fails_fails_alone(scored: bool):
    batch = batching(decoder=Faulty(MODEL, SLOTS))
    good = [TextRequest([1, 2], SamplingConfig(temperature=1.5), length=6, seed=seed) for seed in range(2)]
    bad = TextRequest([1, 2, 10], GREEDY, length=6, alternatives=1, scored_prompt=scored)
    texts = [batch.add(request) for request in (good[0], bad, good[1])]
    updates = finish(batch)
    assert [outcome(updates[texts[place]]) for place in (0, 2)] == [alone(request) for request in good]
    assert str(updates[texts[1]][-1].failure) == "no 10"
    assert sorted(batch.free) == list(range(SLOTS))


def test_logits_that_are_no_numbers_end_one_text():
    model = small_model()
    model.tokens.weight.data[9] = torch.nan  # and so, since it is tied, is every logit of 9
    batch = ContinuousBatching(TransformerSlots(model, 2), decode, never=range(9, 12))
    bad, good = (batch.add(TextRequest(prompt, GREEDY, length=3)) for prompt in ([9, 1], [1]))
    updates = finish(batch)
    rule = "some token must be possible next, but got logits that are all masked, or NaN."
    assert str(updates[bad][-1].failure) == rule
    assert sum(update.written for update in updates[good]) == 3


@pytest.mark.parametrize("length", [0, 3])
@pytest.mark.parametrize("prompt", [[4], [4, 5, 0, 3, 1]])
def test_scores_are_log_probabilities_of_the_whole_text(prompt: list[int], length: int):
    batch = batching()
    text = batch.add(TextRequest(prompt, GREEDY, length=length, alternatives=2, scored_prompt=True))
    other = batch.add(TextRequest([1, 2, 3], GREEDY, length=12))
    updates = finish(batch)
    scores = [score for update in updates[text] for score in update.scores]
    tokens = [score.token for score in scores]
    assert tokens[: len(prompt)] == prompt
    assert len(tokens) == len(prompt) + length
    assert outcome(updates[text]) == alone(text.request)
    assert outcome(updates[other]) == alone(other.request)
    with torch.no_grad():
        expected = MODEL(torch.tensor([tokens]))[0].double().log_softmax(-1)
    assert scores[0][1:] == (None, [])
    for place, score in enumerate(scores[1:]):
        assert score.log_probability == pytest.approx(float(expected[place, tokens[place + 1]]), abs=1e-5)
        best = expected[place].topk(2)
        assert [token for token, _ in score.alternatives] == best.indices.tolist()
        assert [share for _, share in score.alternatives] == pytest.approx(best.values.tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (
            TextRequest([], GREEDY),
            "a text is continued from its beginning, but got an empty one: give at least one token.",
        ),
        (
            TextRequest([1] * 25, GREEDY),
            "a prompt must fit into the model's context of 24 tokens, but got one of 25: "
            "shorten it, or give its last 24 tokens only.",
        ),
        (TextRequest([1, 12], GREEDY), "tokens are numbers from 0 to 11, but got 12."),
        (TextRequest([1], GREEDY, length=-1), "length must be 0 or more, but got -1."),
        (TextRequest([1], GREEDY, stops=[""]), "a stop string must have at least one character, but got an empty one."),
    ],
)
def test_what_cannot_be_written_is_refused(request_: TextRequest, said: str):
    batch = batching()
    with pytest.raises(InputError) as caught:
        batch.add(request_)
    assert str(caught.value) == said
    assert batch.idle


def test_a_piece_has_a_token():
    with pytest.raises(InputError) as caught:
        batching(piece=0)
    assert str(caught.value) == "a piece of a prompt has one token or more, but got 0."
