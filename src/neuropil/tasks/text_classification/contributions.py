"""What each word of a text adds to the probabilities of the classes: the text is read again without it.

    contribution of w to c = p(c | text) − p(c | text without w)

Words that say the same thing cover for each other, so that none of them may seem to matter.
"""

import re
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from neuropil.tasks.predictor import Classifies

WORD = re.compile(r"\w+|[^\w\s]+")


@dataclass(frozen=True)
class Contributions:
    text: str
    places: list[tuple[int, int]]
    """Where each word begins and ends in the text."""
    whole: Float[Tensor, " class"]
    """The probabilities of the classes for the whole text."""
    without: Float[Tensor, "word class"]
    """For the text without each word."""

    @property
    def of_words(self) -> Float[Tensor, "word class"]:
        # p(c | text) − p(c | text without w)
        return self.whole - self.without


def contributions(classifier: Classifies, text: str) -> Contributions:
    """In one batch, whatever the classifier's tokens are."""
    places = [word.span() for word in WORD.finditer(text)]
    shortened = [text[:begin] + text[end:] for begin, end in places]
    scores = classifier.classify([text, *shortened]).scores
    return Contributions(text, places, scores[0], scores[1:])
