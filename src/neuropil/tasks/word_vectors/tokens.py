"""The token embedding of any model, asked as word vectors are: neighbours, analogies, the odd one out."""

from jaxtyping import Float
from torch import Tensor

from neuropil.data.tokenizers.encoding import AnyTokenizer
from neuropil.tasks.word_vectors.vectors import WordVectors


def token_vectors(tokenizer: AnyTokenizer, embedding: Float[Tensor, "token width"]) -> WordVectors:
    """Of tokens that look alike, such as bytes that are no character alone, the first."""
    first: dict[str, int] = {}
    for number in range(min(len(tokenizer), len(embedding))):
        first.setdefault(tokenizer.tokens([number])[0], number)
    return WordVectors(list(first), embedding.detach().float().cpu()[list(first.values())])


def spelling(vectors: WordVectors, word: str) -> str:
    """As the vocabulary has a word that was typed: GPT-2's has a space before it, and others have no capitals."""
    tried = (word, f" {word}", word.lower(), f" {word.lower()}")
    return next((each for each in tried if each in vectors), word)
