"""Words for the places that a text leaves open, and what BERT expects in the place of every other word."""

import math
from typing import Any

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.lab.bounds import require_length
from neuropil.runs.run import Run
from neuropil.tasks.masked_language_modelling.expectations import expectations

EXAMPLE = "the function returns a [MASK] of the list, or [MASK] if it is empty"
MOST_CHARACTERS, MOST_TOKENS, MOST_MASKS = 300, 48, 8
SHOWN, EXPECTED = 8, 5


class FillRequest(Config):
    text: str = option(EXAMPLE, "text with [MASK] where a word is missing")

    def validate(self) -> None:
        require_length("text", self.text, MOST_CHARACTERS)


def open_view(run: Run) -> dict[str, Any]:
    found = {"system": run.name, "text": EXAMPLE, "mask": run.predictor.mask_token, "characters": MOST_CHARACTERS}
    return found | {"shown": read(run, FillRequest())}


def read(run: Run, request: FillRequest) -> dict[str, Any]:
    filler, text = run.predictor, request.text
    masks, tokens = text.count(filler.mask_token), len(filler.tokenizer.encode([text])[0])
    if masks > MOST_MASKS:
        raise InputError(f"a text may leave at most {MOST_MASKS} places open", got=f"{masks}")
    if tokens > MOST_TOKENS:
        raise InputError(f"a text must have at most {MOST_TOKENS} tokens", got=f"{tokens}", fix="shorten it")
    places: list[list[list[Any]]] = [[] for _ in range(masks)]
    for each in filler.fill(text, SHOWN) if masks else []:
        places[each.place - 1].append([each.word, each.share, each.text])
    if not tokens:
        return {"places": places, "tokens": [], "shares": [], "bits": [], "expected": []}
    found = expectations(filler, text, EXPECTED)
    shares = [None if hidden else share for hidden, share in zip(found.hidden, found.shares.tolist(), strict=True)]
    return {
        "places": places,
        "tokens": found.tokens,
        "shares": shares,
        "bits": [None if share is None else -math.log2(max(share, 1e-30)) for share in shares],
        "expected": [list(map(list, each)) for each in found.best],
    }


ACTIONS = {"open": open_view, "read": read}
