"""Whatever is sent, the answer is one sentence and the client's fault."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_server import Served
from neuropil.server.completions import CompletionFields
from neuropil.server.fields import parse_body, read_fields
from neuropil.server.refusals import Refusal

NO_JSON = "A request must be JSON, its texts Unicode and its numbers finite."


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", NO_JSON),
        (b"{", NO_JSON),
        (b"\xff", NO_JSON),
        (b'{"prompt": NaN}', NO_JSON),
        (b'{"prompt": "a", "temperature": -Infinity}', NO_JSON),
        (b'{"prompt": "\\ud800"}', NO_JSON),
        (b'{"a":' * 100_000, NO_JSON),
        (b"[" * 100_000 + b"]" * 100_000, NO_JSON),
        (b'{"seed": ' + b"1" * 5000 + b"}", NO_JSON),
        (b"[]", "A request must be a JSON object, but got a list."),
        (b"null", "A request must be a JSON object, but got null."),
        (b'"x"', "A request must be a JSON object, but got a text."),
        (b"true", "A request must be a JSON object, but got a boolean."),
        (b"1", "A request must be a JSON object, but got a number."),
        (b'{"model": "gpt2", "prompt": "a", "temperature": 1e999}', "temperature must be at most 10, but got inf."),
    ],
)
def test_what_is_no_request_is_refused(served: Served, body: bytes, said: str):
    status, message, _ = served.error("/v1/completions", body)
    assert (status, message) == (400, said)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from([each.name for each in CompletionFields().options()]) | st.text(max_size=8)


@settings(max_examples=60)
@given(st.dictionaries(names, values, max_size=4))
def test_any_fields_are_read_or_refused(body: dict[str, object]):
    refused: list[Refusal] = []
    try:
        read_fields(CompletionFields, body)
    except Refusal as refusal:
        refused.append(refusal)
    assert all(each.status == 400 and each.param in body for each in refused)


def test_a_long_value_is_not_sent_back_whole():
    with pytest.raises(Refusal) as caught:
        read_fields(CompletionFields, {"max_tokens": "x" * 10_000})
    message = caught.value.body()["error"]["message"]
    assert message.startswith('max_tokens must be a whole number or null, but got "xxx')
    assert len(message) == 600


def test_a_whole_request_is_read():
    assert parse_body('{"prompt": "é\\u20ac", "n": 2}'.encode()) == {"prompt": "é€", "n": 2}
